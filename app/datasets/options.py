"""How a user wants the values of a log to be read, and which rows were left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from app.errors import CommandError

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
UNITS: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""How many of each are a second."""
_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def number_of(value: Any) -> float:
    """As Arrow reads it with blanks around; ValueError of what Python takes for numbers besides:
    1_000, and digits of other scripts."""
    if isinstance(value, str) and ("_" in value or not value.strip().isascii()):
        raise ValueError(value)
    return float(value)


def epoch_seconds_of(text: str, zone: tzinfo | None = None, per_second: float = 1.0) -> float:
    """Of a number, of which `per_second` are a second, or of RFC 3339 text (without a zone: in
    `zone`, None being UTC); ValueError of anything else."""
    text = text.strip()
    try:
        return number_of(text) / per_second
    except ValueError:
        time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=zone or UTC)).timestamp()


def out_of_range(seconds: float, unit: str = "s", hint: str = "give --time-unit {}") -> str:
    """What is wrong with a moment outside of [EARLIEST, LATEST), read as a number of `unit`.

    `hint` says what to do where another unit is likely.
    """
    rule = "the year must be from 2000 to 2099"
    for other, per_second in UNITS.items():
        if EARLIEST <= seconds * UNITS[unit] / per_second < LATEST:
            return f"{rule} (these look like {_NAMES[other]}: {hint.format(other)})"
    return rule


_TAB: Final = {"tab": "\t", "\\t": "\t"}
_MOST_EXAMPLES = 5


class SkippedRows:
    """How many rows were skipped, why, and some of them; and the columns with times that are dates
    alone."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.examples: list[str] = []
        self.dates: set[str] = set()

    def add(self, rows: int, why: str, examples: Sequence[str]) -> None:
        """So many rows for one reason."""
        self.reasons[why] += rows
        self.examples += examples[: _MOST_EXAMPLES - len(self.examples)]

    def notes(self) -> list[str]:
        """One sentence for the rows, where any were skipped, and one for each column of dates."""
        rule = "dates without an hour: all rows of such a day count in its first hour"
        dates = [f"Column {name!r} has {rule}." for name in sorted(self.dates)]
        rows = self.reasons.total()
        if not rows:
            return dates
        counts = "; ".join(f"{count:,} where {why}" for why, count in self.reasons.most_common())
        skipped = f"{rows:,} {'rows were' if rows > 1 else 'row was'} skipped: {counts}."
        return [f"{skipped} Among them: {'; '.join(self.examples)}.", *dates]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the values of a log are read.

    delimiter : what separates the columns of a text file; None is told by its name.
    time_unit : of times that are numbers: s, ms, us or ns since 1970.
    time_zone : of times without a zone, as in Europe/Vienna; None is UTC.
    percent : scores are from 0 to 100.
    skip_bad : rows that break a rule are counted in `skipped`, and left out.

    Raises `CommandError` where one of them is not possible.
    """

    delimiter: str | None = None
    time_unit: str = "s"
    time_zone: str | None = None
    percent: bool = False
    skip_bad: bool = False
    skipped: SkippedRows = field(default_factory=SkippedRows, compare=False)

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _TAB.get(self.delimiter, self.delimiter))
            if len(str(self.delimiter).encode()) != 1 or str(self.delimiter) in '"\r\n':
                raise CommandError(
                    f"--delimiter {self.delimiter!r}: give one character, such as ';', or tab"
                )
        if self.time_unit not in UNITS:
            raise CommandError(f"--time-unit {self.time_unit!r}: must be one of {', '.join(UNITS)}")
        _ = self.zone

    @property
    def per_second(self) -> float:
        """How many of a time that is a number are a second."""
        return UNITS[self.time_unit]

    @property
    def zone(self) -> ZoneInfo | None:
        """The zone of times without one; None is UTC."""
        try:
            return None if self.time_zone is None else ZoneInfo(self.time_zone)
        except (OSError, ValueError, KeyError) as error:
            raise CommandError(
                f"--time-zone {self.time_zone!r}: give a name such as Europe/Vienna or UTC"
            ) from error
