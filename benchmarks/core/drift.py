"""Drift: false alarms of the jump detector, how soon it finds jumps, and what that saves.

Columns are expected positives an hour of a campaign. False alarms are counted over a day of hourly
refits of campaigns that do not jump: where nothing happens, where the ratio follows a day's cycle
of +-30 %, where it walks by 5 % an hour, where each hour is off by 10 %. A jump is found when it is
more likely than not, by the refits of each hour after it. The excess log loss, per thousand
positives, is that of the first hours after a jump by a factor of 2.5 up or down, at any minute of
an hour, of half of the campaigns, over the truth; with a stand-in for the shape, the level of each
campaign over 48 hours.

The last row is of alerts by sequential bounds where nothing is wrong but the error of `pooled`'s
own estimate: see `false_alerts`.

    python -m benchmarks drift [--json]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.guard import table_of
from benchmarks.figures import Cell, Table
from benchmarks.parts import Part
from calibrators import History
from calibrators.evidence import ESTIMATE_ROOM, HOURLY_SD, PcocEvidence, bound_of
from calibrators.guard import guard
from calibrators.pooled import Pooled
from calibrators.pooled.change_points import hour_weights
from calibrators.pooled.levels import CountedHours, LevelHierarchy
from calibrators.pooled.outliers import CampaignHours
from calibrators.samples import Floats
from evaluation.simulation.ad_platform import Platform

SLOTS = 12
"""In an hour."""

WINDOW = 48
"""Hours that are looked at, and hours before the first jump."""

_SHAPE_POSITIVES = 20.0
_SHAPE_HALF_LIFE = 24.0


@dataclass(frozen=True, slots=True)
class Campaigns:
    """By campaign and slot: expected positives, true means and drawn positives, (c, s) each."""

    expected: Floats
    true: Floats
    observed: Floats

    def hours_until(self, now: int) -> tuple[Floats, Floats, Floats]:
        """Expected and observed positives by hour, (c, h), of the slots before `now`, and ages,
        (h,); the last hour may be part-filled."""
        begins = np.arange(0, now, SLOTS)[-WINDOW:]
        ages = (now - (begins + np.append(begins[1:], now)) / 2) / SLOTS
        expected, observed = (
            np.add.reduceat(slots[:, :now], begins, axis=1)
            for slots in (self.expected, self.observed)
        )
        return expected, observed, ages


def drawn(positives: float, logs: Floats, rng: np.random.Generator) -> Campaigns:
    """Of `positives` an hour on average, with a day's cycle, at log ratios of (c, s)."""
    traffic = positives / SLOTS * (1 + 0.5 * np.sin(2 * np.pi * hours_of(logs) / 24))
    expected = traffic * rng.gamma(25.0, 1 / 25.0, logs.shape)
    true = expected * np.exp(logs)
    return Campaigns(expected, true, rng.poisson(true).astype(np.float64))


def hours_of(logs: Floats) -> Floats:
    """The hour of each slot, (s,)."""
    return np.arange(logs.shape[1]) / SLOTS


def walks(shape: tuple[int, int], step: float, rng: np.random.Generator) -> Floats:
    """Log ratios that move by `step` an hour, a random walk."""
    return np.cumsum(rng.normal(0, step / SLOTS**0.5, shape), axis=1)


def cycles(shape: tuple[int, int], height: float, rng: np.random.Generator) -> Floats:
    """Log ratios that follow the day, each campaign at hours of its own."""
    hours = np.arange(shape[1]) / SLOTS
    return height * np.sin(2 * np.pi * (hours / 24 + rng.random((shape[0], 1))))


def jumps(count: int, after: int, size: float, rng: np.random.Generator) -> Floats:
    """Log ratios of campaigns half of which jump at any minute of the first of `after` hours, every
    second of them up by `size`, the others down."""
    begins = SLOTS * WINDOW + rng.integers(0, SLOTS, (count, 1))
    sizes = size * np.resize([1.0, 0.0, -1.0, 0.0], (count, 1))
    return np.where(np.arange(SLOTS * (WINDOW + after)) >= begins, sizes, 0.0)


def excess(seen: Campaigns, minutes: int, weighted: bool) -> Floats:
    """Log loss over that of the truth, in nats, (c, s), from `WINDOW` on: what is served is
    refitted every so many minutes."""
    lost = np.zeros_like(seen.expected)
    step = minutes * SLOTS // 60
    for first in range(SLOTS * WINDOW, seen.expected.shape[1], step):
        slots = slice(first, first + step)
        mean = seen.expected[:, slots] * _served(seen, first, weighted)[:, None]
        true = seen.true[:, slots]
        lost[:, slots] = true * np.log(true / mean) - true + mean
    return lost


def _served(seen: Campaigns, now: int, weighted: bool) -> Floats:
    """The ratio of each campaign, (c,): a stand-in for the shape, its level over the window, drawn
    to that of all, and the fast levels on it."""
    expected, observed, ages = seen.hours_until(now)
    hours = hour_weights(expected, observed, ages)
    if not weighted:
        hours = replace(hours, weights=np.ones(expected.shape), begun=np.ones(expected.shape))
    recent = hours.weights * np.exp2(-ages / _SHAPE_HALF_LIFE)
    y, e = (observed * recent).sum(axis=1), (expected * recent).sum(axis=1)
    usual = y.sum() / e.sum()
    own = (y + _SHAPE_POSITIVES) / (usual * e + _SHAPE_POSITIVES)
    shape = usual * own
    variances = np.full(len(own), np.mean(np.log(own) ** 2))
    levels = {"fitted": np.log(own), "variances": variances}
    block = CampaignHours.of(expected * shape[:, None], observed, **levels)
    block = block._replace(weights=hours.weights, begun=hours.begun)
    counted = CountedHours.of(hours.outage, ages)
    found = LevelHierarchy.of([block], counted).levels([block])
    return np.asarray(shape * np.exp(found.shifts))


POSITIVES = (3, 10, 30, 100, 1000)
JUMPS = (1.5, 2.0, 3.0, 6.0, 0.67, 0.5, 0.33)
MINUTES = (60, 15, 5)
PERIODS = {"hours 1-2": (0, 2), "hours 3-4": (2, 4), "hours 5-6": (4, 6)}
DAY = 24
COUNT = 200
SIZE = float(np.log(2.5))
REFITS = 240
DRAWN, DRAWS = 10_000, 6


def measure(
    count: int = COUNT,
    traffic: tuple[int, ...] = POSITIVES,
    refits: int = REFITS,
    minutes: tuple[int, ...] = MINUTES,
) -> Table:
    """All rows."""
    columns = {f"{positives:,} an hour": positives for positives in traffic}
    rows: dict[str, Mapping[str, Cell]] = {}
    for name, course in _courses(count).items():
        title = f"false alarms per 100 campaign-days, {name}"
        rows[title] = {at: _alarms(count, each, course) for at, each in columns.items()}
    for factor in JUMPS:
        title = f"hours until a jump x {factor:g} is found, median"
        rows[title] = {at: _delay(count, each, factor) for at, each in columns.items()}
    found = {at: _losses(count, each, minutes) for at, each in columns.items()}
    for title in found[next(iter(columns))]:
        rows[title] = {at: losses[title] for at, losses in found.items()}
    rows[f"alerts of {DRAWN:,} fitted campaigns in {refits} h, {DRAWS} times"] = false_alerts(
        refits
    )
    return rows


def false_alerts(refits: int) -> dict[str, Cell]:
    """How many campaigns have evidence above the bound, with room for the estimate and without, and
    the most evidence: 120 campaigns that never change are refitted hourly, guarded; each of 10,000
    draws clicks with the predicted and true means of one of them and the noise of an hour."""
    predicted, true = _served_and_true(refits)
    most = [_most_evidence(predicted, true, np.random.default_rng(draw)) for draw in range(DRAWS)]
    bound = bound_of(DRAWN)
    return {
        "above the bound": float(np.sum(np.hstack(most) >= bound)),
        "above it less its room": float(np.sum(np.hstack(most) >= bound - ESTIMATE_ROOM)),
        "most evidence": float(np.max(most)),
    }


def _served_and_true(refits: int) -> tuple[Floats, Floats]:
    """Expected positives an hour by what is served, and in truth, (c, h) each."""
    platform = Platform(120, 36_000, seed=5, drift=0.0)
    seen = {hour: table_of(platform.hour(hour)) for hour in range(WINDOW + 1)}
    method, memory, in_force, sums = Pooled(), None, None, []
    for now in range(WINDOW + 1, WINDOW + 1 + refits):
        window = {hour: table for hour, table in seen.items() if hour >= now - WINDOW}
        fitted = method.refit(History(float(now), (window,)), memory=memory, trial=True)
        memory, trial = fitted.memory, fitted.trial or fitted.atlas
        newest, aside = (seen[now - 1],), fitted.set_aside
        in_force = guard(fitted.atlas, trial, in_force, newest, set_aside=aside).atlas
        happened = platform.hour(now)
        events, rows = happened.events, in_force.rows(happened.events.campaigns)
        served = in_force.look_up(rows[events.rows], events.scores)
        places = np.searchsorted(platform.names, events.campaigns)[events.rows]
        sums.append([np.bincount(places, each, 120) for each in (served, happened.truth)])
        seen[now] = table_of(happened)
    predicted, true = np.array(sums).transpose(1, 2, 0)
    often = (true > 0).mean(axis=1) > 0.5
    return predicted[often], true[often]


def _most_evidence(predicted: Floats, true: Floats, rng: np.random.Generator) -> Floats:
    """Of each campaign, (DRAWN,)."""
    found, names = PcocEvidence.empty(), tuple(f"{number:05}" for number in range(DRAWN))
    like, most = rng.integers(0, len(true), DRAWN), np.full(DRAWN, -np.inf)
    for hour in range(true.shape[1]):
        noise = rng.gamma(HOURLY_SD**-2, HOURLY_SD**2, DRAWN)
        came = rng.poisson(true[like, hour] * noise).astype(np.float64)
        found = found.after(hour, names, predicted[like, hour], came)
        most = np.maximum(most, found.directions.max(axis=0))
    return most


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


def _losses(count: int, positives: int, every: tuple[int, ...]) -> dict[str, Cell]:
    rng = np.random.default_rng(3)
    after = max(behind for _, behind in PERIODS.values())
    shape = (count, SLOTS * (WINDOW + after))
    logs = jumps(count, after, SIZE, rng) + walks(shape, 0.03, rng)
    logs += cycles((1, shape[1]), 0.15, rng)
    seen = drawn(positives, logs, rng)
    rows: dict[str, Cell] = {}
    for minutes in every:
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
