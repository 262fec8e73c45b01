"""Draws of blocks with replacement, and what metrics become in each draw."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Protocol, TypeVar

import numpy as np

from calibrators.samples import Floats

Progress = Callable[[int, int], None]
Name = TypeVar("Name", bound=Hashable)

_MOST_AT_ONCE = 32
_MOST_NUMBERS = 2_000_000


class Resampled(Protocol):
    """A metric of one prediction, ready to be worked out again for any weights of the blocks."""

    def __call__(self, multiplicities: Floats) -> Floats:
        """Its value in every draw, (d,), from how often each block was drawn, (d, blocks).

        Ones give the metric of the rows as they are.
        """
        ...


def multiplicities(blocks: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each block is drawn when as many are drawn as there are, (d, blocks) at a time.

    All draws of a seed, end to end, are the same however they are divided.
    """
    rng = np.random.default_rng(seed)
    at_once = min(_MOST_AT_ONCE, max(1, _MOST_NUMBERS // max(blocks, 1)))
    for first in range(0, draws, at_once):
        yield np.stack([_draw(rng, blocks) for _ in range(min(at_once, draws - first))])


def _draw(rng: np.random.Generator, blocks: int) -> Floats:
    drawn = rng.integers(blocks, size=blocks)
    return np.bincount(drawn, minlength=blocks).astype(np.float64)


def resample(
    metrics: Mapping[Name, Resampled],
    blocks: int,
    *,
    draws: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[Name, Floats]:
    """Every metric in every draw, (draws,) each; all of them see the same draws.

    Parameters
    ----------
    metrics : the metrics, by any names.
    blocks : how many blocks the rows of all of them are in, at least 1.
    draws : at least 1.
    seed : at least 0.
    progress : called with (draws done, draws in all).

    Raises
    ------
    ValueError
        When there is no draw to make.
    """
    if not (draws >= 1 and draws == int(draws)):
        raise ValueError(f"draws = {draws}: must be whole and at least 1")
    if not blocks:
        return {name: np.full(draws, np.nan) for name in metrics}
    drawn: dict[Name, list[Floats]] = {name: [] for name in metrics}
    done = 0
    for times in multiplicities(blocks, draws, seed):
        for name, metric in metrics.items():
            drawn[name].append(metric(times))
        done += len(times)
        if progress is not None:
            progress(done, draws)
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def observed(metric: Resampled, blocks: int) -> float:
    """The metric of the rows as they are: each block once; nan without blocks."""
    return float("nan") if not blocks else float(metric(np.ones((1, blocks)))[0])


def centred(drawn: Floats, value: float) -> Floats:
    """The draws, (draws,), moved so that their mean is the value of the rows as they are.

    For errors that grow when rows are repeated, as GC-N does: its draws vary around more than the
    log has. Undefined and infinite draws stay, and then so do the others.
    """
    held = drawn[~np.isnan(drawn)]
    if not len(held) or not np.isfinite(held).all():
        return drawn
    moved: Floats = drawn + (value - held.mean())
    return moved
