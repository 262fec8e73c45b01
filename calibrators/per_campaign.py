"""Refits that fit each campaign's map from its own bins: every calibrator of the papers."""

from dataclasses import dataclass, field
from math import ceil

from calibrators.calibrator import Calibrator
from calibrators.history import History
from calibrators.method import Fitted
from calibrators.packed_window import PackedWindow
from calibrators.refit import Refit, refit_blocks
from calibrators.sufficiency import Sufficiency


@dataclass(frozen=True, slots=True)
class PerCampaign:
    """The sum over a window, `refit_blocks` of it.

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
        fitted = self._of(history, behind)
        before = self._of(history, behind - 1).atlas if trial else None
        return Fitted(fitted.atlas, before, fitted.skipped)

    def _of(self, history: History, behind: int) -> Refit:
        window = PackedWindow.of(history.windows(behind - self.hours, behind))
        return refit_blocks(window, window.total, self.calibrator, self.sufficiency)
