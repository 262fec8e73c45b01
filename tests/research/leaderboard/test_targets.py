"""Targets: value against limit, whatever is missing is said."""

from dataclasses import replace

import pytest

from research.leaderboard.result import EXCESS, GC_3_TRUE, LOG_LOSS, ContestResult, Ends
from research.leaderboard.tables import verdict_words
from research.leaderboard.targets import NO_WORSE, TARGETS, Verdict, geometric_means, verdicts_of
from tests.reports.contest_sample import contested, result


def by_target(name: str) -> dict[str, Verdict]:
    return {verdict.target: verdict for verdict in verdicts_of(result()) if verdict.regime == name}


def test_the_best_of_the_others_is_the_one_to_beat() -> None:
    """LightGBM where MCGrad did not run, the best of the maps of one campaign, anyone at all."""
    found = by_target("mixed")

    against = [found[target.name].against for target in TARGETS]
    assert against == ["sir_published", "lightgbm", "platt", "sir_published", "lightgbm"]
    assert [found[t.name].met for t in TARGETS] == [True, True, True, True, True]


def test_a_missed_target_keeps_its_value() -> None:
    verdict = by_target("steps")["excess of the better of LightGBM and MCGrad"]

    assert verdict.value == pytest.approx(0.96)
    assert (verdict.met, verdict.limit, verdict.absent) == (False, 0.7, ("mcgrad",))
    assert verdict.clear


def test_nobody_has_to_beat_scores_that_are_the_truth() -> None:
    """There the harm is bounded instead."""
    found = by_target("calibrated")

    assert found["GC-3* of the best of all others"].against == "lightgbm"
    assert found[NO_WORSE].against == "identity"
    assert NO_WORSE not in by_target("mixed")


@pytest.mark.parametrize(
    ("lower", "met"), [(-1e-6, True), (0.0, True), (1e-9, False), (float("nan"), None)]
)
def test_no_worse_means_within_the_noise(lower: float, met: bool | None) -> None:
    found = contested("calibrated")
    ends = {"identity": {LOG_LOSS: Ends(2e-6, lower, 5e-6)}}
    changed = replace(found, differences=ends)

    (verdict,) = [v for v in verdicts_of(ContestResult([changed], [])) if v.target == NO_WORSE]

    assert verdict.met is met


def test_at_the_limit_is_met_unless_it_must_be_below() -> None:
    found = contested("mixed")
    ratios = {name: {EXCESS: Ends(1.0), GC_3_TRUE: Ends(1.0)} for name in found.ratios}
    ratios["sir_published"] = {EXCESS: Ends(0.25), GC_3_TRUE: Ends(0.45)}

    verdicts = verdicts_of(ContestResult([replace(found, ratios=ratios)], []))

    assert [verdict.met for verdict in verdicts] == [True, False, False, True, False]


def test_without_those_to_compare_with_nobody_can_tell() -> None:
    found = contested("mixed")
    rows = {name: row for name, row in found.rows.items() if name != "lightgbm"}
    missing = {**found.missing, "lightgbm": "gone"}

    verdicts = verdicts_of(ContestResult([replace(found, rows=rows, missing=missing)], []))

    assert (verdicts[1].met, verdicts[1].absent) == (None, ("lightgbm", "mcgrad"))
    words = verdict_words(verdicts)
    assert words.startswith("4 of 5 targets are met. 1 cannot be told")
    assert words.endswith("lightgbm and mcgrad did not run: targets are judged without.")


def test_a_log_has_no_targets() -> None:
    log = contested("mixed", truth_known=False)

    assert verdicts_of(ContestResult([log], [])) == []


def test_means_leave_out_scores_that_are_the_truth() -> None:
    """A ratio to what hardly moves them would carry the mean."""
    means = geometric_means(result(), EXCESS)

    ratios = [28.4 / 150, 48 / 848]
    assert means["pooled"].value == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    assert (means["pooled"].lower, means["pooled"].upper) == pytest.approx(tuple(ratios[::-1]))
    assert means["identity"].value > 0.5
    assert "mcgrad" not in means
