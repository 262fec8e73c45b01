"""The delay distribution: fit, levels, look-up, and what comes back out of JSON."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import DelayDistribution
from pccem.arrays import Floats
from pccem.delays import delay_curve

HOUR, WINDOW = 3600.0, 7 * 86_400.0


def lognormal_delays(n: int, seed: int, median: float = 12 * HOUR) -> Floats:
    """Delays inside the window."""
    random = np.random.default_rng(seed)
    delay = random.lognormal(np.log(median), 1.8, 2 * n)
    return delay[delay < WINDOW][:n]


def seen_by(delay: Floats, age: Floats) -> Floats:
    """The delay where it is over by the click's age, else nan."""
    return np.where(delay <= age, delay, np.nan)


def fitted(
    delay: Floats, age: Floats, rows: Any = None, names: tuple[str, ...] = ("a",), **options: Any
) -> DelayDistribution:
    rows = np.zeros(len(delay), np.int32) if rows is None else rows
    found = DelayDistribution.fit(delay, age, rows, names, window=WINDOW, **options)
    assert found is not None
    return found


def target_share(delays: DelayDistribution, elapsed: Floats) -> Floats:
    return delays.share(elapsed, np.zeros(len(elapsed), np.int32), ["unknown"])


AT = np.array([0.5, 1, 3, 12, 24, 48, 100, 150]) * HOUR


def test_the_truth_is_found_from_clicks_of_every_age():
    """Fourteen days of clicks, half of them too young for their window to be over."""
    delay = lognormal_delays(100_000, 1)
    age = np.random.default_rng(2).uniform(0, 2 * WINDOW, len(delay))

    delays = fitted(seen_by(delay, age), age)

    truth = [(delay <= t).mean() for t in AT]
    assert target_share(delays, AT) == pytest.approx(truth, abs=0.006)
    assert delays.median() == pytest.approx(np.median(delay), rel=0.02)
    assert delays.mature == np.count_nonzero(age >= WINDOW)
    assert delays.conversions == np.count_nonzero(delay <= age) > delays.mature


def test_young_clicks_sharpen_what_mature_clicks_alone_say():
    """Two hundred mature conversions and many young ones: the early part of the curve is far
    surer, over 40 draws, than from the mature ones alone."""
    errors = []
    for seed in range(40):
        delay = lognormal_delays(4_200, seed)
        age = np.where(np.arange(len(delay)) < 200, WINDOW, 30 * HOUR)
        both = fitted(seen_by(delay, age), age)
        alone = fitted(delay[:200], age[:200])
        errors.append([target_share(d, np.array([12 * HOUR]))[0] for d in (both, alone)])

    spread = np.array(errors).std(axis=0)

    assert spread[0] < 0.75 * spread[1]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=60),
    st.integers(0, 20),
)
def test_any_delays_give_a_distribution(pairs, at):
    """Ties, delays of 0, one distinct delay: between 0 and 1, never falling, right at each delay
    seen."""
    delay, rest = np.array(pairs, np.float64).T
    age = delay + rest
    rows = np.zeros(len(delay), np.int32)
    found = DelayDistribution.fit(delay, age, rows, ["a"], window=21.0, min_conversions=1)
    if not (age >= 21.0).any():
        assert found is None
        return

    assert found is not None
    grid = np.linspace(-1.0, 22.0, 70)
    shares = target_share(found, grid)
    times, curve = delay_curve(delay, age, np.exp2(-0.25 * age / 21.0))
    assert (np.diff(shares) >= 0).all()
    assert (shares[grid < 0] == 0).all()
    assert (shares[grid >= 21] == 1).all()
    assert target_share(found, times) == pytest.approx(curve, abs=1e-6)
    assert ((shares >= 0) & (shares <= 1)).all()


@given(st.floats(0, 1))
def test_a_quantile_is_the_first_time_by_which_the_share_has_come(q):
    delays = fitted(np.array([0.0, 0.0, 10.0, 50.0]), np.full(4, WINDOW), min_conversions=1)

    at = delays.quantile(q)

    reached = target_share(delays, np.array([at]))[0]
    before = target_share(delays, np.array([at - 1e-3]))[0]
    assert reached >= q - 1e-9
    assert before < max(q, 1e-12) or at == 0


def test_quantiles_by_hand():
    delays = fitted(np.array([0.0, 0.0, 10.0, 50.0]), np.full(4, WINDOW), min_conversions=1)

    assert [delays.quantile(q) for q in (0.0, 0.5, 0.75, 1.0)] == [0, 0, 10, 50]
    assert delays.median() == 0
    assert delays.quantile(0.75, "a") == pytest.approx(10, rel=1e-3)
    assert delays.quantile(0.75, "unknown") == 10
    with pytest.raises(ValueError, match=r"q = 1.5: must be in \[0, 1\]"):
        delays.quantile(1.5)


def test_too_few_mature_conversions_give_nothing():
    """However many young clicks have converted: what is still to come is not known."""
    delay = lognormal_delays(5_000, 3)
    age = np.where(np.arange(len(delay)) < 99, WINDOW, 2 * HOUR)
    rows = np.zeros(len(delay), np.int32)
    seen = seen_by(delay, age)

    assert DelayDistribution.fit(seen, age, rows, ["a"], window=WINDOW) is None
    assert DelayDistribution.fit([], [], [], [], window=WINDOW) is None
    age[99] = WINDOW
    seen[99] = delay[99]
    assert DelayDistribution.fit(seen, age, rows, ["a"], window=WINDOW) is not None


def two_kinds(seed: int = 5) -> tuple[Floats, Floats, Any, tuple[str, ...]]:
    """A quick and a slow campaign, and one with 20 conversions only."""
    delay = np.concatenate(
        [
            lognormal_delays(3_000, seed, 1 * HOUR),
            lognormal_delays(3_000, seed + 1, 40 * HOUR),
            lognormal_delays(20, seed + 2, 1 * HOUR),
        ]
    )
    rows = np.repeat([0, 1, 2], [3_000, 3_000, len(delay) - 6_000])
    age = np.random.default_rng(seed).uniform(HOUR, 3 * WINDOW, len(delay))
    return seen_by(delay, age), age, rows, ("quick", "slow", "small")


def test_a_campaign_with_enough_has_its_own_level():
    delay, age, rows, names = two_kinds()

    delays = fitted(delay, age, rows, names)

    assert delays.campaigns == ("quick", "slow")
    quick, slow, small, unknown = (
        delays.share([6 * HOUR], [0], [name])[0] for name in (*names, "unknown")
    )
    assert quick == pytest.approx((lognormal_delays(50_000, 9, HOUR) <= 6 * HOUR).mean(), abs=0.04)
    assert slow == pytest.approx(
        (lognormal_delays(50_000, 9, 40 * HOUR) <= 6 * HOUR).mean(), abs=0.04
    )
    assert small == unknown == pytest.approx((quick + slow) / 2, abs=0.03)
    assert delays.strength < 50


def test_a_level_is_the_weighted_mean_of_the_campaign_and_the_target():
    delay, age, rows, names = two_kinds()

    delays = fitted(delay, age, rows, names, strength=500.0)

    of_slow = rows == 1
    mature = np.count_nonzero(of_slow & (age >= WINDOW) & ~np.isnan(delay))
    own = fitted(delay[of_slow], age[of_slow], strength=1.0).shares[0]
    at = fitted(delay[of_slow], age[of_slow], strength=1.0).knots
    weight = mature / (mature + 500.0)
    expected = weight * own + (1 - weight) * target_share(delays, at)
    assert delays.share(at, np.zeros(len(at), np.int32), ["slow"]) == pytest.approx(
        expected, abs=0.01
    )


@pytest.mark.parametrize(("fewest", "own"), [(3, ("a", "b")), (4, ("b",)), (5, ())])
def test_exactly_enough_mature_conversions_give_a_level(fewest, own):
    """Three of a, four of b; conversions of young clicks do not count towards it."""
    delay, rows = np.full(9, HOUR), np.array([0, 0, 0, 1, 1, 1, 1, 0, 0])
    age = np.array([WINDOW] * 7 + [2 * HOUR] * 2)

    assert fitted(delay, age, rows, ("a", "b"), min_conversions=fewest).campaigns == own


def test_campaigns_alike_lean_wholly_on_the_target():
    delay = lognormal_delays(20_000, 8)
    rows = np.arange(len(delay)) % 20
    names = tuple(f"campaign-{i}" for i in range(20))

    delays = fitted(delay, np.full(len(delay), WINDOW), rows, names)

    assert len(delays.campaigns) == 20
    assert delays.strength > 500
    assert np.abs(delays.shares - delays.shares[0]).max() < 0.03


def test_rows_of_another_order_of_campaigns():
    delay, age, rows, names = two_kinds()
    delays = fitted(delay, age, rows, names)
    elapsed = np.random.default_rng(0).uniform(-HOUR, 2 * WINDOW, 100_000)
    places = np.random.default_rng(1).integers(0, 4, len(elapsed))
    order = ["unknown", "slow", "small", "quick"]

    shares = delays.share(elapsed, places.astype(np.int32), order)

    for place, name in enumerate(order):
        level = 1 + delays.campaigns.index(name) if name in delays.campaigns else 0
        chosen = places == place
        by_numpy = np.interp(elapsed[chosen], delays.knots, delays.shares[level])
        by_numpy[elapsed[chosen] < 0] = 0
        np.testing.assert_allclose(shares[chosen], by_numpy, rtol=0, atol=1e-12)


def test_comes_back_out_of_json():
    delays = fitted(*two_kinds())

    back = DelayDistribution.from_dict(json.loads(json.dumps(delays.to_dict())))

    np.testing.assert_array_equal(back.knots, delays.knots)
    np.testing.assert_array_equal(back.shares, delays.shares)
    assert back.to_dict() == delays.to_dict()
    assert back.window == WINDOW
    assert len(delays.knots) <= 256


GOOD: dict[str, Any] = {
    "schema_version": 1,
    "knots": [0.0, 5.0, 9.0],
    "shares": [[0.0, 0.5, 1.0], [0.25, 0.5, 1.0]],
    "campaigns": ["a"],
    "conversions": 5,
    "mature": 3,
    "strength": 10.0,
}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"schema_version": 2}, "schema_version 2, this reads 1"),
        ({"knots": None}, "must be tables of numbers|must be"),
        ({"knots": "x"}, "must be tables of numbers"),
        ({"knots": [0.0, "x", 9.0]}, "must be tables of numbers"),
        ({"knots": {}}, "must be tables of numbers"),
        ({"shares": [[0.0, 1.0], [0.0]]}, "must be tables of numbers"),
        ({"shares": [[0.0, 0.5, 1.0]]}, r"shares \(1, 3\): must be \(k,\) and \(2, k\)"),
        ({"knots": [9.0], "shares": [[1.0], [1.0]]}, "k at least 2"),
        ({"knots": 5.0}, "k at least 2"),
        ({"knots": [1.0, 5.0, 9.0]}, "must increase from 0 to the window"),
        ({"knots": [0.0, 5.0, 5.0]}, "must increase"),
        ({"knots": [0.0, 5.0, float("inf")]}, "must increase"),
        ({"knots": [0.0, float("nan"), 9.0]}, "must increase"),
        ({"shares": [[-0.1, 0.5, 1.0]] * 2}, r"must be in \[0, 1\] and end at 1"),
        ({"shares": [[0.0, 0.5, 0.9]] * 2}, "end at 1"),
        ({"shares": [[0.6, 0.5, 1.0]] * 2}, "must not decrease"),
        ({"shares": [[0.0, float("nan"), 1.0]] * 2}, "must not decrease"),
        ({"campaigns": "a"}, "must be a list of names"),
        ({"campaigns": [1]}, "must be a list of names"),
        ({"campaigns": ["a", "a"]}, "stands twice"),
        ({"strength": 0.0}, "strength = 0.0"),
        ({"strength": None}, "strength = None"),
        ({"conversions": 2.5}, "conversions = 2.5, mature = 3: must be whole"),
        ({"mature": True}, "mature = True"),
        ({"mature": 6}, "0 < mature <= conversions"),
    ],
)
def test_other_data_is_refused(bad, message):
    assert DelayDistribution.from_dict(GOOD).quantile(0.25) == 2.5
    with pytest.raises(ValueError, match=message):
        DelayDistribution.from_dict(GOOD | bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"delay": [9.0]}, r"delay\[0\] = 9.0 at age 20.0: must be in \[0, 9.0\), the window"),
        ({"delay": [-1.0]}, r"delay\[0\] = -1.0"),
        ({"age": [3.0]}, r"delay\[0\] = 4.0 at age 3.0: .* at most the age"),
        ({"age": [np.nan]}, r"at age nan"),
        ({"rows": [1]}, r"rows\[0\] = 1: every value must be in \[0, 1\)"),
        ({"rows": [0, 0]}, "rows has 2"),
        ({"window": 0.0}, "window = 0.0"),
        ({"min_conversions": 0}, "min_conversions = 0: must be at least 1"),
        ({"strength": 0.0}, "strength = 0.0: must be finite and above 0"),
    ],
)
def test_bad_columns_are_refused(bad, message):
    good: dict[str, Any] = {
        "delay": [4.0],
        "age": [20.0],
        "rows": [0],
        "campaigns": ["a"],
        "window": 9.0,
    }
    with pytest.raises(ValueError, match=message):
        DelayDistribution.fit(**good | bad)


def test_a_look_up_checks_its_columns():
    delays = DelayDistribution.from_dict(GOOD)

    assert delays.share([], [], []).shape == (0,)
    with pytest.raises(ValueError, match=r"elapsed\[0\] = nan"):
        delays.share([np.nan], [0], ["a"])
    with pytest.raises(ValueError, match="elapsed has 1, rows has 2"):
        delays.share([1.0], [0, 0], ["a"])
    with pytest.raises(ValueError, match=r"rows\[0\] = 1"):
        delays.share([1.0], [1], ["a"])


def test_the_tables_cannot_be_changed():
    delays = DelayDistribution.from_dict(GOOD)

    with pytest.raises(ValueError, match="read-only"):
        delays.shares[0, 0] = 0.5
