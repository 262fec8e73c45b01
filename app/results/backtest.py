"""What a backtest found: which calibrators differ beyond chance, in words and as JSON."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Final

from app.errors import CommandError
from app.results.formatting import (
    Rows,
    block_warnings,
    drawn_how_often,
    interval_text,
    listed,
    value_text,
)
from app.settings import Settings
from calibrators.registry import POOLED
from calibrators.samples import Floats
from evaluation import EventTable, grouped_cal_n
from evaluation.comparison.significance import Significance


@dataclass(frozen=True, slots=True, eq=False)
class ScoredEvents:
    """Events and, by name, the probability that each of them was given, (n,).

    An event that stands for several counts as so many.
    """

    events: EventTable
    predictions: Mapping[str, Floats]

    def share_left_out(self) -> float:
        """Share of the events in campaigns with too few positives to count in GC-3."""
        first, events = next(iter(self.predictions.values())), self.events
        return grouped_cal_n(
            first, events.outcomes, events.rows, 3, sample_weight=events.weights
        ).share_left_out


RAW = "raw"


def first_evaluated_hour(events: EventTable, window_hours: int) -> int:
    """The first hour after the first window; a `CommandError` when the log ends before it."""
    first, last = int(events.hours.min()), int(events.hours.max())
    if last < first + window_hours:
        hours = last - first + 1
        shorter = f"give a shorter one, such as --window {max(1, hours // 3)}h"
        raise CommandError(
            f"the log spans {hours} h, so a window of {window_hours} h leaves no hour to"
            f" evaluate: {shorter if hours > 1 else 'a log must span two'}"
        )
    return first + window_hours


def after(settings: Settings, methods: Collection[str] = ()) -> str:
    """How hours are evaluated, for a table's title: how many hours the maps of these methods learn
    from at most, which is another number for `pooled`."""
    pooled, hours = f"{settings.history_hours} h", f"{settings.window_hours} h"
    if POOLED in methods and pooled != hours:
        hours = pooled if len(methods) == 1 else f"{hours} ({POOLED}: {pooled})"
    return f"each hour evaluated with maps of the {hours} before it"


HEADINGS: Final = {"log_loss": "log loss", "gc_3": "GC-3", "auc": "AUC"}
WORDS: Final = {1: "better", 0: "", -1: "worse"}


def compared_with(found: Significance, reference: str) -> list[str]:
    """The names that were compared with `reference`."""
    return [a for a, b in found.differences if b == reference]


def references(found: Significance) -> list[str]:
    """The names that others were compared with."""
    return list(dict.fromkeys(b for _, b in found.differences))


def about(found: Significance) -> str:
    """How the intervals were made, and how to read them."""
    draws = found.draws
    return drawn_how_often(
        found.blocks, found.unit, draws["log_loss"], draws["gc_3"], "GC-3 and AUC"
    )


def warnings(found: Significance) -> list[str]:
    """What makes the intervals less than they seem."""
    return block_warnings(found.blocks, found.unit, found.effective)


def differences_json(found: Significance, conclusion: str) -> dict[str, Any]:
    """The differences for programs: `against` -> reference -> name -> metric -> numbers."""
    against: dict[str, dict[str, Any]] = {reference: {} for reference in references(found)}
    for (name, reference), metrics in found.differences.items():
        against[reference][name] = {
            metric: {**asdict(difference), "verdict": word(found, (name, reference), metric)}
            for metric, difference in metrics.items()
        }
    return {
        "verdict": conclusion,
        "warnings": warnings(found),
        "unit": found.unit,
        "blocks": found.blocks,
        "effective_blocks": found.effective,
        "draws": dict(found.draws),
        "seed": found.seed,
        "confidence": 0.95,
        "against": against,
    }


def word(found: Significance, pair: tuple[str, str], metric: str) -> str:
    """better, worse, or unclear."""
    return WORDS[found.better(pair, metric)] or "unclear"


_DECIDES: Final = "log_loss"
_CALIBRATION: Final = "gc_3"


def backtest_conclusion(found: Significance, against: str) -> str:
    """Whether `against` beats the raw scores, and how the others compare with it.

    The log loss decides, because only the true probabilities make it least; where GC-3 is
    beyond chance the other way round, that is said.
    """
    said = [_pair(found, against, RAW)] if against != RAW else []
    others = [name for name in compared_with(found, against) if name != RAW]
    return " ".join([*said, *_others(found, others, against)])


def _pair(found: Significance, a: str, b: str) -> str:
    difference, better = found.differences[a, b][_DECIDES], found.better((a, b), _DECIDES)
    if isnan(difference.lower):
        return f"{a} and {b} cannot be compared on this log: there is too little of it."
    if difference.value == 0.0 == difference.standard_error:
        return f"{a} and {b} give the same probabilities."
    span = f"{value_text(difference)} ({interval_text(difference)})"
    if not better:
        return f"{a} and {b} cannot be told apart on this log: log loss {span}."
    contrary = found.better((a, b), _CALIBRATION) == -better
    but = ", but GC-3 says the opposite" if contrary else ""
    verb = "beats" if better > 0 else "is worse than"
    return f"{a} {verb} {b}: log loss {span}{but}."


def _others(found: Significance, others: Sequence[str], against: str) -> list[str]:
    groups: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for name in others:
        groups[found.better((name, against), _DECIDES)].append(name)
    clear = [
        f"{listed(groups[sign])} {'are' if len(groups[sign]) > 1 else 'is'} {how}"
        for sign, how in ((1, "better"), (-1, "worse"))
        if groups[sign]
    ]
    said = [f"{', '.join(clear)} than {against}"] if clear else []
    if groups[0]:
        said.append(f"{listed(groups[0])} cannot be told apart from {against}")
    return ["; ".join(said) + "."] if said else []


@dataclass(frozen=True, slots=True, eq=False)
class Backtested:
    """A log evaluated hour by hour under several calibrators.

    name : of the log.
    how : in which way it was evaluated.
    scored : the evaluated impressions and what each calibrator made of their scores.
    cards : the scorecard of each.
    significance : which of them differ beyond chance; None where that was not wanted.
    against : the calibrator that the others are compared with.
    notes : what the reader must know about the log.
    """

    name: str
    how: str
    scored: ScoredEvents
    cards: Rows
    significance: Significance | None
    against: str
    notes: Sequence[str] = ()

    @property
    def conclusion(self) -> str:
        """One or two sentences; empty without significance."""
        if self.significance is None:
            return ""
        return backtest_conclusion(self.significance, self.against)

    @property
    def best(self) -> str:
        """The calibrator with the least log loss."""
        losses = {name: card["log_loss"] for name, card in self.cards.items() if name != RAW}
        return min(losses, key=lambda name: losses[name])
