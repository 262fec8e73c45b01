"""Many regressions at once are the regressions one by one."""

import numpy as np
import pytest
from scipy.special import expit

from research.reproduction.regressions import least_squares, logistic_regressions, with_intercept


def data(models=3, rows=950, features=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(-0.3, 0.8, (models, rows, features))
    clicked = (rng.random((models, rows)) < expit(x.sum(axis=-1) - 0.5)).astype(float)
    return x, clicked


def test_least_squares_is_that_of_numpy():
    """Also with rows that do not fill the last block."""
    x, y = data()

    found = least_squares(x, y)

    for place in range(len(x)):
        expected = np.linalg.lstsq(with_intercept(x[place]), y[place])[0]
        np.testing.assert_allclose(found[place], expected, atol=1e-10)


def test_at_the_highest_likelihood_residuals_are_orthogonal_to_features():
    """The equations of maximum likelihood, to the last digits."""
    x, y = data()
    columns = with_intercept(x)

    residuals = y - expit((columns @ logistic_regressions(x, y)[..., None])[..., 0])

    np.testing.assert_allclose(np.einsum("kn,knd->kd", residuals, columns), 0.0, atol=1e-8)


@pytest.mark.parametrize("fit", [least_squares, logistic_regressions])
def test_a_batch_is_its_models_one_by_one(fit):
    """No model sees another's rows."""
    x, y = data()

    one_by_one = np.concatenate([fit(x[i : i + 1], y[i : i + 1]) for i in range(len(x))])

    np.testing.assert_allclose(fit(x, y), one_by_one, rtol=1e-9)


def test_separated_outcomes_have_no_logistic_regression():
    """The likelihood grows for ever."""
    x = np.linspace(-1.0, 1.0, 50)[None, :, None]

    with pytest.raises(ValueError, match="highest likelihood"):
        logistic_regressions(x, (x[..., 0] > 0).astype(float))
