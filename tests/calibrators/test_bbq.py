"""Bayesian binning against a literal, slow transcription of its formulas."""

from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import BayesianBinning
from calibrators.methods.bbq import model_sizes
from tests.calibrators import sir_oracle
from tests.calibrators.strategies import Floats

Model = list[tuple[float, float, float, float]]
"""Bins as upper border of the interval, samples, positives, middle of the interval."""


def log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def cut_into(samples: list[tuple[float, float]], bins: int) -> Model:
    """Equal-frequency bins, whose borders lie halfway between the scores on their sides."""
    found = sir_oracle.cut_into([(Fraction(x), Fraction(y), Fraction(1)) for x, y in samples], bins)
    inner = [float(below.u + above.l) / 2 for below, above in pairwise(found)]
    return [
        (upper, float(each.c), float(each.sum_y), (lower + upper) / 2)
        for each, (lower, upper) in zip(found, pairwise([0.0, *inner, 1.0]), strict=True)
    ]


def log_likelihood(model: Model) -> float:
    share = 2 / len(model)
    return sum(
        log_beta(m + share * p, n - m + share * (1 - p)) - log_beta(share * p, share * (1 - p))
        for _, n, m, p in model
    )


def value_at(model: Model, score: float) -> float:
    share = 2 / len(model)
    return next((m + share * p) / (n + share) for upper, n, m, p in model if score <= upper)


def bbq_oracle(scores: Floats, outcomes: Floats, asked: list[float]) -> list[float]:
    samples = sorted(zip(scores.tolist(), outcomes.tolist(), strict=True))
    root, distinct = len(samples) ** (1 / 3), len(set(scores.tolist()))
    sizes = range(max(1, int(root / 10)), min(ceil(10 * root - 1e-9), distinct) + 1)
    models = [cut_into(samples, bins) for bins in sizes]
    evidence = [log_likelihood(model) for model in models]
    shares = [exp(value - max(evidence)) for value in evidence]
    return [
        sum(share * value_at(model, score) for share, model in zip(shares, models, strict=True))
        / sum(shares)
        for score in asked
    ]


@given(st.integers(0, 2**32), st.sampled_from([3, 16, 1024]))
def test_the_map_is_the_mean_of_all_models(seed, distinct):
    """Scores are binary fractions, so that the oracle's borders have no rounding either."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    scores = (rng.integers(0, distinct, n) + 0.5) / 1024
    outcomes = (rng.random(n) < scores * 1024 / distinct).astype(float)
    asked = [*scores.tolist(), *rng.random(20).tolist(), 0.0, 1.0]

    calibration_map = BayesianBinning().fit(scores, outcomes)

    assert calibration_map(asked) == pytest.approx(bbq_oracle(scores, outcomes, asked), abs=1e-9)


@pytest.mark.parametrize(
    ("total", "distinct", "fewest", "most"),
    [
        (1e6, 10**6, 10, 1000),
        (1000, 1000, 1, 100),
        (1, 1, 1, 1),
        (1e6, 40, 10, 40),
        (1e-12, 9, 1, 1),
    ],
)
def test_models_have_the_numbers_of_bins_of_the_paper(total, distinct, fewest, most):
    assert model_sizes(total, distinct).tolist() == list(range(fewest, most + 1))


@pytest.mark.parametrize("total", [1e12, 1e18, 1e300])
def test_the_work_stays_bounded_whatever_the_weights(total):
    sizes = model_sizes(total, 10**6)

    assert len(sizes)
    assert sizes.sum() <= max(2**23, sizes[0])


def test_outcomes_without_a_pattern_get_one_rate():
    """The evidence prefers few bins where more explain nothing."""
    rng = np.random.default_rng(1)
    scores, outcomes = rng.random(5000), (rng.random(5000) < 0.3).astype(float)

    calibrated = BayesianBinning().fit(scores, outcomes)(scores)

    assert calibrated.std() < 0.02
    assert calibrated.mean() == pytest.approx(outcomes.mean(), rel=0.01)
