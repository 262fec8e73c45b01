"""What a backtest found, and what it says."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.command_line.backtest_verdict import backtest_verdict
from app.command_line.judged import Judged
from app.command_line.judged_hours import RAW
from app.command_line.tables import Rows
from evaluation.significance import Significance


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
