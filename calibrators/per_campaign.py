"""Refits that fit each campaign's map from its own bins: every calibrator of the papers."""

from dataclasses import dataclass, field
from math import ceil

from calibrators.bins import Bins
from calibrators.bins_table import BinsTable
from calibrators.calibrator import Calibrator
from calibrators.history import History
from calibrators.method import Fitted
from calibrators.refit import BegunRefit, Refit
from calibrators.sufficiency import Sufficiency


@dataclass(frozen=True, slots=True)
class PerCampaign:
    """The sum over a window, `refit` of it.

    Source: the hourly update of Deng et al., section 5.1.

    Parameters: calibrator; sufficiency, what a campaign needs for a map of its own; hours of the
    window.
    """

    calibrator: Calibrator
    sufficiency: Sufficiency = field(default_factory=Sufficiency)
    hours: int = 24

    @property
    def name(self) -> str:
        """The calibrator's."""
        return self.calibrator.name

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """See `Method`; the trial is the refit of an hour before."""
        behind = ceil(history.as_of)
        ends = (behind, behind - 1) if trial else (behind,)
        windows = [_Window(BegunRefit(self.calibrator, self.sufficiency)) for _ in ends]
        for tables in history.sums(*(range(end - self.hours, end) for end in ends)):
            for window, table in zip(windows, tables, strict=True):
                window.add(table)
        fitted, *before = (window.refit() for window in windows)
        return Fitted(fitted.atlas, before[0].atlas if before else None, fitted.skipped)


@dataclass(frozen=True, slots=True)
class _Window:
    """A refit as the blocks of its window go by, and their totals."""

    begun: BegunRefit
    totals: list[Bins] = field(default_factory=list)

    def add(self, table: BinsTable) -> None:
        self.begun.add(table)
        self.totals.append(table.total())

    def refit(self) -> Refit:
        return self.begun.finish(Bins.merge(self.totals))
