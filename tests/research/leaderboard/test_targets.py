"""Targets: value against limit, whatever is missing is said."""

from dataclasses import replace

import pytest

from research.leaderboard.result_file import EXCESS, GC_3_TRUE, LOG_LOSS, Interval, Leaderboard
from research.leaderboard.tables import target_summary
from research.leaderboard.targets import (
    ALL,
    NO_WORSE,
    TARGETS,
    TargetResult,
    geometric_means,
    target_results,
)
from tests.research.leaderboard.sample import result, traffic_result


def by_target(name: str) -> dict[str, TargetResult]:
    return {each.target: each for each in target_results(result()) if each.regime == name}


def test_the_best_of_the_others_is_the_one_to_beat():
    """LightGBM where MCGrad did not run, the best of the maps of one campaign, anyone at all."""
    found = by_target("mixed")

    against = [found[target.name].against for target in TARGETS]
    assert against == ["sir_published", "lightgbm", "platt", "sir_published", "lightgbm"]
    assert [found[t.name].met for t in TARGETS] == [True, True, True, True, True]


def test_a_missed_target_keeps_its_value():
    each = by_target("steps")["excess of the better of LightGBM and MCGrad"]

    assert each.value == pytest.approx(0.96)
    assert (each.met, each.limit, each.absent) == (False, 0.7, ("mcgrad",))
    assert each.clear


def test_nobody_has_to_beat_scores_that_are_the_truth():
    """There the harm is bounded instead."""
    found = by_target("calibrated")

    assert found["GC-3* of the best of all others"].against == "lightgbm"
    assert found[NO_WORSE].against == "identity"
    assert NO_WORSE not in by_target("mixed")


@pytest.mark.parametrize(
    ("lower", "met"), [(-1e-6, True), (0.0, True), (1e-9, False), (float("nan"), None)]
)
def test_no_worse_means_within_the_noise(lower, met):
    found = traffic_result("calibrated")
    ends = {"identity": {LOG_LOSS: Interval(2e-6, lower, 5e-6)}}
    changed = replace(found, differences=ends)

    (each,) = [v for v in target_results(Leaderboard([changed], [])) if v.target == NO_WORSE]

    assert each.met is met


def test_at_the_limit_is_met_unless_it_must_be_below():
    found = traffic_result("mixed")
    ratios = {name: {EXCESS: Interval(1.0), GC_3_TRUE: Interval(1.0)} for name in found.ratios}
    ratios["sir_published"] = {EXCESS: Interval(0.25), GC_3_TRUE: Interval(0.45)}

    found_targets = target_results(Leaderboard([replace(found, ratios=ratios)], []))

    assert [each.met for each in found_targets] == [True, False, False, True, False]


def test_without_those_to_compare_with_nobody_can_tell():
    found = traffic_result("mixed")
    rows = {name: row for name, row in found.rows.items() if name != "lightgbm"}
    missing = {**found.missing, "lightgbm": "gone"}

    found_targets = target_results(Leaderboard([replace(found, rows=rows, missing=missing)], []))

    assert (found_targets[1].met, found_targets[1].absent) == (None, ("lightgbm", "mcgrad"))
    words = target_summary(found_targets)
    assert words.startswith("4 of 5 targets are met. 1 cannot be told")
    assert words.endswith("lightgbm and mcgrad did not run: targets are evaluated without.")


def test_the_mean_of_all_regimes_has_targets_of_its_own():
    """Of the regimes whose scores err; with one of them nothing is told of a mean."""
    published, strong = (each for each in target_results(result()) if each.regime == ALL)

    assert published.value == pytest.approx((28.4 / 150 * 48 / 848) ** 0.5)
    assert strong.value == pytest.approx((28.4 / 48 * 48 / 50) ** 0.5)
    assert (published.met, strong.met, strong.absent) == (True, False, ("mcgrad",))
    of_one = [traffic_result("mixed"), traffic_result("calibrated")]
    assert ALL not in {each.regime for each in target_results(Leaderboard(of_one, []))}


def test_a_mean_without_one_of_its_ratios_is_unknown():
    gone = traffic_result("steps")
    rows = {name: row for name, row in gone.rows.items() if name != "lightgbm"}
    found = [traffic_result("mixed"), replace(gone, rows=rows)]

    published, strong = target_results(Leaderboard(found, []))[-2:]

    assert (published.met, strong.met) == (True, None)


def test_a_log_has_no_targets():
    log = traffic_result("mixed", truth_known=False)

    assert target_results(Leaderboard([log], [])) == []


def test_means_leave_out_scores_that_are_the_truth():
    """A ratio to what hardly moves them would carry the mean."""
    means = geometric_means(result(), EXCESS)

    ratios = [28.4 / 150, 48 / 848]
    assert means["pooled"].value == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    assert (means["pooled"].lower, means["pooled"].upper) == pytest.approx(tuple(ratios[::-1]))
    assert means["identity"].value > 0.5
    assert "mcgrad" not in means
