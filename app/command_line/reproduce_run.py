"""Experiments as the command runs them: timed, under a progress bar."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from app.command_line.progress import Advance, progress
from evaluation.reproduction import Experiment, Reproduction

_STEPS = 100


@dataclass(frozen=True, slots=True)
class Finished:
    """A run of an experiment and how long it took."""

    experiment: Experiment
    reproduction: Reproduction
    seconds: float


@dataclass(frozen=True, slots=True)
class Size:
    """What an experiment is run with."""

    quick: bool
    seed: int


def run_each(experiments: Sequence[Experiment], size: Size, *, shown: bool) -> Iterator[Finished]:
    """Run one after the other; each is given as soon as it has ended."""
    for experiment in experiments:
        with progress(experiment.name, _STEPS, "%", shown=shown) as advance:
            started = perf_counter()
            bar = _Bar(advance)
            found = experiment.run(quick=size.quick, seed=size.seed, progress=bar)
            seconds = perf_counter() - started
        yield Finished(experiment, found, seconds)


@dataclass(slots=True)
class _Bar:
    """Turns the share that is done into steps."""

    advance: Advance
    steps: int = 0

    def __call__(self, share: float) -> None:
        while self.steps < min(int(share * _STEPS), _STEPS):
            self.steps += 1
            self.advance("")
