"""How often the guard refuses a campaign's map that is right, and one that is wrong."""

import numpy as np
import pytest

from calibrators import Atlas, BinsTable
from calibrators.guard import GuardRules, guard
from tests.calibrators.guard.hours import SCORES, atlas, hour, shifted

NAMES = [f"campaign-{number:04d}" for number in range(2_000)]


def refused(trial: float, in_force: float, impressions: int, rules: GuardRules) -> float:
    """The share of campaigns that do not get their candidate, all outcomes by the scores."""
    truths = dict.fromkeys(NAMES, 0.0)
    tried, served = (
        Atlas.build(dict.fromkeys(NAMES, shifted(shift)), shifted(6.0))
        for shift in (trial, in_force)
    )
    decided = guard(tried, tried, served, [hour(truths, impressions, seed=5)], rules)
    return (decided.counts["kept"] + decided.counts["parent"]) / len(NAMES)


@pytest.mark.parametrize("impressions", [3, 30, 300, 30_000])
@pytest.mark.parametrize("in_force", [0.02, 0.1, 0.3, 1.0])
def test_a_true_map_is_refused_no_more_often_than_stated(impressions, in_force):
    """At most 1 % where 1 % is allowed, four standard errors included, at any traffic."""
    rules = GuardRules(false_alarms=0.01, tolerance=0.0)

    assert refused(0.0, in_force, impressions, rules) <= 0.01 + 4 * np.sqrt(0.01 / len(NAMES))


@pytest.mark.parametrize("impressions", [300, 30_000])
def test_a_level_off_by_the_tolerance_is_true(impressions):
    """The bound holds for the best shift within the tolerance, whatever the map in force."""
    rules = GuardRules(false_alarms=0.01)

    assert refused(0.1, 0.0, impressions, rules) == 0.0
    assert refused(-0.1, 0.05, impressions, rules) <= 0.02


@pytest.mark.parametrize(
    ("off", "clicks", "share"), [(np.log(3), 30, 0.9), (np.log(1.5), 300, 0.8), (0.3, 3_000, 0.99)]
)
def test_a_wrong_map_is_refused(off, clicks, share):
    """Off by a factor of 3 with 30 clicks in the hour, by 1.5 with 300."""
    impressions = round(clicks / SCORES.sum())

    assert refused(off, 0.0, impressions, GuardRules()) >= share


def test_fractional_outcomes_do_not_raise_false_alarms():
    """Expected conversions vary less than conversions: the bound is the same."""
    rng = np.random.default_rng(2)
    rows, scores = np.repeat(np.arange(len(NAMES)), len(SCORES)), np.tile(SCORES, len(NAMES))
    counts = np.full(len(rows), 50.0)
    expected = counts * rng.beta(50 * scores, 50 * (1 - scores))
    newest = BinsTable.from_columns(NAMES, rows, scores, counts, expected)
    true = Atlas.build(dict.fromkeys(NAMES, shifted(0.0)), shifted(6.0))
    served = Atlas.build(dict.fromkeys(NAMES, shifted(0.4)), shifted(6.0))

    decided = guard(true, true, served, [newest], GuardRules(false_alarms=0.01, tolerance=0.0))

    assert decided.counts["kept"] + decided.counts["parent"] <= 0.02 * len(NAMES)


def test_equal_maps_are_never_told_apart():
    same = atlas({"a": 0.3, "b": -0.2}, 0.1)

    decided = guard(same, same, same, [hour({"a": 3.0, "b": -3.0}, 10_000)])

    assert decided.counts["kept"] == 0
