"""Experiments of the papers that can be run again, and what a run of one found."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluation.reproduction.check import Check, Verdict

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What a run of an experiment found.

    Attributes
    ----------
    name, title : of the experiment.
    source : paper, section and tables.
    checks : every quantity compared, in the paper's order.
    notes : what a reader has to know: sizes, readings chosen where the paper leaves a gap, errata.
    """

    name: str
    title: str
    source: str
    checks: Sequence[Check]
    notes: Sequence[str] = ()

    @property
    def counts(self) -> Counter[Verdict]:
        """How many checks ended with each verdict."""
        return Counter(check.verdict for check in self.checks)

    @property
    def differs(self) -> bool:
        """Whether something is neither as printed nor explained."""
        return self.counts[Verdict.DIFFERS] > 0

    @property
    def errata(self) -> list[str]:
        """Each printed digit that cannot be right, and why."""
        return [
            f"{check.part + ', ' if check.part else ''}{check.what}: printed {check.paper_shown},"
            f" is {check.ours_shown}. {check.erratum.reason}"
            for check in self.checks
            if check.verdict is Verdict.PAPER_ERRS and check.erratum is not None
        ]


class Run(Protocol):
    """Runs an experiment; the same arguments give the same numbers."""

    def __call__(self, *, quick: bool, seed: int, progress: Progress) -> Reproduction:
        """`quick` is a small run for a first look, with wider bands where chance plays a part."""
        ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of the papers.

    Attributes
    ----------
    name : what the user types.
    title : a short heading.
    about : one line for the list of experiments.
    seconds : about how long a full run takes on two cores.
    run : runs it.
    """

    name: str
    title: str
    about: str
    seconds: float
    run: Run
