"""When the next refit by the clock begins, which takes up what was changed since the last."""

from math import floor
from typing import Final

from app.settings import SECONDS_PER_HOUR, Settings

_MINUTE: Final = 60.0


def next_refit_at(settings: Settings, target: str, now: float) -> float | None:
    """Epoch seconds of the target's next refit; None by the events' clock, where only jobs refit.

    Whole hours wait for their late events, the moments between them do not; delayed targets are
    refitted at whole hours only.
    """
    if settings.clock == "event":
        return None
    pause = settings.refit_minutes * _MINUTE
    late = min(settings.refit_delay_seconds, pause)
    step = SECONDS_PER_HOUR if target in settings.delayed_targets else pause
    moment = floor(now / step) * step
    while (begins := moment + (0.0 if moment % SECONDS_PER_HOUR else late)) <= now:
        moment += step
    return begins
