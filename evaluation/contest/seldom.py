"""Contenders that take too long to be refitted every hour."""

from dataclasses import dataclass

import numpy as np

from calibrators.history import History
from evaluation.contest.contender import Contender, Served


@dataclass(slots=True)
class Seldom:
    """A contender that is refitted every `hours_between` hours and serves what it learnt last."""

    contender: Contender
    hours_between: float
    _served: Served | None = None
    _refitted_at: float = -np.inf

    @property
    def name(self) -> str:
        """The contender's."""
        return self.contender.name

    @property
    def note(self) -> str:
        """See `Contender`."""
        mine = f"refitted every {self.hours_between:g} h only, because it takes so long"
        return f"{mine}; {self.contender.note}" if self.contender.note else mine

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Served:
        """See `Contender`."""
        if self._served is None or history.as_of >= self._refitted_at + self.hours_between:
            self._served = self.contender.refit(history, campaigns)
            self._refitted_at = history.as_of
        return self._served
