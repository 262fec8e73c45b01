"""The delay curve by two slow ways and against the truth, and how much campaigns' curves differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem.arrays import Floats
from pccem.delays import curve_strength, delay_curve

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=25)


def columns(pairs: list[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Delays and ages from (delay, age - delay)."""
    delay, rest = np.array(pairs, np.float64).T
    return delay, delay + rest


def by_definition(delay: Floats, age: Floats) -> list[float]:
    shares, share = [], 1.0
    for s in sorted(set(delay.tolist()), reverse=True):
        shares.append(share)
        at_risk = sum(d <= s <= a for d, a in zip(delay, age, strict=True))
        events = sum(d == s for d in delay)
        share *= 1 - events / at_risk if events < at_risk else 1 / (at_risk + 1)
    return shares[::-1]


def by_self_consistency(delay: Floats, age: Floats, rounds: int = 3_000) -> Floats:
    """The likelihood prod f(d_i) / F(a_i) climbed by its EM steps: each conversion seen on a click
    of age a stands for 1 / F(a) conversions."""
    times, counts = np.unique(delay, return_counts=True)
    within = times <= age[:, None]
    f = counts / counts.sum()
    for _ in range(rounds):
        f = counts / (within / (within @ f)[:, None]).sum(axis=0)
        f = f / f.sum()
    return np.cumsum(f)


@given(pairs)
def test_same_as_its_definition(pairs):
    delay, age = columns(pairs)

    times, shares = delay_curve(delay, age)

    assert times.tolist() == sorted(set(delay.tolist()))
    np.testing.assert_allclose(shares, by_definition(delay, age), rtol=1e-12)
    assert (np.diff(shares) > 0).all()
    assert shares[0] > 0
    assert shares[-1] == 1


def test_no_other_distribution_is_more_likely():
    """The product limit is where the EM algorithm ends."""
    random = np.random.default_rng(3)
    delay, age = random.integers(0, 6, 400), random.integers(0, 9, 400)
    seen = delay <= age
    delay, age = delay[seen].astype(float), age[seen].astype(float)

    assert delay_curve(delay, age)[1] == pytest.approx(by_self_consistency(delay, age), abs=1e-9)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_old_clicks_give_the_plain_share(delays):
    delay = np.array(delays, np.float64)

    times, shares = delay_curve(delay, np.full(len(delay), 9.0))

    np.testing.assert_allclose(shares, [(delay <= t).mean() for t in times], atol=1e-12)


def test_heavy_truncation_is_undone():
    """Nine clicks in ten are young; the plain share of what is seen would be off by .3."""
    random = np.random.default_rng(7)
    n, window = 200_000, 168.0
    delay = random.lognormal(np.log(20.0), 1.8, n)
    delay = delay[delay < window]
    age = np.where(random.random(len(delay)) < 0.9, random.uniform(0, 48, len(delay)), 200.0)
    seen = delay <= age

    times, shares = delay_curve(delay[seen], age[seen])
    at = np.array([1.0, 5.0, 20.0, 60.0, 100.0, 150.0])
    found = shares[np.searchsorted(times, at, side="right") - 1]
    truth = np.array([(delay <= t).mean() for t in at])
    plain = np.array([(delay[seen] <= t).mean() for t in at])

    assert found == pytest.approx(truth, abs=0.012)
    assert np.abs(plain - truth).max() > 0.25


def test_where_all_at_risk_converted_shorter_delays_keep_a_share():
    """At 5 only the conversion of delay 5 itself is at risk, the other click was too young: the
    product would say that nothing ever comes by 1."""
    _, shares = delay_curve(np.array([1.0, 5.0]), np.array([2.0, 9.0]))

    assert shares.tolist() == [0.5, 1.0]


TIMES = np.linspace(0.0, 1.0, 101)


def curves_of(strength: float | None, counts: list[int], seed: int) -> np.ndarray:
    """Empirical curves of uniform delays: each campaign's own distribution is a draw from a
    Dirichlet process (by its urn); None: all have the same."""
    random = np.random.default_rng(seed)
    curves = []
    for count in counts:
        draws = random.random(count)
        if strength is not None:
            for i in range(1, count):
                if random.random() < i / (strength + i):
                    draws[i] = draws[random.integers(i)]
        curves.append((draws[:, None] <= TIMES).mean(axis=0))
    return np.array(curves)


@pytest.mark.parametrize("strength", [10.0, 30.0, 100.0])
def test_the_strength_is_found(strength):
    counts = [200, 400] * 30

    found = [curve_strength(curves_of(strength, counts, s), np.array(counts)) for s in range(5)]

    assert np.mean(found) == pytest.approx(strength, rel=0.25)


def test_curves_that_only_chance_sets_apart():
    counts = [200, 400] * 30

    found = curve_strength(curves_of(None, counts, 0), np.array(counts))

    assert found > 900


def test_one_campaign_or_none_has_the_prior():
    assert curve_strength(np.empty((0, 101)), np.empty(0, np.int64)) == pytest.approx(100)
    assert curve_strength(TIMES[None], np.array([50])) == pytest.approx(100)


def test_two_campaigns_move_the_prior_by_a_third():
    """Opposite curves: all of one early, all of the other late; as different as can be."""
    early, late = (TIMES >= 0.01) * 1.0, (TIMES >= 1.0) * 1.0

    found = curve_strength(np.array([early, late]), np.array([1_000, 1_000]))

    assert found == pytest.approx(1 / ((1 + 2 / 101) / 3) - 1, rel=0.01)


def test_campaigns_of_one_conversion_each_tell_nothing():
    curves = curves_of(None, [1, 1, 1], 0)

    assert curve_strength(curves, np.array([1, 1, 1])) == pytest.approx(100)
