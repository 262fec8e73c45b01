"""Risks under the known distribution, against sampling and integration."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, xlogy
from scipy.stats import norm

from research.reproduction.regressions import (
    LINEAR,
    USED_BY,
    bayes_log_loss,
    expected_quadratic_risk,
    quadratic_risks,
)

TRUTH = np.concatenate((np.ones(20), np.ones(1)))


def entropy(p):
    return -(xlogy(p, p) + xlogy(1 - p, 1 - p))


def test_the_truth_has_the_risk_of_the_noise():
    """Variance 4, with and without the bias."""
    plain, calibrated = quadratic_risks(TRUTH[None])

    assert plain == pytest.approx([4.0])
    assert calibrated == pytest.approx([4.0])


def test_a_constant_error_is_its_square():
    """Calibration takes it away."""
    plain, calibrated = quadratic_risks((TRUTH + np.append(np.zeros(20), 0.5))[None])

    assert plain == pytest.approx([4.25])
    assert calibrated == pytest.approx([4.0])


def test_a_feature_left_out_leaves_its_variance_and_its_mean():
    """0.25² and (-0.05)², the latter bias."""
    plain, calibrated = quadratic_risks(np.ones((1, 20)))

    assert plain == pytest.approx([4.0 + 0.0625 + 0.0025])
    assert calibrated == pytest.approx([4.0625])


def test_risks_are_losses_on_a_large_sample():
    """Within 5 standard errors of a million rows."""
    rng = np.random.default_rng(0)
    model = TRUTH[None] + rng.normal(0, 0.5, (1, 21))
    features, outcomes = LINEAR.draw(rng, 1_000_000)

    residuals = outcomes - features @ model[0, :-1] - model[0, -1]

    plain, calibrated = quadratic_risks(model)
    assert np.square(residuals).mean() == pytest.approx(plain[0], rel=5 * np.sqrt(2e-6))
    assert residuals.var() == pytest.approx(calibrated[0], rel=5 * np.sqrt(2e-6))


@pytest.mark.parametrize(("name", "printed"), [("A", 4.0859), ("B", 4.1455)])
def test_the_mean_risk_has_a_closed_form(name, printed):
    """Within .002 of the mean of 3,000 fits, and (1 + 1/n) times the calibrated risk has it too."""
    models = LINEAR.trained(np.random.default_rng(5), 3_000, USED_BY[name])

    plain, calibrated = quadratic_risks(models)

    expected = expected_quadratic_risk(USED_BY[name])
    assert expected == pytest.approx(printed, abs=5e-5)
    assert plain.mean() == pytest.approx(expected, abs=0.002)
    assert 1.001 * calibrated.mean() == pytest.approx(expected, abs=0.002)
    assert calibrated.std() < plain.std()


def test_bayes_log_loss_of_all_features_by_integration():
    """Over the sum of the features, which is normal."""
    scale = 0.25 * np.sqrt(20)

    def cost(s):
        return entropy(expit(s)) * norm.pdf(s, -1.0, scale)

    expected = quad(cost, -12, 10, epsabs=1e-10)[0]
    assert bayes_log_loss(20) == pytest.approx(expected, abs=1e-8)
    assert bayes_log_loss(20) == pytest.approx(0.521192, abs=1e-6)


def test_bayes_log_loss_without_a_feature_by_integration():
    """The probability given the known ones is a mean over the hidden one."""
    scale = 0.25 * np.sqrt(19)
    hidden = np.linspace(-2.0, 2.0, 4001)
    density = norm.pdf(hidden, -0.05, 0.25) * (hidden[1] - hidden[0])

    def cost(s):
        return entropy(expit(s + hidden) @ density) * norm.pdf(s, -0.95, scale)

    expected = quad(cost, -12, 10, epsabs=1e-9)[0]
    assert bayes_log_loss(19) == pytest.approx(expected, abs=1e-7)
    assert bayes_log_loss(19) == pytest.approx(0.526588, abs=1e-6)
