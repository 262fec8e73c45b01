"""How well the closed hours of an immediate target came true, for the report of its refit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.settings import Settings
from app.storage.bins_store import BinsStore
from app.worker.hours import SECONDS
from app.worker.judging import Judgement, judged
from app.worker.raw_window import RawScores, RawWindow
from calibrators import BinsTable

_OF_CLOSED_HOURS = ("judged_until", "hour", "window", "top")


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Reads the bins of scores and of the probabilities that were served."""

    settings: Settings
    bins: BinsStore

    def window(self, closed: int) -> RawWindow:
        """The window that ends with the hours below `closed`, which are closed."""
        hours = range(closed - self.settings.window_hours, closed)
        return RawWindow(hours, self.settings.top_campaigns)

    def of(self, target: str, closed: int, window: RawWindow) -> dict[str, Any]:
        """Quality of the newest closed hour and of the window, and the top campaigns."""
        first = closed - self.settings.window_hours
        raw = window.found
        if raw is None:
            tables = self.bins.window_blocks(target, first, closed)
            raw = RawScores.of(tables, self.settings.top_campaigns)
        return {
            "judged_until": closed * SECONDS,
            "hour": {
                "raw": judged(self.bins.window_blocks(target, closed - 1, closed)),
                "calibrated": judged(self.bins.judged_blocks(target, closed - 1, closed)),
            },
            **_window(raw, self.bins.judged_blocks(target, first, closed)),
        }


def _window(raw: RawScores, calibrated: Iterable[BinsTable]) -> dict[str, Any]:
    """Quality and top campaigns of a window, whose tables come one after the other."""
    after = Judgement()
    for table in calibrated:
        after.add(table)
        raw.top.add_calibrated(table)
    window = {"raw": raw.quality.row(), "calibrated": after.row()}
    return {"window": window, "top": raw.top.entries}


def repeated(before: Mapping[str, Any], closed: int) -> dict[str, Any] | None:
    """The same as an earlier report has it, if that is of the same hours."""
    if before.get("judged_until") != closed * SECONDS:
        return None
    return {name: before[name] for name in _OF_CLOSED_HOURS}
