"""What can go wrong, as one family of exceptions."""

from collections.abc import Mapping, Sized
from typing import Any, Final

_LONGEST_SHOWN: Final = 64


class SiroccoError(Exception):
    """Every error of this package."""


class BadInput(SiroccoError, ValueError):
    """A value of the caller's that the service would refuse; nothing was sent."""

    def __init__(self, field: str, rule: str, value: object = None) -> None:
        shown = "" if value is None else f" = {_shown(value)}"
        super().__init__(f"{field}{shown}: {rule}")
        self.field, self.rule, self.value = field, rule, value


class Refused(SiroccoError):
    """The service understood and said no; to send the same again is of no use.

    `kind` is the last part of the problem's `type`, such as `broken-rule`; `field`, `rule` and
    `value` say what was wrong where the service does, and `members` holds the whole problem.
    """

    def __init__(self, status: int, members: Mapping[str, Any]) -> None:
        self.status = status
        self.members = members
        self.kind = str(members.get("type", "")).rpartition(":")[2] or f"status-{status}"
        self.detail = str(members.get("detail", f"status {status}"))
        self.field: str | None = members.get("field")
        self.rule: str | None = members.get("rule")
        self.value: str | None = members.get("value")
        super().__init__(f"{self.kind}: {self.detail}")


class Unavailable(SiroccoError):
    """There is no answer: the service cannot be reached, or says that it cannot answer now.

    `tries` is how often it was tried; `status` is that of the last response, if there was one.
    """

    def __init__(self, reason: str, tries: int = 1, status: int | None = None) -> None:
        super().__init__(f"{reason}, after {tries} {'try' if tries == 1 else 'tries'}")
        self.tries, self.status = tries, status


class TimedOut(Unavailable):
    """The deadline passed before the answer was there."""


class BadAnswer(Unavailable):
    """Something answered that is not the service, or not whole."""


class BufferFull(SiroccoError):
    """The event was not taken: as many events or bytes wait as may."""

    def __init__(self, waiting: int, waiting_bytes: int) -> None:
        super().__init__(f"{waiting} events of {waiting_bytes} bytes wait already")
        self.waiting, self.waiting_bytes = waiting, waiting_bytes


class Closed(SiroccoError):
    """It was closed before."""


class BadAtlas(SiroccoError, ValueError):
    """These bytes are no atlas that can be read here."""


class NoAtlas(SiroccoError):
    """No atlas has come yet."""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def length_of(field: str, values: Sized) -> int:
    """How many there are; raises BadInput on what is no column, such as a number."""
    try:
        return len(values)
    except TypeError:
        raise BadInput(field, "must be a string or one for each score", values) from None


def checked_number(field: str, value: Any, rule: str) -> float:
    """A single number; raises BadInput on what is none."""
    # A numpy scalar is welcome, a string is not, though float() would read it.
    if isinstance(value, (str, bytes, bool)):
        raise BadInput(field, rule, value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(field, rule, value) from None
