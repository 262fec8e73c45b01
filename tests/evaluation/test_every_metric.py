"""What every metric does with nothing, with one class only, without weight, and with bad input."""

import inspect
import re
from functools import partial
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evaluation
from evaluation import (
    auc,
    bias_shift,
    bucketed_cs_auc,
    cal_n,
    cal_n_floor,
    calibrated_log_loss,
    calibrated_losses,
    calibrated_quadratic_loss,
    copc,
    cs_auc,
    cs_auc_parts,
    gauc,
    gc_n,
    gcs_auc,
    grouped_auc,
    grouped_cal_n,
    grouped_cs_auc,
    log_loss,
    mae,
    mse,
    nmse,
    partial_auc,
    pcoc,
    prediction_error,
    reliability_diagram,
    rig,
    rolling_calibrated_losses,
    ropr,
    score_quantiles,
    scorecard,
)
from research.reproduction.rate_curve import rate_slices
from tests.evaluation.cal_n_oracle import repeated
from tests.evaluation.predictions_of_kind import predictions

BINS = 2
INFINITE = "the shift that would fit them is infinite"


def of_one_campaign(metric):
    """The metric of a single campaign, however few its positives."""

    def measure(p, y, sample_weight=None):
        campaigns = ["a"] * len(p)
        return metric(p, y, campaigns, BINS, min_positives=0, sample_weight=sample_weight)

    return measure


def floor(p, y, sample_weight=None):
    rng = np.random.default_rng(1)
    return cal_n_floor(p, BINS, rng=rng, draws=20, sample_weight=sample_weight)


def mean_rate(p, y, sample_weight=None):
    """The diagram as one number: nan when it has no point."""
    diagram = reliability_diagram(p, y, BINS, sample_weight=sample_weight)
    shares = diagram.weights / diagram.weights.sum() if len(diagram.weights) else diagram.weights
    return float(shares @ diagram.rates) if len(shares) else nan


def log_loss_on_the_scorecard(p, y, sample_weight=None):
    return scorecard(p, y, [0] * len(p), sample_weight=sample_weight)["log_loss"]


def revenue_ratio(p, y, sample_weight=None):
    return ropr(p, y, np.ones(len(p)), sample_weight=sample_weight)


def rate_of_the_lowest(p, y, sample_weight=None):
    """One bin holds all samples."""
    rates = score_quantiles(p, y, 1, sample_weight=sample_weight).rates
    return float(rates[0]) if len(rates) else nan


def rate_of_the_only_slice(p, y, sample_weight=None):
    rates = rate_slices(p, y, ["a"] * len(p), sample_weight=sample_weight).rates
    return float(rates[0]) if len(rates) else nan


def nan_where_infinite(metric):
    """The metric, and nan where it says that the shift it needs is infinite."""

    def measure(p, y, sample_weight=None):
        try:
            return metric(p, y, sample_weight=sample_weight)
        except ValueError as error:
            if INFINITE not in str(error):
                raise
            return nan

    return measure


def rolling(loss):
    """The value of the rolling calibrated losses, by one loss."""
    return lambda p, y, periods, **more: (
        rolling_calibrated_losses(p, y, periods, loss, **more).value
    )


def of_two_periods(metric):
    """The metric where the low probabilities come first."""

    def measure(p, y, sample_weight=None):
        periods = np.asarray(p, float) > 0.3
        return metric(p, y, periods, sample_weight=sample_weight)

    return nan_where_infinite(measure)


def of_one_group(metric):
    """The metric of a single group."""

    def measure(p, y, sample_weight=None):
        return metric(p, y, ["a"] * len(p), sample_weight=sample_weight)

    return measure


def with_equal_bids(metric):
    """The metric where every bid is 1."""

    def measure(p, y, *groups, sample_weight=None):
        return metric(p, y, np.ones(len(p)), *groups, sample_weight=sample_weight)

    return measure


METRICS = {
    "auc": auc,
    "bias_shift": nan_where_infinite(bias_shift),
    "bucketed_cs_auc": with_equal_bids(bucketed_cs_auc),
    "cal_n": lambda p, y, sample_weight=None: cal_n(p, y, BINS, sample_weight=sample_weight),
    "cal_n_floor": floor,
    "calibrated_log_loss": nan_where_infinite(calibrated_log_loss),
    "calibrated_losses": nan_where_infinite(
        lambda *columns, **options: calibrated_losses(*columns, **options).value
    ),
    "calibrated_quadratic_loss": calibrated_quadratic_loss,
    "copc": copc,
    "cs_auc": with_equal_bids(cs_auc),
    "cs_auc_parts": lambda *columns, **options: (
        with_equal_bids(cs_auc_parts)(*columns, **options).value
    ),
    "gauc": of_one_group(gauc),
    "gc_n": of_one_campaign(gc_n),
    "gcs_auc": of_one_group(with_equal_bids(gcs_auc)),
    "grouped_auc": lambda *columns, **options: of_one_group(grouped_auc)(*columns, **options).value,
    "grouped_cal_n": lambda *columns, **options: (
        of_one_campaign(grouped_cal_n)(*columns, **options).value
    ),
    "grouped_cs_auc": lambda *columns, **options: (
        of_one_group(with_equal_bids(grouped_cs_auc))(*columns, **options).value
    ),
    "log_loss": log_loss,
    "mae": mae,
    "mse": mse,
    "nmse": nmse,
    "partial_auc": partial_auc,
    "pcoc": pcoc,
    "prediction_error": prediction_error,
    "rate_slices": rate_of_the_only_slice,
    "reliability_diagram": mean_rate,
    "rig": rig,
    "rolling_calibrated_log_loss": of_two_periods(rolling("log")),
    "rolling_calibrated_losses": of_two_periods(
        lambda *columns, **options: rolling_calibrated_losses(*columns, **options).value
    ),
    "rolling_calibrated_quadratic_loss": of_two_periods(rolling("quadratic")),
    "ropr": revenue_ratio,
    "score_quantiles": rate_of_the_lowest,
    "scorecard": log_loss_on_the_scorecard,
}
STUDIES = {
    "ab_analysis",
    "backtest",
    "behaviour_study",
    "click_curve",
    "compare_auctions",
    "delayed_backtest",
    "field_ece",
    "field_errors",
    "field_rce",
    "gsp_auction",
    "metric_accuracy",
    "mf_rce",
    "multicalibration",
    "paired_bootstrap",
    "quantile_rates",
    "simulate_auction",
    "sweep_operating_points",
}
"""Public functions of other arguments than probabilities and outcomes."""
NOT_PUBLIC = {"rate_slices", "rolling_calibrated_log_loss", "rolling_calibrated_quadratic_loss"}
"""Of `research`, and the two losses of one public function: under the contract all the same."""
WITH_OUTCOMES = sorted(set(METRICS) - {"cal_n_floor"})
BY_PERIOD = {name for name in METRICS if name.startswith("rolling")}
"""The contract itself finds their periods from the probabilities."""
BY_PLACE = {"calibrated_log_loss", "calibrated_losses", "calibrated_quadratic_loss"}
"""Their bias rows are drawn by the places of rows."""
COUNTS = {"cal_n", "cal_n_floor", "gc_n", "grouped_cal_n", "reliability_diagram", "score_quantiles"}
"""Their bins hold so many samples, or intervals around them: a weight is no mere proportion."""
GROUPED = ["gc_n", "grouped_cal_n", "scorecard", "gauc", "gcs_auc"]
REGRESSION = {"calibrated_quadratic_loss", "rolling_calibrated_quadratic_loss"}
"""Their predictions and outcomes may be any numbers."""

ONE_CLASS = {
    "cal_n": (inf, 3.0),
    "calibrated_quadratic_loss": (0.0, 0.0),
    "copc": (0.0, 4.0),
    "gc_n": (nan, 3.0),
    "grouped_cal_n": (nan, 3.0),
    "log_loss": (-np.log(0.75), -np.log(0.25)),
    "mae": (0.25, 0.75),
    "mse": (0.0625, 0.5625),
    "pcoc": (inf, 0.25),
    "prediction_error": (inf, -0.75),
    "rate_slices": (0.0, 1.0),
    "reliability_diagram": (0.0, 1.0),
    "ropr": (0.0, 4.0),
    "score_quantiles": (0.0, 1.0),
    "scorecard": (-np.log(0.75), -np.log(0.25)),
}
"""Of probabilities of 1/4: where there are negatives alone, and positives; nan of all others."""


def test_every_public_metric_is_under_this_contract():
    """A new one is added to the table above."""
    functions = {
        name for name in evaluation.__all__ if inspect.isfunction(getattr(evaluation, name))
    }

    assert functions - STUDIES == set(METRICS) - NOT_PUBLIC


def test_nothing_is_undefined():
    """No samples: nan, never 0 or 0.5."""
    for name, metric in METRICS.items():
        assert isnan(metric([], [])), name
        assert isnan(metric(np.empty(0), np.empty(0), sample_weight=np.empty(0))), name


def test_no_weight_is_undefined():
    """Samples of weight 0 are no samples."""
    for name, metric in METRICS.items():
        assert isnan(metric([0.2, 0.5, 0.7], [0, 1, 1], sample_weight=[0, 0, 0])), name


@given(samples=predictions(), random=st.randoms(use_true_random=False))
def test_row_order_is_of_no_effect(samples, random):
    """Ties are broken by rule, never by position."""
    order = list(range(len(samples[0])))
    random.shuffle(order)
    p, y, weights = (column[order] for column in samples)
    for name in METRICS.keys() - BY_PLACE:
        expected = METRICS[name](samples[0], samples[1], sample_weight=samples[2])

        shuffled = METRICS[name](p, y, sample_weight=weights)
        assert shuffled == pytest.approx(expected, nan_ok=True), name


@given(samples=predictions())
def test_weights_equal_repetition(samples):
    """A whole-number weight is that many rows; 0 is none."""
    p, y, weights = samples
    for name in METRICS.keys() - BY_PLACE:
        expected = METRICS[name](*repeated(p, y, weights))

        weighted = METRICS[name](p, y, sample_weight=weights)
        assert weighted == pytest.approx(expected, nan_ok=True), name


@given(samples=predictions(), factor=st.sampled_from([1e-290, 1e-12, 1e-3, 0.5, 3.0, 1e290]))
def test_weights_have_no_scale(samples, factor):
    """Only proportions count, but where weights are counts of samples."""
    p, y, weights = samples
    for name in METRICS.keys() - BY_PLACE - COUNTS:
        expected = METRICS[name](p, y, sample_weight=weights)

        scaled = METRICS[name](p, y, sample_weight=weights * factor)
        assert scaled == pytest.approx(expected, nan_ok=True), name


@settings(max_examples=30)
@given(samples=predictions(min_size=3))
def test_a_sample_of_weight_0_is_none(samples):
    """It may as well not be there."""
    p, y, weights = samples
    held = weights > 0
    for name, metric in METRICS.items():
        expected = metric(p[held], y[held], sample_weight=weights[held])

        actual = metric(p, y, sample_weight=weights)
        assert actual == pytest.approx(expected, nan_ok=True), name


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_class_only(outcome):
    """Four samples at probability 1/4, all of one outcome: what needs both classes is nan, and
    without positives so is every ratio but strict Cal-N, which is infinite."""
    for name in WITH_OUTCOMES:
        value = METRICS[name]([0.25] * 4, [outcome] * 4)

        expected = ONE_CLASS.get(name, (nan, nan))[outcome]
        assert value == pytest.approx(expected, nan_ok=True), name


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_scorecard_of_one_class_keeps_what_is_defined(outcome):
    """Its other numbers are those of their metrics, each undefined on its own."""
    row = scorecard([0.25] * 40, [outcome] * 40, ["a"] * 40)

    assert (row["n"], row["positives"]) == (40.0, 40.0 * outcome)
    assert {name for name, value in row.items() if isnan(value)} == (
        {"auc"} if outcome else {"auc", "gc_3", "gc_4", "gc_5"}
    )


def refusal(name, *columns, **options):
    """The words of the ValueError that the metric raises."""
    try:
        value = METRICS[name](*columns, **options)
    except ValueError as error:
        return str(error)
    return f"{name} is {value}"


@pytest.mark.parametrize("value", [nan, inf, -0.01, 1.01])
def test_a_bad_probability_is_named(value):
    """NaN and all that is outside [0, 1]: ValueError with column, row and value."""
    for name in set(METRICS) - REGRESSION:
        said = refusal(name, [0.5, value, 0.5], [0, 1, 1])

        assert f"probabilities[1] = {value}: every value must be in" in said, name


@pytest.mark.parametrize("value", [nan, inf, -1.0, 2.0])
def test_a_bad_outcome_is_named(value):
    """NaN and all that is outside [0, 1]: ValueError with column, row and value."""
    for name in set(WITH_OUTCOMES) - REGRESSION:
        said = refusal(name, [0.5, 0.5, 0.5], [0, 1, value])

        assert f"outcomes[2] = {value}: every value must be in" in said, name


@pytest.mark.parametrize("value", [nan, inf, -inf, 1e151])
def test_a_bad_number_is_named(value):
    """What is no number, or too large for its square to be one, in either column."""
    rule = f" = {value}: every value must be finite and within 1e+150 of 0"
    for name in REGRESSION:
        assert f"predictions[1]{rule}" in refusal(name, [0.5, value, 0.5], [0, 1, 1]), name
        assert f"outcomes[2]{rule}" in refusal(name, [0.5, 0.5, 0.5], [0, 1, value]), name


@pytest.mark.parametrize("value", [nan, inf, -1.0])
def test_a_bad_weight_is_named(value):
    """NaN, infinite and negative: ValueError with column, row and value."""
    rule = rf"sample_weight\[0\] = {value}: .* finite and at least"
    for name in METRICS:
        said = refusal(name, [0.5, 0.5, 0.5], [0, 1, 1], sample_weight=[value, 1, 1])

        assert re.search(rule, said), name


def test_weights_without_a_finite_sum_are_refused():
    """Each is finite, all together are not."""
    for name in METRICS:
        said = refusal(name, [0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1], sample_weight=[1e308] * 4)

        assert "sum of sample_weight = inf" in said, name


@pytest.mark.parametrize(
    ("column", "rule"), [(["a"], "must be numbers"), ([[0.5]], "one dimension")]
)
def test_columns_are_numbers_in_a_row(column, rule):
    """No text, no table."""
    for name in METRICS.keys() - BY_PERIOD:
        assert rule in refusal(name, column, [1]), name


@pytest.mark.parametrize("outcomes", [[], [1], [0, 1, 1]], ids=len)
def test_an_outcome_for_each_probability(outcomes):
    """Unequal lengths are an error, not broadcast."""
    rule = f"equal lengths: (probabilities|predictions) has 2, outcomes has {len(outcomes)}"
    for name in WITH_OUTCOMES:
        assert re.search(rule, refusal(name, [0.5, 0.5], outcomes)), name


@pytest.mark.parametrize("weights", [[], [1], [1, 1, 1]], ids=len)
def test_a_weight_for_each_probability(weights):
    """Unequal lengths are an error, not broadcast."""
    rule = f"equal lengths: .*sample_weight has {len(weights)}"
    for name in METRICS:
        said = refusal(name, [0.5, 0.5], [0, 1], sample_weight=weights)

        assert re.search(rule, said), name


@pytest.mark.parametrize(
    "metric", [gc_n, grouped_cal_n, scorecard, gauc, with_equal_bids(gcs_auc)], ids=GROUPED
)
@pytest.mark.parametrize("groups", [[], ["a"], ["a"] * 3, np.zeros(3, int)], ids=len)
def test_a_group_for_each_probability(metric, groups):
    """Unequal lengths are an error, not broadcast."""
    with pytest.raises(ValueError, match=f"equal lengths: .*(campaigns|groups) has {len(groups)}"):
        metric([0.5, 0.5], [0, 1], groups)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (gauc, 0.5),
        (with_equal_bids(gcs_auc), 0.5),
        (partial(gc_n, n=1, min_positives=0), ((1 / 0.4 - 1) + (1 / 0.3 - 1)) / 2),
    ],
    ids=["gauc", "gcs_auc", "gc_n"],
)
@pytest.mark.parametrize(
    "groups",
    [
        ["b", "a", "b", "a"],
        np.array(["b", "a", "b", "a"]),
        np.array([1, 0, 1, 0], np.uint64),
        np.array([1, 0, 1, 0], np.int8),
        np.array([4, 2, 4, 2], np.int32),
        np.array([2**40, -5, 2**40, -5]),
        [(1, 2), 0] * 2,
    ],
    ids=["list", "array", "unsigned", "short", "indices", "large", "mixed"],
)
def test_groups_are_any_hashable_keys(metric, expected, groups):
    """Names, numbers, pairs: the keys only group."""
    assert metric([0.1, 0.2, 0.3, 0.1], [0, 0, 1, 1], groups) == pytest.approx(expected)


@pytest.mark.parametrize(("kind", "count"), [(np.int8, 128), (np.uint8, 256)])
def test_codes_may_fill_their_type(kind, count):
    """128 groups in a byte are 128 groups, as in wider codes."""
    codes = np.repeat(np.arange(count), 2).astype(kind)
    p, y = np.tile([0.1, 0.2], count), np.tile([0, 1], count)

    assert grouped_auc(p, y, codes).groups_kept == count
    assert with_equal_bids(grouped_cs_auc)(p, y, codes).groups_kept == count
    assert grouped_cal_n(p, y, codes, 1, min_positives=0).campaigns_kept == count


@settings(max_examples=10)
@given(samples=predictions(min_size=4))
def test_arguments_are_left_as_they_are(samples):
    """A metric reads; it works in memory of its own."""
    columns = [column.astype(float) for column in samples]
    copies = [column.copy() for column in columns]
    for name, metric in METRICS.items():
        metric(columns[0], columns[1], sample_weight=columns[2])

        assert all(map(np.array_equal, columns, copies)), name
