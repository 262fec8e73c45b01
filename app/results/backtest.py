"""What a backtest found, and what it says.

What a backtest says in one or two sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from app.results.formatting import Rows, interval_text, value_text
from app.results.scored_events import RAW, Judged
from app.results.significance import compared_with
from evaluation.comparison.significance import Significance

_DECIDES: Final = "log_loss"
_CALIBRATION: Final = "gc_3"


def backtest_verdict(found: Significance, raw: str, against: str) -> str:
    """Whether `against` beats the raw scores, and how the others compare with it.

    The log loss decides, because only the true probabilities make it least; where GC-3 is
    beyond chance the other way round, that is said.
    """
    said = [_pair(found, against, raw)] if against != raw else []
    others = [name for name in compared_with(found, against) if name != raw]
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


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Backtested:
    """A log judged hour by hour under several calibrators.

    Attributes
    ----------
    name : of the log.
    how : in which way it was judged.
    judged : the judged impressions and what each calibrator made of their scores.
    cards : the scorecard of each.
    significance : which of them differ beyond chance; None where that was not asked for.
    against : the calibrator that the others are compared with.
    notes : what the reader must know about the log.
    """

    name: str
    how: str
    judged: Judged
    cards: Rows
    significance: Significance | None
    against: str
    notes: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """One or two sentences; empty without significance."""
        if self.significance is None:
            return ""
        return backtest_verdict(self.significance, RAW, self.against)

    @property
    def best(self) -> str:
        """The calibrator with the least log loss."""
        losses = {name: card["log_loss"] for name, card in self.cards.items() if name != RAW}
        return min(losses, key=lambda name: losses[name])
