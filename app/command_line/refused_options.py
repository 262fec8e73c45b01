"""Options that do not go together."""

from collections.abc import Mapping

from app.command_line.errors import CommandError


def refuse(given: Mapping[str, object], why: str) -> None:
    """A `CommandError` about the first option that has a value; None is none."""
    for option, value in given.items():
        if value is not None:
            raise CommandError(f"{option} {why}")
