"""Platt, temperature and beta against a general minimiser of the exact weighted loss."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from calibrators import Beta, Platt, Temperature
from calibrators.bins.bins import WeightedSamples
from calibrators.methods.logistic import (
    PULL,
    LogOddsCurve,
    fit_log_odds,
    log_odds_columns,
    smoothed_positives,
)
from tests.calibrators.samples_of_kind import random_samples
from tests.calibrators.strategies import Floats

Columns = tuple[Floats, ...]


def both(scores: Floats) -> Columns:
    return log_odds_columns(scores)


def summed(scores: Floats) -> Columns:
    low, high = log_odds_columns(scores)
    return (low + high,)


FAMILIES: dict[str, tuple[Callable[[Floats], Columns], bool]] = {
    "beta": (both, True),
    "platt": (summed, True),
    "temperature": (summed, False),
}


def loss_and_gradient(
    coefficients: Floats, features: Floats, weights: Floats, positives: Floats
) -> tuple[float, Floats]:
    """Weighted log loss and its gradient, for each unit of weight."""
    total, log_odds = weights.sum(), coefficients @ features
    loss = positives @ np.logaddexp(0, -log_odds) + (weights - positives) @ np.logaddexp(
        0, log_odds
    )
    return loss / total, features @ (weights * expit(log_odds) - positives) / total


def fitted(family: str, tally: WeightedSamples) -> tuple[Floats, Floats, int]:
    """Coefficients, features and how many of them are slopes."""
    make, level = FAMILIES[family]
    columns = make(tally.scores)
    slopes, constant = fit_log_odds(columns, tally.weights, tally.positives, level=level)
    rows = [*columns, np.ones_like(tally.weights)] if level else list(columns)
    return np.array([*slopes, constant] if level else slopes), np.stack(rows), len(columns)


def campaign(n: int, seed: int, a: float, b: float, c: float) -> WeightedSamples:
    """Scores of a campaign whose true rates lie on the curve, with random weights."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 12, n)
    rates = expit(a * np.log(scores) - b * np.log1p(-scores) + c)
    return WeightedSamples.from_samples(scores, rng.random(n) < rates, rng.random(n) * 3)


@pytest.mark.parametrize("family", FAMILIES)
@given(random_samples)
def test_no_other_coefficients_have_a_smaller_loss(family, drawn):
    """At the minimum the gradient vanishes, or pushes a slope of 0 below 0: convexity does the
    rest. The pull towards the identity is part of the loss."""
    tally = WeightedSamples.from_samples(drawn.scores, drawn.outcomes, drawn.weights)

    found, features, slopes = fitted(family, tally)

    _, gradient = loss_and_gradient(found, features, tally.weights, tally.positives)
    identity = np.array([1.0] * slopes + [0.0] * (len(found) - slopes))
    gradient += PULL * (found - identity)
    at_bound = (np.arange(len(found)) < slopes) & (found == 0)
    assert (found[:slopes] >= 0).all()
    assert np.abs(gradient[~at_bound]).max(initial=0) < 1e-12
    assert gradient[at_bound].min(initial=0) > -1e-12


@given(st.integers(0, 2**32), st.floats(-0.95, 0.95))
def test_the_best_set_of_slopes_is_kept_whatever_the_columns(seed, related):
    """Columns that fall while others rise: a slope that is negative beside another may not be so
    alone, so each must be dropped by itself."""
    rng = np.random.default_rng(seed)
    first, noise = rng.standard_normal((2, 60))
    columns = (first, related * first + (1 - abs(related)) * noise)
    positives, weights = rng.random(60), np.ones(60)

    slopes, level = fit_log_odds(columns, weights, positives)

    features, found = np.stack((*columns, weights)), np.array([*slopes, level])
    _, gradient = loss_and_gradient(found, features, weights, positives)
    assert (np.abs(gradient) < 1e-8)[found != 0].all()
    assert (gradient > -1e-8)[found == 0].all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("n", "a", "b", "c"),
    [
        (2000, 1.0, 1.0, 0.0),
        (2000, 0.6, 2.0, -0.5),
        (2000, 1.8, 0.3, 2.0),
        (2000, 1.0, -3.0, 0.0),
        (2000, -0.5, 4.0, -4.0),
        (2000, -0.5, -1.0, -3.0),
        (9000, 0.9, 1.4, 0.3),
        (9000, 1.2, -2.0, 0.3),
    ],
)
def test_a_general_minimiser_finds_the_same(family, n, a, b, c):
    """Also where slopes are dropped, and where the start comes from averages (n = 9000)."""
    tally = campaign(n, 5, a, b, c)

    found, features, slopes = fitted(family, tally)

    data = (features, tally.weights, tally.positives)
    expected = minimize(
        loss_and_gradient,
        np.zeros(len(found)),
        data,
        method="L-BFGS-B",
        jac=True,
        bounds=[(0, None)] * slopes + [(None, None)] * (len(found) - slopes),
        options={"ftol": 1e-15, "gtol": 1e-11, "maxiter": 5000},
    )
    assert loss_and_gradient(found, *data)[0] <= expected.fun + 1e-9
    assert found @ features == pytest.approx(expected.x @ features, abs=2e-3)


def test_beta_recovers_its_own_curve():
    truth = LogOddsCurve(0.7, 1.9, -0.4)
    scores = np.linspace(0.01, 0.99, 99)

    calibration_map = Beta().fit(scores, truth(scores))

    assert calibration_map(scores) == pytest.approx(truth(scores), rel=1.1e-3)


def test_platt_and_temperature_are_lines_in_log_odds():
    scores = np.linspace(0.01, 0.99, 99)
    line, steeper = expit(0.6 * logit(scores) - 1), expit(1.7 * logit(scores))

    platt = Platt().fit(scores, line, np.full(99, 1e9))(scores)
    temperature = Temperature().fit(scores, steeper)(scores)

    assert platt == pytest.approx(line, rel=1.1e-3)
    assert temperature == pytest.approx(steeper, rel=1.1e-3)


def test_platts_targets_keep_a_little_doubt():
    """(P + 1) / (P + 2) for a positive, 1 / (N + 2) for a negative."""
    tally = WeightedSamples.from_samples([0.1, 0.2, 0.3], [0, 0, 1], [2, 1, 4])

    assert smoothed_positives(tally) == pytest.approx([2 / 5, 1 / 5, 4 * 5 / 6])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["separable", "all", "none", "constant"])
def test_what_the_data_leave_open_stays_finite_and_the_same_at_any_scale(family, kind):
    scores = np.full(6, 0.2) if kind == "constant" else np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
    outcomes = {"all": np.ones(6), "none": np.zeros(6)}.get(kind, np.repeat([0.0, 1.0], 3))

    once, scaled = (
        fitted(family, WeightedSamples.from_samples(scores, outcomes, np.full(6, weight)))[0]
        for weight in (1.0, 2.0**50)
    )

    assert np.isfinite(once).all()
    assert np.abs(once).max() < 1e5
    assert once.tolist() == scaled.tolist()


def test_averages_only_start_the_fit():
    """Twice the scores, each split in two neighbours: the fit of the halves is the fit of all."""
    tally = campaign(3000, 9, 0.8, 1.3, 0.2)
    scores = np.column_stack((tally.scores, np.nextafter(tally.scores, 1.0))).ravel()
    halves = WeightedSamples(
        scores, np.repeat(tally.weights / 2, 2), np.repeat(tally.positives / 2, 2)
    )

    assert fitted("beta", halves)[0] == pytest.approx(fitted("beta", tally)[0], rel=1e-9)
