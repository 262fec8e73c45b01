"""What takes part in a contest: it learns from the past and serves probabilities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from calibrators.atlas import Atlas
from calibrators.history import History
from calibrators.method import Method
from calibrators.samples import Floats, Integers

Served = Callable[[Integers, Floats], Floats]
"""Probabilities, (n,), of impressions of the campaigns at `rows`, (n,), with `scores`, (n,)."""


class ContenderAbsent(Exception):
    """A contender that cannot take part here, and why, on one line."""


class Contender(Protocol):
    """Learns from a history, serves probabilities; made anew for every play."""

    @property
    def name(self) -> str:
        """As tables name it."""

    @property
    def note(self) -> str:
        """What the reader of its figures must know; empty where nothing."""

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Served:
        """What it serves from the history's moment on; rows point at `campaigns`, which are the
        same in every call of a play.

        Raises
        ------
        ContenderAbsent
            When it cannot be had here.
        """


@dataclass(slots=True)
class MethodContender:
    """A method of the service, refitted with the memory of its last refit; with `trial` as for the
    service's guard, which lets a shape out only after an hour that it has not seen."""

    name: str
    method: Method
    note: str = ""
    trial: bool = False
    _memory: object = None

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Served:
        """See `Contender`."""
        fitted = self.method.refit(history, memory=self._memory, trial=self.trial)
        self._memory = fitted.memory
        return served_by(fitted.atlas, campaigns)


def served_by(atlas: Atlas, campaigns: tuple[str, ...]) -> Served:
    """What an atlas serves."""
    rows_of = atlas.rows(campaigns)
    return lambda rows, scores: atlas.look_up(rows_of[rows], scores)
