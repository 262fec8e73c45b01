"""The block bootstrap: rows that share their error are drawn as a whole, with replacement."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, check_equal_lengths, sum_at
from evaluation.metrics.predictions import Campaigns, Mask, encode_campaigns

LEAST_BLOCKS: Final = 10
"""With fewer blocks no interval can be trusted: the draws repeat the same few numbers."""

HOURS_PER_DAY = 24


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Which block each of n rows is in.

    codes : (n,) block of each row, 0 to `count` - 1; whatever the order of the rows, a block has
        the same number.
    count : blocks in all.
    unit : what a block is, in the plural, such as "campaign-days".
    """

    codes: Integers
    count: int
    unit: str = "blocks"

    @classmethod
    def of(cls, keys: Campaigns, unit: str = "blocks") -> Self:
        """The blocks named by any hashable keys, (n,), numbered in the order of their text.

        >>> Blocks.of(["b", "a", "b"]).codes
        array([1, 0, 1])
        """
        found, codes = encode_campaigns(keys)
        rank = np.empty(len(found), np.int64)
        rank[sorted(range(len(found)), key=lambda code: str(found[code]))] = np.arange(len(found))
        return cls(rank[codes], len(found), unit)

    @classmethod
    def of_campaigns(cls, campaigns: NDArray[np.integer], hours: Integers) -> Self:
        """Campaign-days, or campaign-hours where there are fewer than `LEAST_BLOCKS` of them.

        campaigns, (n,), are small whole numbers, hours, (n,), count from the epoch, so days are
        those of UTC. Rows of one campaign and day share what a model has wrong about both. Hours
        of one day share it too: their intervals are too narrow rather than too wide.

        >>> Blocks.of_campaigns(np.array([0, 0, 1]), np.array([23, 24, 24])).unit
        'campaign-hours'
        """
        check_equal_lengths(campaigns=campaigns, hours=hours)
        days = cls._of_spans(campaigns, hours // HOURS_PER_DAY, "campaign-days")
        if days.count >= LEAST_BLOCKS:
            return days
        return cls._of_spans(campaigns, hours, "campaign-hours")

    @classmethod
    def _of_spans(cls, campaigns: NDArray[np.integer], spans: Integers, unit: str) -> Self:
        if not len(spans):
            return cls(np.empty(0, np.int64), 0, unit)
        first = spans.min()
        width = int(spans.max() - first) + 1
        keys = campaigns.astype(np.int64) * width + (spans - first)
        distinct, codes = np.unique(keys, return_inverse=True)
        return cls(codes, len(distinct), unit)

    def part(self, held: Mask) -> "Blocks":
        """The blocks of some of the rows, chosen by a mask, (n,); without those of no row."""
        distinct, codes = np.unique(self.codes[held], return_inverse=True)
        return Blocks(codes, len(distinct), self.unit)

    @property
    def enough(self) -> bool:
        """Whether there are enough blocks for an interval to mean something."""
        return self.count >= LEAST_BLOCKS

    def effective(self, weights: Floats) -> float:
        """The `effective_number` of the blocks, from the rows' weights, (n,)."""
        return effective_number(sum_at(self.codes, weights, self.count))


def effective_number(weights: Floats) -> float:
    """How many blocks of one size vary as blocks of these weights, (blocks,), do.

    The error of a block is in proportion to its weight, and so (sum w^2)^2 / sum w^4 are the
    degrees of freedom of its square: one block with nearly all rows counts as little more than 1.

    >>> effective_number(np.array([3.0, 3.0, 0.0])), round(effective_number(np.ones(7)))
    (2.0, 7)
    """
    shares = weights / weights.max(initial=np.finfo(np.float64).tiny)
    fourth = float((shares**4).sum())
    return float((shares**2).sum()) ** 2 / fourth if fourth > 0.0 else 0.0


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

    `blocks` is how many blocks the rows of all of them are in, `progress` is called with (draws
    done, draws in all). ValueError unless `draws` is at least 1.
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
