"""Rolling calibrated losses."""

from datetime import date
from math import isnan

import numpy as np
import pytest

from evaluation import calibrated_losses, rolling_calibrated_losses


def rolling_calibrated_log_loss(p, y, periods):
    return rolling_calibrated_losses(p, y, periods, "log").value


def rolling_calibrated_quadratic_loss(p, y, periods):
    return rolling_calibrated_losses(p, y, periods, "quadratic").value


LOSSES = pytest.mark.parametrize("loss", ["log", "quadratic"])


def drifting(periods=5, rows=400):
    """A model whose bias walks: log-odds off by more each period."""
    rng = np.random.default_rng(0)
    period = np.repeat(np.arange(periods), rows)
    odds = rng.normal(-2, 1, len(period))
    y = rng.random(len(period)) < 1 / (1 + np.exp(-odds))
    return 1 / (1 + np.exp(-odds - 0.8 - 0.1 * period)), y.astype(float), period


@LOSSES
def test_each_period_has_the_bias_of_the_one_before(loss):
    """As the calibrated loss with the earlier period as its bias rows."""
    p, y, periods = drifting()

    result = rolling_calibrated_losses(p, y, periods, loss)

    assert result.periods == (1, 2, 3, 4)
    for k, period in enumerate(result.periods):
        rows = (periods == period) | (periods == period - 1)
        earlier = periods[rows] == period - 1
        expected = calibrated_losses(p[rows], y[rows], loss, bias_rows=earlier)
        assert result.shifts[k] == pytest.approx(expected.shift)
        assert result.values[k] == pytest.approx(expected.value)
        assert result.plains[k] == pytest.approx(expected.plain)


@LOSSES
def test_the_whole_is_the_mean_over_judged_rows(loss):
    """The first period is in neither."""
    p, y, periods = drifting()
    weights = np.random.default_rng(1).uniform(0, 2, len(p))

    result = rolling_calibrated_losses(p, y, periods, loss, sample_weight=weights)

    assert result.weights.sum() == pytest.approx(weights[periods > 0].sum())
    assert result.value == pytest.approx(np.average(result.values, weights=result.weights))
    assert result.plain == pytest.approx(np.average(result.plains, weights=result.weights))
    assert result.value < result.plain


@pytest.mark.parametrize(
    "keys",
    [
        [201501, 201502, 201503],
        ["2015-01", "2015-02", "2015-03"],
        [date(2015, 1, 1), date(2015, 2, 1), date(2015, 3, 1)],
        [(2014, 12), (2015, 1), (2015, 2)],
        np.array(["2015-01", "2015-02", "2015-03"], "datetime64[D]"),
        [-0.5, 0.0, 7.0],
    ],
    ids=["numbers", "names", "dates", "pairs", "datetimes", "floats"],
)
def test_periods_are_any_keys_that_can_be_sorted(keys):
    """All give the same numbers."""
    p, y, periods = drifting(3, 50)
    named = keys[periods] if isinstance(keys, np.ndarray) else [keys[k] for k in periods]

    value = rolling_calibrated_log_loss(p, y, named)

    assert value == rolling_calibrated_log_loss(p, y, periods)


def test_weights_are_repetitions_and_periods_without_weight_are_none():
    """The period before is then the last that has rows."""
    p, y, periods = drifting(4, 50)
    weights = np.where(periods == 1, 0, 1 + np.arange(len(p)) % 3)

    weighted = rolling_calibrated_losses(p, y, periods, sample_weight=weights)

    rows = [np.repeat(column, weights) for column in (p, y, periods)]
    repeated = rolling_calibrated_losses(*rows)
    assert weighted.periods == repeated.periods == (2, 3)
    assert weighted.value == pytest.approx(repeated.value)
    assert weighted.plains == pytest.approx(repeated.plains)


def test_the_last_period_may_have_one_class():
    """Nothing is fitted on it."""
    value = rolling_calibrated_log_loss([0.5] * 4, [0, 1, 0, 0], [1, 1, 2, 2])

    assert value == pytest.approx(np.log(2))


def test_a_period_of_one_class_is_named():
    """Unless it is the last; for the quadratic loss it is no obstacle."""
    p, y, periods = [0.5] * 4, [0, 0, 0, 1], ["June", "June", "May", "May"]
    message = r"period 'June': outcomes are all 0 \(2 samples\): the shift .* is infinite"
    with pytest.raises(ValueError, match=message):
        rolling_calibrated_log_loss(p, y, periods)

    assert rolling_calibrated_quadratic_loss(p, y, periods) > 0


@pytest.mark.parametrize("rows", [0, 1, 3])
@LOSSES
def test_fewer_than_two_periods_are_undefined(loss, rows):
    """nan, and no judged period."""
    result = rolling_calibrated_losses([0.5] * rows, [1] * rows, ["May"] * rows, loss)

    assert isnan(result.value)
    assert isnan(result.plain)
    assert result.periods == ()
    assert result.shifts.shape == (0,)


@pytest.mark.parametrize(
    ("periods", "message"),
    [
        ([1], "equal lengths: probabilities has 2, periods has 1"),
        ([1, "May"], "periods must be keys of one kind that can be sorted: "),
        ([1.0, float("nan")], r"periods\[1\] = nan: must be a key that can be sorted"),
        ([None, 1], r"periods\[0\] = None: must be a key that can be sorted"),
        (np.array(["NaT", "2015-01-01"], "datetime64[D]"), r"periods\[0\] = None"),
    ],
)
def test_bad_periods_are_named(periods, message):
    """ValueError with column, row, value and rule."""
    with pytest.raises(ValueError, match=message):
        rolling_calibrated_quadratic_loss([0.5, 0.5], [0, 1], periods)


def test_an_unknown_loss_lists_those_that_exist():
    """ValueError with option, value and rule."""
    with pytest.raises(ValueError, match="loss = 'absolute': must be one of log, quadratic"):
        rolling_calibrated_losses([0.5], [1], [1], "absolute")
