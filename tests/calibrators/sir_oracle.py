"""Algorithm 1 of Deng et al. as plain lists of exact numbers: slow, literal, with the gaps closed.

Written from the paper's listing and from the table of choices beside it (remainder kept, cuts moved
to the end of a run of equal scores, guard on the empty stack, tails), never from the product.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor

Number = Fraction
Function = Callable[[Number], Number]


@dataclass
class Bin:
    """l, u, c of the paper; the sums of score and outcome stand for the means."""

    l: Number  # noqa: E741
    u: Number
    c: Number
    sum_x: Number
    sum_y: Number

    @property
    def v(self) -> Number:
        return self.sum_y / self.c

    @property
    def mean_x(self) -> Number:
        return self.sum_x / self.c


def number_of_bins(total: Number, n: Number) -> int:
    """Line 3, and at least one."""
    return max(1, floor(total / n))


def cut(k: int, total: Number, bins: int) -> Number:
    """Sizes differ by at most one: whole samples where the total is whole, exact shares else."""
    if total.denominator == 1:
        return Fraction((2 * k * int(total) + bins) // (2 * bins))
    return total * k / bins


def bins_of_samples(samples: Iterable[tuple[Number, Number, Number]], n: Number) -> list[Bin]:
    """Phase 1, lines 1-8, on (x, y, weight)."""
    held = [s for s in samples if s[2] > 0]
    return cut_into(held, number_of_bins(sum((w for _, _, w in held), Fraction(0)), n))


def cut_into(samples: Iterable[tuple[Number, Number, Number]], count: int) -> list[Bin]:
    """So many bins, or fewer: a cut in a run of equal x moves to the run's end."""
    ordered = sorted(samples, key=lambda s: s[0])
    total = sum((w for _, _, w in ordered), Fraction(0))
    listed: list[Bin] = []
    members: list[tuple[Number, Number, Number]] = []
    reached, k = Fraction(0), 1
    for i, sample in enumerate(ordered):
        members.append(sample)
        reached += sample[2]
        last = i == len(ordered) - 1
        run_ends = last or ordered[i + 1][0] != sample[0]
        if last or (k < count and run_ends and reached >= cut(k, total, count)):
            listed.append(_bin_of(members))
            members = []
            while k < count and cut(k, total, count) <= reached:
                k += 1
    return listed


def _bin_of(members: list[tuple[Number, Number, Number]]) -> Bin:
    return Bin(
        l=min(x for x, _, _ in members),
        u=max(x for x, _, _ in members),
        c=sum((w for _, _, w in members), Fraction(0)),
        sum_x=sum((x * w for x, _, w in members), Fraction(0)),
        sum_y=sum((y * w for _, y, w in members), Fraction(0)),
    )


@dataclass
class Cell:
    """A cell's samples: spread evenly around their mean, as far as the cell's borders allow."""

    lower: Number
    upper: Number
    mean: Number
    rate: Number
    weight: Number

    def part(self, start: Number, stop: Number) -> Bin:
        """What lies between two shares of the cell's weight, both in [0, 1]."""
        spread = min(self.mean - self.lower, self.upper - self.mean)
        low = self.mean - spread + 2 * spread * start
        high = self.mean - spread + 2 * spread * stop
        weight = self.weight * (stop - start)
        return Bin(low, high, weight, weight * (low + high) / 2, weight * self.rate)


def bins_of_cells(cells: list[Cell], n: Number) -> list[Bin]:
    """Phase 1 on cells: a cell that a cut falls into is split in proportion, at exactly the cut."""
    total = sum((cell.weight for cell in cells), Fraction(0))
    count = number_of_bins(total, n)
    cuts = [cut(k, total, count) for k in range(1, count)]
    parts: list[list[Bin]] = [[]]
    reached = Fraction(0)
    for cell in cells:
        start = Fraction(0)
        while cuts and cuts[0] <= reached + cell.weight:
            stop = (cuts.pop(0) - reached) / cell.weight
            parts[-1].append(cell.part(start, stop))
            parts.append([])
            start = stop
        if start < 1:
            parts[-1].append(cell.part(start, Fraction(1)))
        reached += cell.weight
    return [_joined(held) for held in parts]


def _joined(parts: list[Bin]) -> Bin:
    held = [part for part in parts if part.c > 0]
    joined = held[0]
    for part in held[1:]:
        joined = pooled(joined, part)
    return joined


def pooled(first: Bin, second: Bin) -> Bin:
    """Line 18."""
    return Bin(
        first.l,
        second.u,
        first.c + second.c,
        first.sum_x + second.sum_x,
        first.sum_y + second.sum_y,
    )


def leaning(bins: list[Bin], prior: Function, strength: Number) -> list[Bin]:
    """`strength` pseudo-samples at each bin's mean score, with the prior's rate."""
    return [
        Bin(
            b.l,
            b.u,
            b.c + strength,
            b.sum_x + strength * b.mean_x,
            b.sum_y + strength * prior(b.mean_x),
        )
        for b in bins
    ]


def pool_adjacent_violators(bins: list[Bin]) -> list[Bin]:
    """Phase 2, lines 9-23, with a guard where the paper reads the end of an empty list."""
    stack: list[Bin] = []
    for one in bins:
        new = one
        while stack and new.v <= stack[-1].v:
            new = pooled(stack.pop(), new)
        stack.append(new)
    return stack


def anchor_of(one: Bin, anchor: str) -> Number:
    """m of line 26, or the mean score."""
    return one.mean_x if anchor == "mean" else (one.l + one.u) / 2


def pool_equal_anchors(bins: list[Bin], anchor: str) -> list[Bin]:
    """Line 27 divides by m_{i+1} - m_i: pieces of one score are pooled."""
    stack: list[Bin] = []
    for one in bins:
        new = one
        while stack and anchor_of(new, anchor) == anchor_of(stack[-1], anchor):
            new = pooled(stack.pop(), new)
        stack.append(new)
    return stack


def interpolation(bins: list[Bin], anchor: str, tails: str) -> Function:
    """Phase 3, lines 24-31, and what happens beyond the outermost anchors."""
    apart = pool_equal_anchors(bins, anchor)
    points = [(anchor_of(b, anchor), b.v) for b in apart]

    def f(x: Number) -> Number:
        m_0, v_0 = points[0]
        if x < m_0:
            value = _below(x, points, tails)
        elif x > points[-1][0]:
            value = _above(x, points, tails)
        elif x == m_0:
            value = v_0
        else:
            value = next(_line(p, q, x) for p, q in pairwise(points) if p[0] < x <= q[0])
        return min(max(value, Fraction(0)), Fraction(1))

    return f


Point = tuple[Number, Number]


def _line(p: Point, q: Point, x: Number) -> Number:
    """a x + b of lines 27 and 30."""
    a = (q[1] - p[1]) / (q[0] - p[0])
    b = p[1] - a * p[0]
    return a * x + b


def _below(x: Number, points: list[Point], tails: str) -> Number:
    m_0, v_0 = points[0]
    if tails == "clip":
        return v_0
    if tails == "extend" and len(points) > 1:
        return _line(points[0], points[1], x)
    return x * v_0 / m_0


def _above(x: Number, points: list[Point], tails: str) -> Number:
    m, v = points[-1]
    if tails == "clip":
        return v
    if tails == "unit":
        return _line((m, v), (Fraction(1), Fraction(1)), x)
    if tails == "extend" and len(points) > 1:
        return _line(points[-2], points[-1], x)
    return x * v / m if m > 0 else v


def fit(
    bins: list[Bin],
    anchor: str,
    tails: str,
    prior: Function | None = None,
    strength: Number = Fraction(5),
) -> Function:
    """The whole algorithm after Phase 1."""
    pools = pool_adjacent_violators(bins)
    if prior is not None:
        pools = pool_adjacent_violators(leaning(pools, prior, strength))
    return interpolation(pools, anchor, tails)
