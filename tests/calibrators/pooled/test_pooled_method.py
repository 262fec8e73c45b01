"""The pooled method: what holds for any bins, blocks, memories and trials."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibrators import Atlas, BinsTable, CalibrationMap, Fitted, History
from calibrators.maps.groups import CampaignGroups
from calibrators.pooled import Pooled
from tests.calibrators.pooled.pooled_traffic import NEWEST, drawn_hours, history, table

SCORES = st.sampled_from([0.0, 1.0, 2.0**-40, 1e-6, 0.003, 0.05, 0.3, 0.5, 0.97, 1 - 1e-12])
COUNTS = st.sampled_from([0.0, 1e-3, 1.0, 7.0, 1e4])
POSITIVES = st.sampled_from([0.0, 0.3, 1.0, 2e4])
EVENTS = st.lists(st.tuples(st.integers(0, 4), SCORES, COUNTS, POSITIVES), max_size=20)
NAMES = ["a", "b", "c", "d", "e"]
LEVELS = [0.5, -0.5, 0.0, 1.0, -1.0, 0.2]


def every_map(atlas: Atlas) -> list[CalibrationMap]:
    """The campaigns' maps and the target's; of none without campaigns."""
    own = [atlas.map_of(name) for name in atlas.campaigns]
    assert (atlas.target_map is None) is (own == [])
    return [*own, atlas.target_map] if atlas.target_map else []


def table_of(events: list[tuple[int, float, float, float]]) -> BinsTable:
    columns = list(zip(*events, strict=True)) or [(), (), (), ()]
    return table(NAMES, *columns)


def split(hours: dict[int, BinsTable], blocks: int) -> list[dict[int, BinsTable]]:
    """The campaigns dealt out to blocks."""
    names = sorted({name for each in hours.values() for name in each.campaigns})
    return [
        {hour: each.select(names[block::blocks]) for hour, each in hours.items()}
        for block in range(blocks)
    ]


def largest_change(first: Atlas, second: Atlas) -> float:
    """In log-odds, over campaigns and scores."""
    assert first.campaigns == second.campaigns
    scores = expit(np.linspace(-8, 3, 60))
    pairs = zip(every_map(first), every_map(second), strict=True)
    return max(float(np.abs(logit(a(scores)) - logit(b(scores))).max()) for a, b in pairs)


@given(st.lists(EVENTS, max_size=4), st.booleans())
def test_any_bins_give_rising_maps_between_0_and_1(hours, trial):
    """Clicks only, none, more than impressions, fractions, scores of 0 and 1, empty hours."""
    tables = {NEWEST - age: table_of(events) for age, events in enumerate(hours)}

    fitted = Pooled().refit(history(tables), trial=trial)

    for each in every_map(fitted.atlas):
        assert each.monotone
        assert each.values.min() > 0
        assert each.values.max() < 1
        assert len(each.knots) <= 64
    held = {
        name for each in tables.values() for name in each.campaigns if each.bins(name).total_count
    }
    assert fitted.atlas.campaigns == tuple(sorted(held))


@pytest.mark.parametrize("count", [1.0, 1e3, 1e7])
@pytest.mark.parametrize("distinct", [8, 20])
def test_campaigns_of_nothing_but_positives_and_of_none_are_both_believed(distinct, count):
    """However much they are sure of, nothing overflows, and no refit of the others fails."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.uniform(0.001, 0.05, distinct))
    of_rows, rows = np.repeat(np.arange(5), 60), rng.integers(0, distinct, (24, 300))
    tables = {
        NEWEST - age: table(
            NAMES, of_rows, scores[each], np.full(300, count), count * (of_rows % 2)
        )
        for age, each in enumerate(rows)
    }

    atlas = Pooled().refit(history(tables)).atlas

    for place, name in enumerate(NAMES):
        found = atlas.map_of(name)(scores)
        assert (found > 0.5 if place % 2 else found < 0.001).all()


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("scores", [[0.0], [1.0], [0.0, 1.0]])
def test_certain_scores_get_their_rate(scores, rate):
    """Whose log-odds have no end, and the knots must have."""
    columns = [0] * len(scores), scores, [1e4] * len(scores), [1e4 * rate] * len(scores)
    hours = {NEWEST - age: table(["a"], *columns) for age in range(24)}

    fitted = Pooled().refit(history(hours)).atlas.map_of("a")

    assert fitted(np.array(scores)) == pytest.approx(rate, rel=0.01)


def test_blocks_and_their_order_change_nothing():
    """One block, or four in any order: the same maps to 1e-9."""
    hours = drawn_hours(LEVELS, [5, 10, 40, 80, 20, 100])
    whole = Pooled().refit(history(hours)).atlas
    parts = split(hours, 4)

    assert largest_change(whole, Pooled().refit(history(*parts)).atlas) < 1e-9
    assert largest_change(whole, Pooled().refit(history(*parts[::-1], {})).atlas) < 1e-9


def test_a_generator_of_blocks_is_enough():
    """The window is read once."""

    class Blocks:
        passes = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            self.passes += 1
            return iter(split(hours, 2))

    hours, blocks = drawn_hours([0.5, -0.5], [40, 40]), Blocks()
    Pooled().refit(History(NEWEST + 1.0, blocks), trial=True)

    assert blocks.passes == 1


@pytest.mark.slow
def test_a_warm_start_ends_where_a_cold_one_does():
    """From the hour before, and from the very same hour, in fewer rounds."""
    rng = np.random.default_rng(1)
    hours = drawn_hours(list(rng.normal(0, 0.4, 60)), [50] * 60, hours=26)
    before = Pooled().refit(History(NEWEST * 1.0, [hours]))
    cold = Pooled().refit(history(hours))
    warm = Pooled().refit(history(hours), memory=before.memory)
    again = Pooled().refit(history(hours), memory=cold.memory)

    assert largest_change(cold.atlas, warm.atlas) < 0.01
    assert largest_change(cold.atlas, again.atlas) < 0.01
    assert again.notes["rounds"] < cold.notes["rounds"]


def test_campaigns_that_begin_to_differ_are_told_apart_from_memory_too():
    """What was remembered of their deviations, next to nothing, does not stay so."""
    slopes = list(np.random.default_rng(2).normal(0, 0.2, 40))
    before = Pooled().refit(history(drawn_hours([0.0] * 40, [60] * 40, seed=5)))
    now = history(drawn_hours([0.0] * 40, [60] * 40, slopes=slopes, seed=6))

    warm = Pooled().refit(now, memory=before.memory)

    assert largest_change(Pooled().refit(now).atlas, warm.atlas) < 0.01


def test_the_memory_of_another_method_is_no_memory():
    """A target may have changed its method."""
    hours = drawn_hours(LEVELS, [20] * 6)
    cold, other = (Pooled().refit(history(hours), memory=memory) for memory in (None, {"a": 1}))

    assert largest_change(cold.atlas, other.atlas) == 0


def test_the_trial_does_not_know_the_newest_hour():
    """Whatever the outcomes of the newest hour are, the trial's maps stay; the atlas's do not."""
    hours = drawn_hours(LEVELS, [50] * 6)
    newest = hours[NEWEST]
    scores, outcomes, counts, rows = newest.samples()
    turned = table(newest.campaigns, rows, scores, counts, (1 - outcomes) * counts)
    found = Pooled().refit(history(hours), trial=True)
    other = Pooled().refit(history({**hours, NEWEST: turned}), trial=True)

    assert found.trial is not None
    assert other.trial is not None
    assert largest_change(found.trial, other.trial) < 1e-9
    assert largest_change(found.atlas, other.atlas) > 0.1


def test_one_absurd_newest_hour_moves_a_busy_campaigns_map_little():
    """Though the shape does not know it: the levels judge the hours, the newest one too."""
    hours = drawn_hours(LEVELS, [500] * 6)
    scores, outcomes, counts, rows = hours[NEWEST].samples()
    clicked = np.where(rows == 2, 1.0, outcomes)
    newest = table(hours[NEWEST].campaigns, rows, scores, counts, clicked * counts)
    usual = Pooled().refit(history(hours), trial=True).atlas
    found = Pooled().refit(history({**hours, NEWEST: newest}), trial=True).atlas

    served = [atlas(["a0002"], [0.05])[0] for atlas in (usual, found)]
    assert served[1] == pytest.approx(served[0], rel=0.1)


def test_trial_and_atlas_have_one_shape():
    """They differ by a shift in log-odds, and by the interpolation between knots."""
    fitted = Pooled().refit(history(drawn_hours(LEVELS, [50] * 6)), trial=True)
    assert fitted.trial is not None

    for atlas, trial in zip(every_map(fitted.atlas), every_map(fitted.trial), strict=True):
        inside = slice(1, -1)
        shift = logit(atlas.values[inside]) - logit(trial.values[inside])
        assert np.ptp(shift) < 1e-6


def test_without_a_past_the_newest_hour_teaches_and_there_is_nothing_to_try():
    """The first hour of a target."""
    hours = drawn_hours([1.0, 1.0], [2000, 2000], hours=1)
    fitted = Pooled().refit(history(hours), trial=True)

    assert fitted.trial is not None
    assert len(fitted.trial) == 0
    assert fitted.atlas(["a0000"], [0.05])[0] == pytest.approx(expit(logit(0.05) + 1), rel=0.2)


def test_no_trial_is_made_unless_asked_for():
    assert Pooled().refit(history(drawn_hours([0.0], [10]))).trial is None


def test_a_running_hour_counts_as_far_as_it_has_come():
    """A refit within an hour looks at what of it is there."""
    hours = drawn_hours([0.5, -0.5], [200, 200])
    fitted = Pooled().refit(History(NEWEST + 0.25, [hours]), trial=True)

    assert fitted.atlas(["a0000"], [0.05])[0] > 1.2 * fitted.atlas(["a0001"], [0.05])[0]


@pytest.mark.parametrize("blocks", [(), ({},)], ids=["no block", "an empty block"])
def test_who_has_learnt_nothing_gives_scores_back_as_they_are(blocks):
    """As the identity, which waits for approval where maps serve."""
    fitted = Pooled().refit(history(*blocks), trial=True)
    scores = np.array([0.0, 0.02, 0.5, 1.0])

    for atlas in (fitted.atlas, fitted.trial):
        assert len(atlas) == 0
        assert atlas.target_map is None
        np.testing.assert_array_equal(atlas(["shoes"] * 4, scores), scores)


def test_hours_before_the_window_are_forgotten():
    """Only `hours` of them count."""
    hours = drawn_hours([1.0], [500], hours=10)
    old = {hour - 48: each for hour, each in hours.items()}

    assert len(Pooled().refit(history(old)).atlas) == 0
    assert len(Pooled(hours=72).refit(history(old)).atlas) == 1


def test_a_campaign_without_traffic_is_served_by_the_target():
    """The mean over campaigns, as the prior expects it."""
    fitted = Pooled().refit(history(drawn_hours([0.7] * 8, [200] * 8)))

    assert fitted.atlas.level("unheard") == "target"
    assert fitted.atlas(["unheard"], [0.05])[0] == pytest.approx(expit(logit(0.05) + 0.7), rel=0.1)


def test_groups_are_found_by_name():
    """Thin campaigns of a group are served by what the group's others showed."""
    levels, sizes = [0.9] * 8 + [-0.9] * 8, ([300] * 7 + [3]) * 2
    hours = drawn_hours(levels, sizes, seed=9)
    grouped = Pooled(groups=lambda name: "up" if name < "a0008" else "down")
    alone, together = Pooled().refit(history(hours)), grouped.refit(history(hours))
    thin, score = ["a0007", "a0015"], [0.05, 0.05]
    truth = expit(logit(0.05) + np.array([0.9, -0.9]))

    def error(fitted: Fitted) -> float:
        return float(np.abs(np.log(fitted.atlas(thin, score) / truth)).sum())

    assert error(together) < error(alone)
    assert together.notes["groups"] == 2
    assert "group_level" in together.notes["priors"]
    again = grouped.refit(history(hours), memory=together.memory)
    assert largest_change(together.atlas, again.atlas) < 0.01


def test_a_campaign_begins_with_its_group_at_the_first_refit_after_its_first_impression():
    """Where groups are known to the method alone, the target's map serves until then."""
    hours = drawn_hours([1.0] * 6 + [-1.0] * 6, [400] * 12)
    first = table(["a0005b"], [0], [0.05], [1.0], [0.0])
    grouped = Pooled(groups=lambda name: "up" if name < "a0006" else "down")

    before = grouped.refit(history(hours)).atlas
    hours[NEWEST] = BinsTable.merge([hours[NEWEST], first])
    after = grouped.refit(history(hours)).atlas

    assert before.level("a0005b") == "target"
    group = np.mean([after.at(f"a{number:04d}", 0.05) for number in range(6)])
    assert after.at("a0005b", 0.05) == pytest.approx(group, rel=0.1)
    assert group > 1.5 * before.at("a0005b", 0.05)


def test_a_new_campaign_begins_with_its_groups_map():
    """Before its first impression: by its name alone."""
    hours = drawn_hours([1.0] * 10 + [-1.0] * 8, [400] * 18)
    grouped = Pooled(groups=CampaignGroups(r"^(a00\d)"))

    fitted = grouped.refit(history(hours), trial=True)

    assert fitted.trial is not None
    for atlas in (fitted.atlas, fitted.trial):
        served = [atlas.level(name) for name in ("a0003", "a000b", "a001b", "a002b")]
        assert served == ["campaign", "group", "group", "target"]
        of_group = np.mean([atlas.at(f"a{number:04d}", 0.05) for number in range(10)])
        assert atlas.at("a000b", 0.05) == pytest.approx(of_group, rel=0.1)
        assert atlas.at("a000b", 0.05) > 3 * atlas.at("a001b", 0.05)


def test_a_method_without_group_names_has_no_groups():
    """Every campaign without a group equals no grouping at all."""
    hours = drawn_hours(LEVELS, [30] * 6)
    none = Pooled(groups=lambda _: None).refit(history(hours))

    assert largest_change(Pooled().refit(history(hours)).atlas, none.atlas) < 1e-9


def test_maps_are_within_a_percent_of_a_straight_line_in_log_odds():
    """What linear interpolation in probability costs, where a curve has slope 1.5."""
    scores = expit(np.linspace(-6.0, -0.5, 4000))
    counts = np.full(len(scores), 1e6)
    truth = expit(-0.5 + 1.5 * (logit(scores) + 3.0) - 3.0)
    hours = {NEWEST - 1: table(["a"], np.zeros(len(scores)), scores, counts, counts * truth)}
    atlas = Pooled().refit(history(hours)).atlas
    inside = slice(100, -100)

    assert atlas(["a"] * 4000, scores)[inside] == pytest.approx(truth[inside], rel=0.01)


def test_beyond_the_knots_the_odds_ratio_is_constant():
    """Far above the largest score of the window."""
    hours = drawn_hours([-1.0] * 3, [1000] * 3, centre=-4.0)
    atlas = Pooled().refit(history(hours)).atlas
    scores = expit(np.array([1.0, 2.0, 3.0]))

    shifts = logit(atlas(["a0000"] * 3, scores)) - logit(scores)
    assert np.ptp(shifts) < 0.12
