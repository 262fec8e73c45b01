"""Late conversions that change: the default labels beside others where delays or rates move.

A platform with each change (`research.late_conversions`), 21 days of which the last 7
are evaluated by their final conversions: GC-3 (0 is right) and PCOC (1 is right) of maps fitted
on long-term conversions, on Algorithm 2, on the default labels and on final conversions, which
nobody has in time. What turns does so a day before the evaluated week. In `cancellations` clicks
are bookings, conversions come up to 60 days late, and there are 96 days.

    python -m benchmarks pace [--large] [--json]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.figures import Cell, Figure, Table
from benchmarks.parts import Part
from calibrators import SmoothedIsotonic
from evaluation import ClickWindows, delayed_backtest
from pccem import TrainingRules
from research.late_conversions import LateConversions, LatePlatform

DAY = 86_400.0
SHOWN = {"ltc": "LTC", "pccem": "PCCEM", "pccem_posterior": "posterior", "oracle": "oracle"}


@dataclass(frozen=True)
class Sizes:
    """How much to backtest."""

    seeds: int = 1
    clicks_per_hour: float = 600
    streams: tuple[str, ...] = ()
    days: int = 21
    evaluated: int = 7
    threads: int = 0


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each stream of the sizes, or of all."""
    sizes = sizes or Sizes()
    names = sizes.streams or tuple(streams(sizes, 0))
    return {name: _row(sizes, name) for name in names}


def measure_large() -> Table:
    """Five platforms of each."""
    return measure(Sizes(seeds=5))


def streams(sizes: Sizes, seed: int) -> Mapping[str, LatePlatform]:
    """A platform for each stream."""
    usual = LatePlatform(clicks_per_hour=sizes.clicks_per_hour, seed=seed)
    turn = 24 * (sizes.days - sizes.evaluated - 1)
    late = {
        "rate x 2.2": LateConversions(turn=turn, rise=2.2),
        "17 % beyond the window": LateConversions(beyond=0.17),
        "half wait for Saturday": LateConversions(saturdays=0.5),
        "3 times shorter": LateConversions(turn=turn, pace=3.0),
        "3 times longer": LateConversions(turn=turn, pace=1 / 3),
    }
    return {
        "plain": usual,
        "weak behaviours": replace(usual, behaviour=0.25),
        "no features": replace(usual, untold=1.0),
        "120 campaigns": replace(usual, campaigns=120),
        **{name: replace(usual, late=each) for name, each in late.items()},
        CANCELLATIONS: replace(
            usual,
            clicks_per_hour=sizes.clicks_per_hour / 20,
            cvr=0.25,
            late=LateConversions(leads=True),
        ),
    }


CANCELLATIONS = "cancellations"
_LONG = ClickWindows(hours=72, attribution=60 * DAY)


def _row(sizes: Sizes, name: str) -> Mapping[str, Cell]:
    cards = list(_scorecards(sizes, name))
    return {
        f"{title}, {heading}": Figure.of([card[row][metric] for card in cards])
        for metric, heading in (("gc_3", "GC-3"), ("pcoc", "PCOC"))
        for row, title in SHOWN.items()
    }


def _scorecards(sizes: Sizes, name: str) -> Iterator[Mapping[str, Mapping[str, float]]]:
    windows, days = ClickWindows(), sizes.days
    if name == CANCELLATIONS:
        windows, days = _LONG, sizes.days + 75
    for seed in range(sizes.seeds):
        platform = streams(sizes, seed)[name]
        end = platform.start + days * DAY
        yield delayed_backtest(
            platform.hours(0, 24 * days).stream,
            SmoothedIsotonic(),
            evaluated_from=end - sizes.evaluated * DAY,
            evaluated_until=end,
            windows=windows,
            training=TrainingRules(num_threads=sizes.threads),
        ).scorecards


PART = Part("pace", "Late conversions that change pace", __doc__, measure, measure_large)
