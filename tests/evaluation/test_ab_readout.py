"""The readout of an A/B test."""

from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from evaluation import ab_analysis
from evaluation.ab_test.analysis import UnitRatio


def auctions(rng, users=300, lift=1.2, by="user"):
    """Users with a click rate and a price of their own; arm 1 clicks `lift` times as often.

    Drawn by user, or by impression so that every user is in both arms.
    """
    user = np.repeat(np.arange(users), 1 + rng.poisson(8, users))
    arm = rng.integers(0, 2, users)[user] if by == "user" else rng.integers(0, 2, len(user))
    rate = rng.beta(2, 18, users)[user] * np.where(arm == 1, lift, 1.0)
    clicks = (rng.random(len(user)) < rate).astype(float)
    costs = clicks * rng.lognormal(0, 0.5, len(user)) * rng.lognormal(0, 0.7, users)[user]
    values = costs * rng.lognormal(1, 1, len(user)) * (rng.random(len(user)) < 0.4)
    return {"arms": arm, "costs": costs, "values": values, "clicks": clicks, "units": user}


def test_the_three_metrics_are_ratios_of_sums():
    """RPM for a thousand impressions, clicks for each, value for each unit of money paid."""
    arms = ["B", "A", "B", "A", "B"]
    costs, values, clicks = [2.0, 1.0, 0.0, 0.0, 1.0], [9.0, 1.0, 0.0, 0.0, 0.0], [1, 1, 0, 0, 1]

    readout = ab_analysis(arms, costs, values, clicks=clicks, control="A")

    a, b = readout.arms["A"], readout.arms["B"]
    assert (a.impressions, a.units, a.cost, a.clicks, a.value) == (2, 2, 1.0, 1.0, 1.0)
    assert (b.impressions, b.units, b.cost, b.clicks, b.value) == (3, 3, 3.0, 2.0, 9.0)
    assert [b.metrics[name].value for name in ("rpm", "ctr", "roi")] == [1000.0, 2 / 3, 3.0]
    assert readout.lifts["B"]["rpm"].value == pytest.approx(1.0)
    assert readout.lifts["B"]["ctr"].value == pytest.approx(1 / 3)
    assert readout.lifts["B"]["roi"].value == pytest.approx(2.0)


def test_metrics_the_log_cannot_tell_are_left_out():
    """Without clicks no CTR, without values no ROI."""
    readout = ab_analysis(["a", "b"] * 2, [1, 2, 3, 4], control="a")

    assert list(readout.arms["a"].metrics) == list(readout.lifts["b"]) == ["rpm"]
    assert isnan(readout.arms["a"].clicks)
    assert isnan(readout.arms["a"].value)


def test_the_interval_of_a_click_rate_is_that_of_its_logarithm():
    """ln of a rate p of n impressions has the variance (1 - p) / (n p), and G / (G - 1)."""
    clicks = np.repeat([1.0, 0.0], [300, 700])
    arms = np.concatenate([np.zeros(1_000, int), np.ones(1_000, int)])

    readout = ab_analysis(arms, np.ones(2_000), clicks=np.tile(clicks, 2), control=0)

    error = np.sqrt(0.7 / (1_000 * 0.3) * 1_000 / 999)
    rate, lift = readout.arms[0].metrics["ctr"], readout.lifts[1]["ctr"]
    assert np.log(rate.upper / 0.3) == pytest.approx(1.9647 * error, rel=1e-3)
    assert np.log(1 + lift.upper) == pytest.approx(1.9647 * error * np.sqrt(2), rel=2e-3)
    assert np.log(1 + lift.lower) == pytest.approx(-np.log(1 + lift.upper))


def test_units_are_resampled_whole():
    """The clustered interval is that of a bootstrap of users."""
    rng = np.random.default_rng(0)
    log = auctions(rng, users=2_000)
    readout = ab_analysis(**log, control=0)
    sums = {
        arm: np.array(
            [
                np.bincount(log["units"], column * (log["arms"] == arm))
                for column in (log["clicks"], np.ones(len(log["arms"])))
            ]
        )
        for arm in (0, 1)
    }

    ratios = []
    for _ in range(1_000):
        drawn = np.bincount(rng.integers(0, 2_000, 2_000), minlength=2_000)
        (c0, n0), (c1, n1) = (sums[arm] @ drawn for arm in (0, 1))
        ratios.append(np.log(c1 / n1 / (c0 / n0)))

    lift = readout.lifts[1]["ctr"]
    width = np.log((1 + lift.upper) / (1 + lift.lower)) / 2 / 1.96
    assert width == pytest.approx(np.std(ratios), rel=0.08)


@pytest.mark.parametrize("metric", ["rpm", "ctr", "roi"])
@pytest.mark.parametrize(("users", "by"), [(60, "user"), (300, "user"), (300, "impression")])
def test_the_interval_of_the_lift_covers_what_it_says(metric, users, by):
    """At least 92 % of 300 simulated tests of users who differ."""
    rng = np.random.default_rng(7)
    truth = 0.0 if metric == "roi" else 0.2
    lifts = [
        ab_analysis(**auctions(rng, users, by=by), control=0).lifts[1][metric] for _ in range(300)
    ]

    assert np.mean([each.lower <= truth <= each.upper for each in lifts]) > 0.92


def test_a_unit_in_both_arms_counts_with_its_difference():
    """What a campaign does to both arms cancels: the interval is narrower."""
    campaign = np.tile(np.arange(20), 100)
    arms = np.repeat([0, 1], 1_000)
    costs = 1.0 + campaign + np.random.default_rng(0).random(2_000)

    lift = ab_analysis(arms, costs, control=0, units=campaign).lifts[1]["rpm"]
    apart = ab_analysis(arms, costs, control=0, units=campaign + 20 * arms).lifts[1]["rpm"]

    assert lift.upper - lift.lower < 0.05 < 0.5 < apart.upper - apart.lower


def test_few_conversions_make_a_wide_interval():
    """Of a thousand units three bring the value: as if there were few more than three."""
    arms = np.repeat([0, 1], 1_000)
    values = np.zeros(2_000)
    values[[3, 5, 7, 1_003, 1_005, 1_007]] = 1.0

    roi = ab_analysis(arms, np.ones(2_000), values, control=0).lifts[1]["roi"]

    normal = np.exp(1.96 * np.sqrt(2 / 3)) - 1
    assert roi.upper > 1.5 * normal


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_the_currency_is_of_no_effect(factor):
    """On lifts and ROI; RPM has its unit."""
    log = auctions(np.random.default_rng(1))
    other = {**log, "costs": log["costs"] * factor, "values": log["values"] * factor}

    one, two = (ab_analysis(**each, control=0) for each in (log, other))

    for metric in ("rpm", "roi"):
        lifts = [each.lifts[1][metric] for each in (one, two)]
        assert lifts[0].lower == pytest.approx(lifts[1].lower)
        assert lifts[0].value == pytest.approx(lifts[1].value)
    rpm = [each.arms[0].metrics["rpm"].upper for each in (one, two)]
    assert rpm[1] == pytest.approx(rpm[0] * factor)


@given(st.randoms(use_true_random=False))
def test_row_order_is_of_no_effect(random):
    """Arms come with the control first, then by name."""
    log = auctions(np.random.default_rng(2), users=20)
    order = list(range(len(log["arms"])))
    random.shuffle(order)

    one = ab_analysis(**log, control=1)
    two = ab_analysis(**{name: column[order] for name, column in log.items()}, control=1)

    assert list(two.arms) == [1, 0]
    assert two.lifts[0]["rpm"].lower == pytest.approx(one.lifts[0]["rpm"].lower)
    assert two.sample_ratio == one.sample_ratio


def test_several_arms_against_one_control():
    """Each with a lift of its own."""
    arms = np.repeat(["c", "b", "a"], 100)
    costs = np.repeat([1.0, 2.0, 3.0], 100) + np.tile([0.1, -0.1], 150)

    readout = ab_analysis(arms, costs, control="b")

    assert list(readout.arms) == ["b", "a", "c"]
    assert list(readout.lifts) == ["a", "c"]
    assert readout.lifts["a"]["rpm"].value == pytest.approx(0.5)
    assert readout.conclusion("a", "rpm") == "higher"
    assert readout.conclusion("c", "rpm") == "lower"


def test_verdicts():
    """By whether the interval holds 0; nan where there is none."""
    arms = np.repeat([0, 1], 200)
    clicks = np.tile([1.0, 0.0], 200)

    readout = ab_analysis(arms, np.zeros(400), clicks=clicks, control=0)

    assert readout.conclusion(1, "ctr") == "no clear difference"
    assert readout.conclusion(1, "rpm") == "undefined"


def test_an_arm_without_clicks_has_a_rate_of_0_and_no_interval():
    """Nothing says how far it is known; the lift is -100 %."""
    readout = ab_analysis([0, 0, 1, 1], [1, 1, 1, 1], clicks=[0, 1, 0, 0], control=0)

    rate, lift = readout.arms[1].metrics["ctr"], readout.lifts[1]["ctr"]
    assert (rate.value, lift.value) == (0.0, -1.0)
    assert all(map(isnan, (rate.lower, rate.upper, lift.lower, lift.upper)))
    assert isnan(
        ab_analysis([0, 0, 1, 1], [1] * 4, clicks=[0, 1, 0, 0], control=1).lifts[0]["ctr"].value
    )


def test_an_arm_that_pays_nothing_has_no_roi():
    """Infinite with value, nan without; the lift over it is undefined."""
    arms, costs = [0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 0, 0]

    readout = ab_analysis(arms, costs, [1, 1, 1, 1, 0, 0], control=0)

    assert [readout.arms[arm].metrics["roi"].value for arm in (0, 1)] == [1.0, inf]
    assert isnan(readout.arms[2].metrics["roi"].value)
    assert readout.arms[1].metrics["rpm"].value == 0.0
    assert isnan(ab_analysis(arms, costs, [1] * 6, control=1).lifts[0]["roi"].value)


def test_one_unit_tells_no_spread():
    """A single user in an arm: values, and no interval."""
    readout = ab_analysis([0, 0, 1, 1], [1, 2, 3, 4], control=0, units=["u", "v", "w", "w"])

    assert readout.arms[1].units == 1
    assert readout.lifts[1]["rpm"].value == pytest.approx(7 / 3 - 1)
    assert readout.conclusion(1, "rpm") == "undefined"


def test_where_all_pay_alike_there_is_no_spread():
    """A fixed price: the interval has no width, rightly."""
    rpm = ab_analysis([0, 0, 1, 1], [2, 2, 3, 3], control=0).lifts[1]["rpm"]

    assert (rpm.lower, rpm.value, rpm.upper) == pytest.approx((0.5, 0.5, 0.5))


def test_an_interval_may_reach_infinity():
    """With two units and near certainty asked for."""
    ratio = UnitRatio.of(np.array([1.0, 9.0]), np.array([1.0, 1.0]), 2)

    estimate = ratio.estimate(1 - 1e-9)

    assert (estimate.lower, estimate.value, estimate.upper) == (0.0, 5.0, inf)


@pytest.mark.parametrize(
    ("split", "expected"), [(None, [500, 500]), ({"a": 9, "b": 1}, [900, 100])]
)
def test_the_sizes_are_checked_against_the_split(split, expected):
    """By chi-square, as scipy has it."""
    arms = ["a"] * 540 + ["b"] * 460

    check = ab_analysis(arms, np.ones(1_000), control="a", split=split).sample_ratio

    assert check.p_value == pytest.approx(chisquare([540, 460], expected).pvalue)
    assert check.observed == {"a": 540, "b": 460}
    assert list(check.expected.values()) == pytest.approx(expected)
    assert check.mismatch == (split is not None)
    assert check.counted == "impressions"


def test_users_are_counted_where_none_is_in_two_arms():
    """Otherwise impressions."""
    arms, costs = ["a"] * 6 + ["b"] * 2, np.ones(8)

    apart = ab_analysis(arms, costs, control="a", units=[1, 1, 1, 2, 2, 2, 3, 4]).sample_ratio
    mixed = ab_analysis(arms, costs, control="a", units=[1, 1, 1, 2, 2, 2, 2, 4]).sample_ratio

    assert (apart.counted, apart.observed) == ("units", {"a": 2, "b": 2})
    assert (mixed.counted, mixed.observed) == ("impressions", {"a": 6, "b": 2})


def test_a_mismatch_is_seldom_where_the_split_is_kept():
    """One test in a thousand."""
    rng = np.random.default_rng(5)
    checks = [
        ab_analysis(rng.integers(0, 2, 1_000), np.ones(1_000), control=0).sample_ratio
        for _ in range(500)
    ]

    assert sum(check.mismatch for check in checks) <= 3
    assert np.mean([check.p_value < 0.1 for check in checks]) == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "x"}, "control = 'x': must be one of the arms, which are 'a', 'b'"),
        ({"arms": ["a"] * 3}, "arms: there is only 'a', and nothing to compare it with"),
        ({"arms": [], "costs": []}, "control = 'a': must be one of the arms, which are none"),
        ({"arms": ["a", None, "b"]}, r"arms\[1\] = None: every value must be a name or a number"),
        ({"arms": np.array([0.0, nan, 1.0])}, r"arms\[1\] = nan: every value must be a name or"),
        ({"units": [1.0, 2.0, nan]}, r"units\[2\] = nan: every value must be a name or a number"),
        ({"arms": ["a", "b"]}, "equal lengths: arms has 2, costs has 3"),
        ({"units": [1]}, "equal lengths: arms has 3, costs has 3, units has 1"),
        ({"clicks": [1]}, "equal lengths: arms has 3, costs has 3, clicks has 1"),
        ({"values": [1]}, "equal lengths: arms has 3, costs has 3, values has 1"),
        ({"costs": [1, -2, 3]}, r"costs\[1\] = -2.0: every value must be finite and at least 0"),
        ({"costs": [1, nan, 3]}, r"costs\[1\] = nan: every value must be finite and at least 0"),
        ({"costs": [1e308] * 3}, "sum of costs = inf"),
        ({"values": [1, 2, inf]}, r"values\[2\] = inf: every value must be finite and at least 0"),
        ({"clicks": [1, 2, 0]}, r"clicks\[1\] = 2.0: every value must be in \[0, 1\]"),
        ({"confidence": 1.0}, "confidence = 1.0: must be between 0 and 1"),
        ({"split": {"a": 1}}, "split = {'a': 1}: must name exactly the arms, which are 'a', 'b'"),
        ({"split": {"a": 1, "b": 0}}, r"split\['b'\] = 0: must be finite and above 0"),
        ({"split": {"a": 1, "b": nan}}, r"split\['b'\] = nan: must be finite and above 0"),
    ],
)
def test_bad_arguments_are_named(options, message):
    """ValueError with column, row, value and rule."""
    arguments = {"arms": ["a", "b", "a"], "costs": [1, 2, 3], "control": "a", **options}
    with pytest.raises(ValueError, match=message):
        ab_analysis(**arguments)
