"""Drift: false alarms of the jump detector, how soon it finds jumps, and what that saves.

Columns are expected positives an hour of a campaign. False alarms are counted over a day of hourly
refits of campaigns that do not jump: where nothing happens, where the ratio follows a day's cycle
of +-30 %, where it walks by 5 % an hour, where each hour is off by 10 %. A jump is found when it is
more likely than not, by the refits of each hour after it. The excess log loss, per thousand
positives, is that of the first hours after a jump by a factor of 2.5 up or down, at any minute of
an hour, of half of the campaigns, over the truth; with a stand-in for the shape, the level of each
campaign over 48 hours.

    python -m benchmarks.drift [--json]
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_platform import (
    SLOTS,
    WINDOW,
    Campaigns,
    cycles,
    drawn,
    excess,
    jumps,
    walks,
)
from benchmarks.figures import Cell, Table
from benchmarks.parts import Part, main
from calibrators.pooled.change_points import hour_weights
from calibrators.samples import Floats

POSITIVES = (3, 10, 30, 100, 1000)
JUMPS = (1.5, 2.0, 3.0, 6.0, 0.67, 0.5, 0.33)
MINUTES = (60, 15, 5)
PERIODS = {"hours 1-2": (0, 2), "hours 3-4": (2, 4), "hours 5-6": (4, 6)}
DAY = 24
COUNT = 200
SIZE = float(np.log(2.5))


def measure(count: int = COUNT, traffic: tuple[int, ...] = POSITIVES) -> Table:
    """All rows."""
    columns = {f"{positives:,} an hour": positives for positives in traffic}
    rows: dict[str, Mapping[str, Cell]] = {}
    for name, course in _courses(count).items():
        title = f"false alarms per 100 campaign-days, {name}"
        rows[title] = {at: _alarms(count, each, course) for at, each in columns.items()}
    for factor in JUMPS:
        title = f"hours until a jump x {factor:g} is found, median"
        rows[title] = {at: _delay(count, each, factor) for at, each in columns.items()}
    found = {at: _losses(count, each) for at, each in columns.items()}
    for title in found[next(iter(columns))]:
        rows[title] = {at: losses[title] for at, losses in found.items()}
    return rows


def _courses(count: int) -> dict[str, Callable[[np.random.Generator], Floats]]:
    shape = (count, SLOTS * (WINDOW + DAY))
    return {
        "nothing happens": lambda rng: np.zeros(shape),
        "a day's cycle": lambda rng: cycles(shape, 0.3, rng),
        "a walk": lambda rng: walks(shape, 0.05, rng),
        "uneven hours": lambda rng: np.repeat(
            rng.normal(0, 0.1, (count, WINDOW + DAY)), SLOTS, axis=1
        ),
    }


def _alarms(count: int, positives: int, course: Callable[[np.random.Generator], Floats]) -> Cell:
    rng = np.random.default_rng(1)
    seen = drawn(positives, course(rng), rng)
    said = np.array([_jumped(seen, hour) for hour in range(WINDOW, WINDOW + DAY + 1)])
    return 100 * float((said[1:] & ~said[:-1]).sum()) / count


def _jumped(seen: Campaigns, hour: int) -> NDArray[np.bool_]:
    expected, observed, ages = seen.hours_until(SLOTS * hour)
    none = np.zeros(len(ages), bool)  # All jump at once here: that is no outage.
    return hour_weights(expected, observed, ages, outage=none).jumped


def _delay(count: int, positives: int, factor: float) -> Cell:
    rng = np.random.default_rng(2)
    logs = walks((count, SLOTS * (WINDOW + DAY)), 0.02, rng)
    logs[:, SLOTS * WINDOW :] += np.log(factor)
    seen = drawn(positives, logs, rng)
    for hours in range(1, DAY + 1):
        if _jumped(seen, WINDOW + hours).mean() >= 0.5:
            return float(hours)
    return f"over {DAY}"


def _losses(count: int, positives: int) -> dict[str, Cell]:
    rng = np.random.default_rng(3)
    after = max(behind for _, behind in PERIODS.values())
    shape = (count, SLOTS * (WINDOW + after))
    logs = jumps(count, after, SIZE, rng) + walks(shape, 0.03, rng)
    logs += cycles((1, shape[1]), 0.15, rng)
    seen = drawn(positives, logs, rng)
    rows: dict[str, Cell] = {}
    for minutes in MINUTES:
        for weighted in (False, True):
            lost = excess(seen, minutes, weighted)
            title = (
                f"excess, refits every {minutes} min, hour weights {'on' if weighted else 'off'}"
            )
            rows |= {f"{title}, {name}": cell for name, cell in _by_period(seen, lost).items()}
    return rows


def _by_period(seen: Campaigns, lost: Floats) -> dict[str, Cell]:
    slots = {
        name: slice(SLOTS * (WINDOW + first), SLOTS * (WINDOW + behind))
        for name, (first, behind) in PERIODS.items()
    }
    jumped = np.arange(len(lost)) % 2 == 0
    found = {name: _per_thousand(seen, lost, jumped, some) for name, some in slots.items()}
    everything = slice(SLOTS * WINDOW, None)
    return {**found, "campaigns that did not jump": _per_thousand(seen, lost, ~jumped, everything)}


def _per_thousand(seen: Campaigns, lost: Floats, rows: NDArray[np.bool_], slots: slice) -> Cell:
    return 1000 * float(lost[rows, slots].sum() / seen.true[rows, slots].sum())


PART = Part("drift", "Drift and levels", __doc__, measure)

if __name__ == "__main__":
    main(PART)
