"""A platform of clicks whose conversions depart from the delays of the paper: they come sooner or
later from a day on, wait for Saturday, or are cancellations of bookings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calibrators.samples import Floats, check_rules
from evaluation import ClickPlatform
from evaluation.backtest.event_table import Rows
from evaluation.simulation.click_platform import ClickHour, Drawn
from pccem import Categorical, Column, Features

_DAY = 86_400.0
_SATURDAY_OF_1970 = 2 * _DAY
_LOG_LEAD, _LOG_LEAD_SPREAD = 3.0, 1.0
"""Of the days between a booking and its stay: a median of 20."""


@dataclass(frozen=True)
class LateConversions:
    """Departures from the delays of the paper; the default is none.

    beyond : share of the conversions that come after the attribution window, and do not count.
    saturdays : share of the conversions of other days' clicks that wait for Saturday (UTC).
    turn : hour from which on clicks have the two changes below.
    rise : factor of the odds of a conversion.
    pace : delays are divided by it: 3 makes them three times shorter. Those that reach the window
        do not count.
    leads : whether clicks are bookings and conversions cancellations: each comes at some moment
        between booking and stay, and a stay that is far off is cancelled more often.
    """

    beyond: float = 0.0
    saturdays: float = 0.0
    turn: int = 0
    rise: float = 1.0
    pace: float = 1.0
    leads: bool = False

    def __post_init__(self) -> None:
        check_rules(
            self,
            beyond=(0 <= self.beyond < 1, "from 0 to below 1"),
            saturdays=(0 <= self.saturdays <= 1, "from 0 to 1"),
            turn=(self.turn >= 0, "at least 0"),
            rise=(0 < self.rise < np.inf, "above 0, finite"),
            pace=(0 < self.pace < np.inf, "above 0, finite"),
        )

    def odds(self, hour: int) -> float:
        """What an hour's clicks add to the log-odds of a conversion."""
        return float(np.log(self.rise)) if hour >= self.turn else 0.0

    def delays(self, drawn: Floats, times: Floats, hour: int, rng: np.random.Generator) -> Floats:
        """The delays of an hour's conversions, (n,) seconds, from those of the paper; nan where
        the conversion does not count."""
        delays = drawn / self.pace if hour >= self.turn else drawn
        if self.saturdays:
            ahead = (_SATURDAY_OF_1970 - times) % (7 * _DAY)
            waited = ahead + _DAY * rng.random(len(times))
            waits = (rng.random(len(times)) < self.saturdays) & (ahead <= 6 * _DAY)
            delays = np.where(waits, waited, delays)
        if self.beyond:
            delays = np.where(rng.random(len(times)) < self.beyond, np.nan, delays)
        return np.asarray(delays)

    def leads_of(self, n: int, rng: np.random.Generator) -> Floats:
        """Days from booking to stay, (n,)."""
        return np.exp(_LOG_LEAD + _LOG_LEAD_SPREAD * rng.normal(0.0, 1.0, n))


def lead_appeal(leads: Floats) -> Floats:
    """What a booking's lead adds to the log-odds of its cancellation, (n,)."""
    return 0.6 * (np.log(leads) - _LOG_LEAD) / _LOG_LEAD_SPREAD


def until_stay(leads: Floats, rng: np.random.Generator) -> Floats:
    """Seconds from booking to cancellation, (n,): any moment between booking and stay."""
    return leads * _DAY * rng.random(len(leads))


def hidden(columns: Mapping[str, Column], rows: NDArray[np.bool_]) -> dict[str, Column]:
    """The columns, missing in these rows, (n,)."""
    return {
        name: Categorical(np.where(rows, np.int32(-1), column.codes), column.categories)
        if isinstance(column, Categorical)
        else np.where(rows, np.nan, column)
        for name, column in columns.items()
    }


_LEAD_DAYS = "feature.lead_days"


@dataclass(frozen=True)
class LatePlatform(ClickPlatform):
    """With these departures; without any it is the platform itself.

    late : how delays differ.
    untold : share of the clicks that bring neither features nor behaviours.
    """

    late: LateConversions = LateConversions()
    untold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rules(self, untold=(0 <= self.untold <= 1, "from 0 to 1"))

    def _closing(self, hour: int, rows: Rows, rng: Generator) -> tuple[Floats, Drawn]:
        closing, drawn = super()._closing(hour, rows, rng)
        closing = closing + self.late.odds(hour)
        if not self.late.leads:
            return closing, drawn
        leads = self.late.leads_of(len(rows), rng)
        return closing + lead_appeal(leads), {_LEAD_DAYS: leads}

    def _delays(self, hour: int, rows: Rows, times: Floats, drawn: Drawn, rng: Generator) -> Floats:
        if self.late.leads:
            delays = until_stay(drawn[_LEAD_DAYS], rng)
        else:
            delays = super()._delays(hour, rows, times, drawn, rng)
        return self.late.delays(delays, times, hour, rng)

    def _draw(self, hour: int, rows: Rows, times: Floats, rng: Generator) -> ClickHour:
        found = super()._draw(hour, rows, times, rng)
        if not self.untold:
            return found
        clicks = found.stream.clicks
        columns = hidden(clicks.features.columns, rng.random(len(rows)) < self.untold)
        told = replace(clicks, features=Features(columns, len(rows)))
        return replace(found, stream=replace(found.stream, clicks=told))
