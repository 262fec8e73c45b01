"""How a command tells its user that it cannot go on."""

BAD_INPUT = 2
FAILED = 1


class CommandError(Exception):
    """One sentence that says what is wrong and what to do; the command ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = exit_code
