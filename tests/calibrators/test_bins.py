"""Bins: exact fixed-point sums, the same bytes in any order, split or merge."""

import math
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Bins
from calibrators.bins.bins import GRID
from tests.calibrators import grid_oracle, strategies

Sample = tuple[float, float, float]
many = st.lists(strategies.samples, max_size=25)


def binned(samples: list[Sample]) -> Bins:
    columns = np.array(samples, np.float64).reshape(-1, 3).T
    return Bins.from_samples(*columns)


@st.composite
def split_and_shuffled(draw: st.DrawFn) -> tuple[list[Sample], list[list[Sample]]]:
    """Samples, and the same samples in another order cut into chunks."""
    samples = draw(many)
    shuffled = draw(st.permutations(samples))
    borders = sorted(draw(st.lists(st.integers(0, len(samples)), max_size=4)))
    edges = [0, *borders, len(samples)]
    return samples, [shuffled[a:b] for a, b in pairwise(edges)]


@given(split_and_shuffled(), st.randoms(use_true_random=False))
def test_any_order_split_and_merge_tree_gives_the_same_bytes(case, random):
    samples, chunks = case
    parts = [binned(chunk) for chunk in chunks]
    whole = binned(samples)

    assert Bins.merge(parts).to_bytes() == whole.to_bytes()
    assert reduce(add, parts, Bins.empty()).to_bytes() == whole.to_bytes()
    while len(parts) > 1:
        pair = [parts.pop(random.randrange(len(parts))) for _ in range(2)]
        parts.append(pair[0] + pair[1])
    assert parts[0] == whole
    assert hash(parts[0]) == hash(whole)
    assert Bins.from_bytes(whole.to_bytes()) == whole


@given(st.lists(st.tuples(st.sampled_from(strategies.SPECIAL_SCORES), strategies.outcomes)))
def test_sums_are_exact_integers(pairs):
    """floor(v * 1e9 + 0.5) of each sample, added up in its cell."""
    bins = binned([(x, y, 1.0) for x, y in pairs])

    expected: dict[int, list[int]] = {}
    for x, y in pairs:
        sums = expected.setdefault(grid_oracle.cell_of(x), [0, 0, 0])
        for place, value in enumerate((1.0, x, y)):
            sums[place] += math.floor(value * 1_000_000_000 + 0.5)
    found = dict(zip(bins.cells.tolist(), bins.sums.T.tolist(), strict=True))
    assert found == expected


def test_totals_count_weights_scores_and_positives():
    bins = Bins.from_samples([0.0, 0.25, 1.0], [0, 1, 0.5], [2, 0.5, 4])

    assert (bins.total_count, bins.total_score, bins.total_positives) == (6.5, 4.125, 2.5)


def test_no_samples_are_empty_bins():
    assert Bins.from_samples([], []) == Bins.empty() == Bins.merge([])
    assert Bins.empty().total_count == Bins.empty().total_score == 0.0
    assert [column.tolist() for column in Bins.empty().samples()] == [[], [], []]


def test_a_sample_of_weight_0_leaves_no_trace():
    assert Bins.from_samples([0.3, 0.4], [1, 1], [0, 1]) == Bins.from_samples([0.4], [1])


def test_a_whole_weight_is_that_many_samples():
    repeated = Bins.from_samples([0.3] * 3 + [0.7], [1] * 3 + [0])

    assert Bins.from_samples([0.3, 0.7], [1, 0], [3, 1]) == repeated


def test_more_samples_than_an_integer_holds_are_refused():
    full = Bins.from_samples([0.5], [0], [9e9])

    with pytest.raises(OverflowError, match=r"9\.2e9"):
        full + full
    with pytest.raises(ValueError, match=r"under 9\.2e9"):
        Bins.from_samples([0.5], [0], [1e308])


def test_totals_over_full_cells_do_not_wrap_around():
    bins = Bins.from_samples([0.5, 0.25, 1.0], [1, 1, 1], [9e9, 9e9, 9e9])

    assert (bins.total_count, bins.total_score, bins.total_positives) == (27e9, 15.75e9, 27e9)


@given(many)
def test_samples_lie_in_their_cells_in_order(samples):
    """Also where the rounding of tiny weights moved a mean out of its cell."""
    bins = binned(samples)

    scores, outcomes, weights = bins.samples()

    assert GRID.cells_of(scores).tolist() == bins.cells[bins.counts > 0].tolist()
    assert (np.diff(scores) > 0).all()
    assert ((outcomes >= 0) & (outcomes <= 1)).all()
    assert (weights > 0).all()


def test_means_of_tiny_weights_stay_apart():
    """Score times weight is under half a unit here, so the sums alone would say score 0."""
    tiny = np.linspace(6e-8, 1e-7, 50)

    scores, _, _ = Bins.from_samples(tiny, np.zeros(50), np.full(50, 0.001)).samples()

    assert (np.diff(scores) > 0).all()
    np.testing.assert_allclose(scores.mean(), tiny.mean(), rtol=0.02)


def test_samples_are_mean_score_rate_and_weight_of_each_cell():
    bins = Bins.from_samples([0.5, 0.502, 1.0], [1, 0, 1], [1, 3, 2])

    scores, outcomes, weights = bins.samples()

    assert scores.tolist() == [0.5015, 1.0]
    assert outcomes.tolist() == [0.25, 1.0]
    assert weights.tolist() == [4.0, 2.0]


def test_positives_without_samples_are_left_out_and_capped_by_the_count():
    """A click whose impression was never recorded is no rate."""
    units = Bins.from_samples([0.25, 0.5], [1, 1]).sums.copy()
    units[:, 0] = [0, 0, 10**9]
    units[2, 1] = 3 * 10**9
    bins = Bins.of_sums(GRID.cells_of(np.array([0.25, 0.5])), units)

    assert [column.tolist() for column in bins.samples()] == [[0.5], [1.0], [1.0]]
    assert bins.total_positives == 1.0


def test_bins_are_immutable():
    bins = Bins.from_samples([0.25], [1]) + Bins.from_samples([0.5], [1])

    for column in (bins.cells, bins.counts, bins.score_sums, bins.positives):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7
    with pytest.raises(AttributeError):
        bins.cells = bins.counts  # type: ignore[misc]


def test_bins_equal_only_bins_with_equal_sums():
    bins = Bins.from_samples([0.25], [1])

    assert bins != Bins.from_samples([0.25], [0])
    assert bins != Bins.from_samples([0.5], [1])
    assert bins != "bins"


def test_bad_samples_are_refused():
    with pytest.raises(ValueError, match=r"scores\[1\] = 1.7: every value must be in \[0, 1\]"):
        Bins.from_samples([0.5, 1.7], [0, 1])


def test_an_outcome_of_two_thirds_keeps_its_rate():
    _, outcomes, _ = Bins.from_samples([0.5] * 3, [2 / 3] * 3).samples()

    np.testing.assert_allclose(outcomes, 2 / 3, atol=1e-9)
