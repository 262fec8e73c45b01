"""Which map goes out: candidate, map in force or the target's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, BinsTable
from calibrators.guard import GuardRules, guard
from calibrators.guard.rules import Evidence, log_odds_of
from tests.calibrators import strategies
from tests.calibrators.guard import oracle
from tests.calibrators.guard.hours import SCORES, atlas, exactly, hour, shifted

MANY = 5_000
"""Impressions of a score in an hour that leave no doubt."""


def test_verdicts_are_those_of_plain_loops():
    """Over campaigns of all sizes, in two blocks, the decisions are those of the oracle."""
    rng = np.random.default_rng(3)
    names = [f"campaign-{number:02d}" for number in range(80)]
    trial, served, truth = (
        dict(zip(names, rng.normal(0.0, 0.7, len(names)).tolist(), strict=True)) for _ in range(3)
    )
    sizes = rng.integers(2, 400, len(names)).tolist()
    blocks = [
        BinsTable.merge(
            hour({name: truth[name]}, size, seed)
            for seed, (name, size) in enumerate(zip(part, sizes, strict=False))
        )
        for part in (names[:40], names[40:])
    ]
    tried, in_force = atlas(trial, 0.2), atlas(served, 0.2)

    decided = guard(tried, tried, in_force, blocks, GuardRules(step=1e6, reach=1e6))

    wanted = {
        name: oracle.verdict(cells, tried, in_force, atlas({}, 0.2), name)
        for name, cells in oracle.cells_of(blocks).items()
    }
    assert decided.target_decision == "passed"
    assert dict(decided.decisions) == {n: word for n, word in wanted.items() if word != "passed"}
    assert {"kept", "parent", "passed"} <= set(wanted.values())


def test_the_first_atlas_passes_as_it_is():
    candidate = atlas({"a": 3.0})

    decided = guard(candidate, candidate, None, [hour({"a": 0.0}, MANY)])

    assert decided.atlas is candidate
    assert decided.decisions == {}
    assert decided.target_decision == "passed"
    assert decided.counts == {"passed": 1, "kept": 0, "parent": 0, "bounded": 0}


@pytest.mark.parametrize("newest", [[], [BinsTable.empty()], [hour({"another": 0.0}, MANY)]])
def test_without_traffic_everything_passes(newest):
    candidate = atlas({"a": 0.5})

    decided = guard(candidate, candidate, atlas({"a": 0.0}), newest)

    assert decided.atlas is candidate
    assert decided.counts["passed"] == 1


def test_a_worse_trial_keeps_the_map_in_force():
    candidate = atlas({"a": 0.9, "b": 0.0})
    in_force = atlas({"a": 0.0, "b": 0.1}, 0.8)

    decided = guard(candidate, candidate, in_force, [exactly({"a": 0.0, "b": 0.0}, MANY)])

    assert decided.decisions == {"a": "kept"}
    assert decided.atlas.map_of("a") == in_force.map_of("a")
    assert decided.atlas.map_of("b") == candidate.map_of("b")


def test_a_campaign_whose_hour_is_set_aside_passes_within_the_step():
    """The candidate knows nothing of the hour, so the hour says nothing of what moved it."""
    candidate = atlas({"a": 0.9, "b": 0.9, "c": 2.0})
    newest = exactly(dict.fromkeys("abc", 0.0), MANY)

    decided = guard(candidate, candidate, atlas({}), [newest], set_aside={"a", "c"})

    assert decided.decisions == {"b": "kept", "c": "bounded"}
    assert decided.atlas.map_of("a") == candidate.map_of("a")


def test_the_targets_map_serves_where_it_beats_both():
    candidate, in_force = atlas({"a": 0.9}), atlas({"a": 1.0})

    decided = guard(candidate, candidate, in_force, [exactly({"a": 0.0}, MANY)])

    assert decided.decisions == {"a": "parent"}
    assert decided.atlas.campaigns == ()
    assert decided.atlas.target_map == candidate.target_map


def test_a_candidate_is_judged_by_its_trial():
    """What the candidate has learned from the hour itself does not help it."""
    good, bad = atlas({"a": 0.0}), atlas({"a": 0.9})

    decided = guard(good, bad, atlas({"a": 0.1}), [exactly({"a": 0.0}, MANY)])

    assert decided.decisions == {"a": "kept"}


def test_a_campaign_kept_without_a_map_in_force_stays_without():
    """What serves it is the target's map, old and new."""
    candidate = atlas({"a": 0.9})

    decided = guard(candidate, candidate, atlas({}), [exactly({"a": 0.0}, MANY)])

    assert decided.decisions == {"a": "kept"}
    assert decided.atlas.campaigns == ()


def test_a_campaign_that_lost_its_map_is_served_by_the_targets():
    candidate, in_force = atlas({}), atlas({"a": 0.5})

    decided = guard(candidate, in_force, in_force, [])

    assert decided.atlas.campaigns == ()
    assert decided.decisions == {}


def test_a_campaign_that_would_lose_a_better_map_keeps_it():
    candidate, in_force = atlas({}), atlas({"a": 0.8})

    decided = guard(candidate, candidate, in_force, [exactly({"a": 0.8}, MANY)])

    assert decided.decisions == {"a": "kept"}
    assert decided.atlas.map_of("a") == in_force.map_of("a")
    assert decided.counts == {"passed": 0, "kept": 1, "parent": 0, "bounded": 0}


def test_blocks_make_no_difference():
    truths = dict.fromkeys("abcdef", 0.0)
    whole = hour(truths, 300)
    candidate = atlas({name: place - 2.0 for place, name in enumerate(truths)})
    in_force = atlas(dict.fromkeys(truths, 0.5), 0.3)

    one = guard(candidate, candidate, in_force, [whole])
    two = guard(candidate, candidate, in_force, iter([whole.select("ace"), whole.select("bdf")]))

    assert dict(one.decisions) == dict(two.decisions)
    assert one.atlas.to_bytes() == two.atlas.to_bytes()
    assert (one.target_decision, one.counts) == (two.target_decision, two.counts)


@given(
    st.lists(
        st.tuples(
            strategies.scores, st.sampled_from([0.0, 1e-9, 0.5, 3.0, 1e6]), st.floats(0.0, 9.0)
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(strategies.maps(), min_size=4, max_size=4),
)
def test_any_hour_has_a_decision_and_finite_maps(cells, maps):
    """Fractions, more positives than samples, samples without a count, maps that say 0 or 1."""
    scores, counts, positives = np.array(cells, np.float64).T
    rows = np.zeros(len(scores), np.int64)
    table = BinsTable.from_columns(["a"], rows, scores, counts, positives)
    tried, served, shared, before = maps  # type: ignore[misc]
    candidate = Atlas.build({"a": tried}, shared)

    decided = guard(candidate, candidate, Atlas.build({"a": served}, before), [table])

    assert decided.decisions.get("a", "passed") in ("passed", "kept", "parent", "bounded")
    assert sum(decided.counts.values()) == 1
    assert np.isfinite(decided.atlas.map_of("a").values).all()


def test_the_best_shift_is_the_best():
    table = hour({"a": 0.05, "b": 1.0, "c": -0.02}, 500)
    evidence = Evidence.of_table(table)
    log_odds = log_odds_of(evidence.scores)
    grid = np.linspace(-0.1, 0.1, 2_001)

    found = evidence.best_log_likelihood(log_odds, 0.1)

    tried = np.max([evidence.log_likelihood(log_odds + shift) for shift in grid], axis=0)
    assert (found >= tried - 1e-9).all()
    assert found == pytest.approx(tried, abs=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"false_alarms": 0.0},
        {"false_alarms": 1.0},
        {"tolerance": -0.1},
        {"tolerance": float("nan")},
        {"creep": 1.0},
        {"step": 1.0},
        {"reach": 2.0},
        {"knots": 1},
    ],
)
def test_rules_name_what_is_wrong(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GuardRules(**wrong)  # type: ignore[arg-type]


def test_maps_of_the_tests_are_what_they_say():
    assert shifted(0.0)(SCORES) == pytest.approx(SCORES)
