"""The strength of a Dirichlet process from curves drawn from one."""

import numpy as np
import pytest

from pccem.delays import curve_strength

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
