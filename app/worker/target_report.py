"""How well the closed hours of an immediate target came true, for the report of its refit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.settings import Settings
from app.storage.bins_store import BinsStore
from app.worker.hours import SECONDS
from app.worker.judging import Judgement, TopCampaigns, judged
from calibrators import BinsTable

_OF_CLOSED_HOURS = ("judged_until", "hour", "window", "top")


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Reads the bins of scores and of the probabilities that were served."""

    settings: Settings
    bins: BinsStore

    def of(self, target: str, closed: int) -> dict[str, Any]:
        """Quality of the newest closed hour and of the window, and the top campaigns; hours below
        `closed` are closed."""
        first = closed - self.settings.window_hours
        return {
            "judged_until": closed * SECONDS,
            "hour": {
                "raw": judged(self.bins.window_blocks(target, closed - 1, closed)),
                "calibrated": judged(self.bins.judged_blocks(target, closed - 1, closed)),
            },
            **self._window(
                self.bins.window_blocks(target, first, closed),
                self.bins.judged_blocks(target, first, closed),
            ),
        }

    def _window(self, raw: Iterable[BinsTable], calibrated: Iterable[BinsTable]) -> dict[str, Any]:
        """Quality and top campaigns of a window, whose tables come one after the other."""
        stages = {"raw": Judgement(), "calibrated": Judgement()}
        top = TopCampaigns(self.settings.top_campaigns)
        for table in raw:
            stages["raw"].add(table)
            top.add(table)
        for table in calibrated:
            stages["calibrated"].add(table)
            top.add_calibrated(table)
        window = {stage: judgement.row() for stage, judgement in stages.items()}
        return {"window": window, "top": top.entries}


def repeated(before: Mapping[str, Any], closed: int) -> dict[str, Any] | None:
    """The same as an earlier report has it, if that is of the same hours."""
    if before.get("judged_until") != closed * SECONDS:
        return None
    return {name: before[name] for name in _OF_CLOSED_HOURS}
