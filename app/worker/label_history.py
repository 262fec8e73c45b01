"""The history of a delayed target: relabelled clicks by hour, a window in memory at a time."""

from dataclasses import dataclass
from math import ceil

from app.click_log import ClickLog
from app.settings import Settings
from app.worker.hours import SECONDS
from app.worker.model_shelf import ShelvedModel
from app.worker.relabelling import Relabelled, relabelled, spans
from calibrators import BinsTable
from calibrators.history import History


@dataclass(frozen=True, slots=True, eq=False)
class LabelHistory:
    """What clicks count as with everything known as of a moment, hours before it.

    Hours are counted back from the end of the newest click's post-click window, so each is whole
    whatever the post-click window is.
    """

    log: ClickLog
    shelved: ShelvedModel | None
    target: str
    as_of: float
    settings: Settings

    def of(self, hours: int) -> tuple[Relabelled, History] | None:
        """The newest window, and so many hours by hour; None where `relabelled` gives None.

        Clicks older than a window have their own correction for drift.
        """
        newest, *older = spans(self.settings, self.as_of, max(hours, self.settings.window_hours))
        last = ceil(newest[1] / SECONDS) - 1
        tables: dict[int, BinsTable] = {}
        for span in reversed(older):
            found = self._relabelled(span)
            if found is not None:
                tables |= found.by_hour(last - round((newest[1] - span[1]) / SECONDS))
        recent = self._relabelled(newest)
        if recent is None:
            return None
        tables |= recent.by_hour(last)
        return recent, History(float(last + 1), [tables])

    def _relabelled(self, span: tuple[float, float]) -> Relabelled | None:
        return relabelled(self.log, self.shelved, self.target, self.as_of, self.settings, span)
