"""How far a refit or a training is, for whoever waits for it; where one that is cancelled ends."""

import faulthandler
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from app.storage.errors import StorageUnavailable
from app.storage.jobs import Jobs

_log = logging.getLogger(__name__)

IDLE: Final = "idle"
PUBLISHING: Final = "publishing"
_REPORT_SECONDS: Final = 0.5
_LOG_SECONDS: Final = 5.0
STUCK_SECONDS: Final = 7200.0
"""Without a step a worker is stuck: refits are due every hour, and many steps make one."""


def end_if_stuck() -> None:
    """End this process, and tell what each thread is at, unless called again within STUCK_SECONDS:
    else the thread that renews its lease would keep others from its work for ever."""
    # Of C, so that it runs where a call never lets go of the interpreter.
    faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True, file=sys.__stderr__ or 2)


class JobCancelled(BaseException):
    """An operator has cancelled the job that runs.

    Like KeyboardInterrupt no Exception, so that nothing that goes on after a failure goes on here.
    """


class Step(NamedTuple):
    """What is being done, the share of all that is done, and of one target's part of it."""

    phase: str
    done: float
    target: str | None = None
    of_target: float = 0.0


Advance = Callable[[Step], None]
_NOTHING: Final = Step(IDLE, 0.0)


class Progress:
    """Takes every step, and passes on one in half a second: to `job`, if there is one, and to the
    heartbeat; and to the log one in five seconds. `begun` is called with each phase, `moved` with
    each step that is passed on."""

    def __init__(
        self,
        jobs: Jobs,
        targets: Iterable[str],
        beat: Callable[[], None],
        begun: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.job: str | None = None
        self.moved: Callable[[], None] = lambda: None
        self._jobs, self._beat, self._clock = jobs, beat, clock
        self._targets, self._begun = tuple(targets), begun
        self._step = _NOTHING
        self._reported_at = self._logged_at = clock() - _REPORT_SECONDS

    def rest(self) -> None:
        """Nothing is under way."""
        self._step = _NOTHING

    @property
    def state(self) -> dict[str, Any]:
        """What the heartbeat tells: `phase`, and by target `progress`, 1 but for the one that is
        being fitted."""
        phase, _, target, share = self._step
        shares = dict.fromkeys(self._targets, 1.0)
        return {"phase": phase, "progress": shares | ({target: share} if target else {})}

    def __call__(self, step: Step) -> None:
        """Take a step; raises JobCancelled where it is the last of a job that is cancelled."""
        before, now = self._step, self._clock()
        if step.phase == before.phase:
            # What is gone through a second time is no step back.
            step = max(before, step, key=lambda each: each.done)
        else:
            self._begun(step.phase)
        if before is _NOTHING:
            self._logged_at = now
        self._step = step
        # Before anything is published it is known whether it is still wanted.
        if step.phase == PUBLISHING or now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            self.moved()
            self._report(step)
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            about = {"target": step.target}
            _log.info("%s: %.0f %% done", step.phase, 100 * step.done, extra=about)

    def _report(self, step: Step) -> None:
        # A store that is away is for the work itself to meet.
        with suppress(StorageUnavailable):
            self._beat()
            if self.job is not None and self._jobs.advance(self.job, step.phase, step.done):
                raise JobCancelled(self.job)
