"""The delayed backtest on synthetic platforms: the shape of the published Table 2.

Each seed is a platform of its own: 8 campaigns, 1.2 million clicks in 21 days, the last 7 scored by
their final conversions. 8 % of the conversions come within an hour, 17 % after 100 hours; scores
predict about five times too much, in each campaign in its own drifting way
(`evaluation.ClickPlatform`). `worst cut` is by how much GC-N is lower than that of no calibration,
in the worst case of all seeds and N = 3, 4, 5. `closed` is the share of the distance from pccem to
the oracle that a row closes, by the mean GC-3 of the seeds. `labels off` is how far the sum of a
refit's labels is from the conversions that came in the end, mean over refits and seeds. With
`--large` also what is lost when the model does not know the campaign, the score or both.

    python -m benchmarks delayed [--large] [--json]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Cell, Figure, Table
from benchmarks.parts import Part
from calibrators import SmoothedIsotonic
from evaluation import ClickPlatform, DelayedBacktest, delayed_backtest
from evaluation.backtest.delayed import NONE, ORACLE
from pccem import Clicks, LabelRules, TrainingRules

Sight = Callable[[Clicks], Clicks]

DAY = 86_400.0
PAPER, POSTERIOR = "pccem", "pccem_posterior"
RULES = {
    PAPER: LabelRules("paper", drift_correction=False),
    "pccem, corrected": LabelRules("paper", drift_correction=True),
    "pccem_posterior, uncorrected": LabelRules("posterior", drift_correction=False),
    POSTERIOR: LabelRules("posterior", drift_correction=True),
}
WORST_CUT, CLOSED, OFF = OF_RULES = ("worst cut, %", "closed, %", "labels off, %")
_METRICS = {"pcoc": "PCOC", "gc_3": "GC-3", "gc_4": "GC-4", "gc_5": "GC-5"}


@dataclass(frozen=True)
class Sizes:
    """How much to backtest; `judged` days at the end of `days`."""

    seeds: int = 5
    days: int = 21
    judged: float = 7
    clicks_per_hour: float = 2_400
    threads: int = 0


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each way of labelling, in the order of the paper's table."""
    return _rows(_backtests(sizes or Sizes(), _everything))


def measure_large(sizes: Sizes | None = None) -> Table:
    """The same, then the pccem rows of models that see less."""
    sizes = sizes or Sizes()
    table = measure(sizes)
    for what, sight in SIGHTS.items():
        rows = _rows(_backtests(sizes, sight))
        table |= {f"{name}; {what}": row for name, row in rows.items() if name in RULES}
    return table


def _backtests(sizes: Sizes, sight: Sight) -> list[DelayedBacktest]:
    return [_backtest(sizes, seed, sight) for seed in range(sizes.seeds)]


def _backtest(sizes: Sizes, seed: int, sight: Sight) -> DelayedBacktest:
    platform = ClickPlatform(clicks_per_hour=sizes.clicks_per_hour, seed=seed)
    end = platform.start + sizes.days * DAY
    return delayed_backtest(
        platform.hours(0, 24 * sizes.days).stream,
        SmoothedIsotonic(),
        evaluated_from=end - sizes.judged * DAY,
        evaluated_until=end,
        pccem=RULES,
        training=TrainingRules(num_threads=sizes.threads),
        sight=sight,
    )


def _rows(found: list[DelayedBacktest]) -> Table:
    return {name: _row(found, name) for name in found[0].scorecards}


def _row(found: list[DelayedBacktest], name: str) -> Mapping[str, Cell]:
    row: dict[str, Cell] = {
        title: Figure.of([backtest.scorecards[name][metric] for backtest in found])
        for metric, title in _METRICS.items()
    }
    if name != NONE:
        row[WORST_CUT] = 100 * min(_cut(backtest, name, n) for backtest in found for n in (3, 4, 5))
    if name in RULES:
        row[CLOSED] = 100 * _closed(found, name)
        row[OFF] = 100 * float(np.mean([_off(backtest, name) for backtest in found]))
    return row


def _cut(backtest: DelayedBacktest, name: str, n: int) -> float:
    cards = backtest.scorecards
    return 1 - cards[name][f"gc_{n}"] / cards[NONE][f"gc_{n}"]


def _closed(found: list[DelayedBacktest], name: str) -> float:
    means = {
        row: float(np.mean([backtest.scorecards[row]["gc_3"] for backtest in found]))
        for row in (PAPER, name, ORACLE)
    }
    return (means[PAPER] - means[name]) / (means[PAPER] - means[ORACLE])


def _off(backtest: DelayedBacktest, name: str) -> float:
    return float(np.mean(np.abs(backtest.expected[name] / backtest.expected[ORACLE] - 1)))


def _everything(clicks: Clicks) -> Clicks:
    return clicks


def _without_campaign(clicks: Clicks) -> Clicks:
    rows = np.zeros(len(clicks), np.int32)
    return Clicks(clicks.clicked_at, ("all",), rows, clicks.scores, clicks.features)


def _without_score(clicks: Clicks) -> Clicks:
    scores = np.zeros(len(clicks))
    return Clicks(clicks.clicked_at, clicks.campaigns, clicks.rows, scores, clicks.features)


SIGHTS: Mapping[str, Sight] = {
    "model without campaign": _without_campaign,
    "model without score": _without_score,
    "model without both": lambda clicks: _without_campaign(_without_score(clicks)),
}

PART = Part("delayed", "Delayed conversions, GC-N over seeds", __doc__, measure, measure_large)
