"""What the click log raises."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.object_stores import meaning


class ClickLogError(Exception):
    """Any failure of the click log."""


class ClickLogUnavailable(ClickLogError):
    """The folder or object store is away, full or refuses."""


class NewerPart(ClickLogError):
    """A part was written by a newer version of sirocco; it is left as it is."""

    def __init__(self, version: str, known: int) -> None:
        super().__init__(f"click log schema_version {version}: only up to {known} is known")


class DamagedPart(ClickLogError):
    """A part's bytes are not what was written."""


@contextmanager
def reaching_the_click_log() -> Iterator[None]:
    """Turns whatever the file system raises into ClickLogUnavailable; also a decorator."""
    try:
        yield
    except OSError as error:
        raise ClickLogUnavailable(f"the click log failed: {meaning(error)}") from error
