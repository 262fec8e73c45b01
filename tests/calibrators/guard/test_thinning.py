"""Thinning all maps together takes the knots that a literal thinning of each takes."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrators.guard.bounds import simplified
from calibrators.guard.rules import log_odds_of
from calibrators.samples import Floats

Columns = tuple[Floats, Floats, Floats, Floats]


def thinned_one(
    knots: Floats, values: Floats, lower: Floats, upper: Floats, most: int
) -> list[int]:
    """The oracle: one map, a round at a time."""
    taken = [0, len(knots) - 1]
    while True:
        drawn = np.interp(knots, knots[taken], values[taken])
        outside = (drawn < lower - 1e-12) | (drawn > upper + 1e-12)
        errors = np.abs(log_odds_of(drawn) - log_odds_of(values)) + 1e6 * outside
        joining = []
        for left, right in pairwise(taken):
            between = range(left + 1, right)
            worst = max(between, key=lambda knot: errors[knot], default=left)
            joining += [worst] if worst > left and errors[worst] > 0 else []
        room = max(most - len(taken), sum(outside[knot] for knot in joining))
        ranked = sorted(joining, key=lambda knot: -errors[knot])[:room]
        if not ranked:
            return taken
        taken = sorted([*taken, *ranked])


def random_map(rng: np.random.Generator, size: int, narrow: float) -> Columns:
    """A map of some knots, where few of its values stand out, and bounds around it."""
    knots = np.concatenate(
        ([0.0], np.sort(rng.choice(999, size - 2, replace=False) + 1) / 1e3, [1])
    )
    values = np.sort(rng.choice([0.0, 0.1, 0.2, 0.5, *rng.random(5)], size))
    return knots, values, values - narrow * rng.random(size), values + narrow * rng.random(size)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(2, 60), min_size=1, max_size=6),
    st.integers(2, 20),
    st.sampled_from([0.0, 0.01, 0.2, 2.0]),
)
def test_all_maps_together_are_each_for_itself(seed, sizes, most, narrow):
    rng = np.random.default_rng(seed)
    drawn = [random_map(rng, size, narrow) for size in sizes]
    # Numbers of maps have gaps: only those with too many knots are thinned.
    maps = np.repeat(3 * np.arange(len(sizes)) + 2, sizes)

    knots, values, lower, upper = map(np.concatenate, zip(*drawn, strict=True))
    taken = simplified(maps, knots, values, lower, upper, most)

    found = np.split(taken, np.cumsum(sizes)[:-1])
    for one, columns in zip(found, drawn, strict=True):
        assert np.flatnonzero(one).tolist() == thinned_one(*columns, most)
