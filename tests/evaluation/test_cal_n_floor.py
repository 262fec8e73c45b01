"""The noise floor: Cal-N of the truth itself."""

from math import isnan

import numpy as np
import pytest

from evaluation import cal_n, cal_n_floor


@pytest.mark.parametrize(("positives", "expected"), [(20, 0.26), (50, 0.15), (200, 0.067)])
def test_floor_is_about_one_over_root_positives_a_bin(positives, expected):
    """The medians of the study: .26 at 20 positives a bin, .067 at 200; the mean is near."""
    p = np.linspace(0.0099, 0.0101, 500)
    rng = np.random.default_rng(3)

    floor = cal_n_floor(p, 5, rng=rng, draws=2_000, sample_weight=np.full(500, positives))

    assert floor == pytest.approx(expected, rel=0.12)


def test_equals_drawing_the_labels_of_rows():
    """Counts drawn by bin and labels drawn by row have the same mean, within 4 of its errors."""
    rng = np.random.default_rng(4)
    p = np.sort(rng.uniform(0.05, 0.4, 600))
    by_row = [cal_n(p, rng.random(600) < p, 3, empty="merge") for _ in range(400)]

    floor = cal_n_floor(p, 3, rng=rng, draws=400)

    assert floor == pytest.approx(np.mean(by_row), abs=4 * np.std(by_row) * np.sqrt(2 / 400))


def test_the_same_generator_gives_the_same_floor():
    """Randomness is an argument, and row order is none."""
    p = np.array([0.3, 0.1, 0.2, 0.3])
    weights = np.array([40.0, 60.0, 80.0, 20.0])
    order = [2, 0, 3, 1]

    first = cal_n_floor(p, 2, rng=np.random.default_rng(5), sample_weight=weights)
    second = cal_n_floor(p[order], 2, rng=np.random.default_rng(5), sample_weight=weights[order])

    assert first == second


def test_a_fractional_weight_is_a_partial_sample():
    """A half weight at probability 1 always adds half a positive: no noise, floor 0."""
    assert cal_n_floor([1.0, 1.0], 2, rng=np.random.default_rng(6), sample_weight=[0.5, 2.5]) == 0.0


def test_undefined_floor():
    """nan without samples enough, or when no draw has a positive."""
    rng = np.random.default_rng(7)

    assert isnan(cal_n_floor([0.5], 2, rng=rng))
    assert isnan(cal_n_floor([0.0, 0.0], 2, rng=rng))


def test_bad_draws_are_refused():
    """At least one draw."""
    rng = np.random.default_rng(8)
    with pytest.raises(ValueError, match="draws = 0"):
        cal_n_floor([0.5], 1, rng=rng, draws=0)
