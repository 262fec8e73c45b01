"""For experiments that no one watches."""


def no_progress(share: float) -> None:
    """Tell no one."""
