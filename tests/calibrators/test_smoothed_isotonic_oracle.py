"""SmoothedIsotonic equals a literal Algorithm 1 on thousands of random cases."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from calibrators import Bins, CalibrationMap, SmoothedIsotonic
from calibrators.maps.calibration_map import Tails
from calibrators.methods.equal_frequency import Anchor
from tests.calibrators import grid_oracle, sir_oracle
from tests.calibrators.samples_of_kind import Drawn, draw

ANCHORS: list[Anchor] = ["mean", "midpoint"]
TAILS: list[Tails] = ["proportional", "clip", "unit", "extend"]
SETTINGS = list(product(ANCHORS, TAILS))
SIZES = [1, 1.5, 2, 3, 5, 8, 13, 1000]
PRIORS = [None, Fraction(1, 2), Fraction(3)]


def proportional(ratio: Fraction | None) -> sir_oracle.Function | None:
    return None if ratio is None else lambda x: min(x * ratio, Fraction(1))


def assert_equal(fitted: CalibrationMap, f: sir_oracle.Function, rng: np.random.Generator) -> None:
    """Same probabilities at both ends, at every knot, between the knots and at random scores."""
    between = [(a + b) / 2 for a, b in pairwise(fitted.knots.tolist())]
    scores = np.array([0.0, 1.0, *fitted.knots.tolist(), *between, *rng.random(5)])

    expected = [float(f(Fraction(score))) for score in scores.tolist()]

    np.testing.assert_allclose(fitted(scores), expected, rtol=1e-9, atol=1e-9)


def cells_of(drawn: Drawn) -> list[sir_oracle.Cell]:
    """The cells by exact edges, with sums rounded to fixed point sample by sample."""
    sums: dict[int, list[int]] = {}
    for (x, y, w), score in zip(drawn.exact, drawn.scores.tolist(), strict=True):
        added = (grid_oracle.units(value) for value in (w, w * x, w * y))
        cell = grid_oracle.cell_of(score)
        sums[cell] = [a + b for a, b in zip(sums.get(cell, [0, 0, 0]), added, strict=True)]
    return [
        sir_oracle.Cell(
            lower := grid_oracle.lower_edge(cell),
            upper := grid_oracle.upper_edge(cell),
            min(max(Fraction(score_sum, count), lower), upper),
            min(Fraction(positives, count), Fraction(1)),
            Fraction(count, 10**9),
        )
        for cell, (count, score_sum, positives) in sorted(sums.items())
        if count
    ]


@pytest.mark.parametrize(("anchor", "tails"), SETTINGS)
@pytest.mark.parametrize("seed", range(4))
def test_raw_samples_give_the_literal_algorithm(anchor, tails, seed):
    """2,880 cases: ties, constant scores, all 0, all 1, N < n, N = 1, weights of every kind."""
    rng = np.random.default_rng([seed, *map(ord, anchor + tails)])
    for _ in range(90):
        drawn, size = draw(rng), SIZES[rng.integers(len(SIZES))]
        calibrator = SmoothedIsotonic(size, anchor, tails)

        fitted = calibrator.fit(drawn.scores, drawn.outcomes, drawn.weights)

        bins = sir_oracle.bins_of_samples(drawn.exact, Fraction(size))
        assert_equal(fitted, sir_oracle.fit(bins, anchor, tails), rng)
        assert fitted.monotone


@pytest.mark.parametrize(("anchor", "tails"), SETTINGS)
@pytest.mark.parametrize("ratio", PRIORS)
def test_bins_give_the_literal_algorithm_on_cells_split_at_exactly_n(anchor, tails, ratio):
    """1,440 cases, with and without a prior of several strengths."""
    rng = np.random.default_rng([7, *map(ord, anchor + tails), PRIORS.index(ratio)])
    for _ in range(60):
        drawn, size = draw(rng), SIZES[rng.integers(len(SIZES))]
        strength = float(rng.choice([0.5, 5.0, 40.0]))
        calibrator = SmoothedIsotonic(size, anchor, tails, strength)
        prior = None if ratio is None else CalibrationMap.proportional(float(ratio))

        bins = Bins.from_samples(drawn.scores, drawn.outcomes, drawn.weights)
        fitted = calibrator.fit_bins(bins, prior)

        parts = sir_oracle.bins_of_cells(cells_of(drawn), Fraction(size))
        f = sir_oracle.fit(parts, anchor, tails, proportional(ratio), Fraction(strength))
        assert_equal(fitted, f, rng)
        assert fitted.monotone
