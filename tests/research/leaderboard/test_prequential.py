"""The prequential run: it adds up what loops over rows add up, and nobody sees the future."""

from dataclasses import replace

import numpy as np
import pytest

from calibrators import PerCampaign, make_calibrator
from evaluation import EventTable, Platform, backtest, gc_n
from evaluation.backtest.event_table import SECONDS_PER_HOUR
from research.leaderboard import (
    METHODS,
    DriftingPlatform,
    MethodUnavailable,
    ServiceMethod,
    prequential,
)
from research.leaderboard.accumulator import BINS
from tests.research.leaderboard.tiny import TINY, Fixed, Poisoned, log_of

FIRST, HOURS = 20, 10
HERE = [name for name in METHODS if name != "mcgrad"]


def scored_rows():
    """(hour, campaign, score, outcome, truth) of every scored impression, one by one."""
    for hour in range(FIRST, FIRST + HOURS):
        drawn = TINY.hour(hour)
        events = drawn.events
        for place in range(len(events)):
            yield (
                hour,
                int(events.rows[place]),
                events.scores[place],
                events.outcomes[place],
                drawn.truth[place],
            )


@pytest.fixture(scope="module")
def found():
    return prequential(TINY, [Fixed()], first_scored=FIRST, scored_hours=HOURS, seed=7)


def test_losses_and_excess_are_those_of_a_loop_over_the_rows(found):
    first_day = int(TINY.start // SECONDS_PER_HOUR + FIRST) // 24
    losses, excess, by_hour = {}, {}, np.zeros(HOURS)
    for hour, campaign, score, outcome, truth in scored_rows():
        p = float(Fixed().serve(np.array([campaign]), np.array([score]))[0])
        day = (int(TINY.start // SECONDS_PER_HOUR) + hour) // 24 - first_day
        block = campaign * 2 + day
        loss = -np.log(p) if outcome else -np.log(1.0 - p)
        above = truth * np.log(truth / p) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - p))
        losses[block] = losses.get(block, 0.0) + loss
        excess[block] = excess.get(block, 0.0) + above
        by_hour[hour - FIRST] += above

    (only,) = found.by_seed
    assert np.allclose(only.sums["fixed"].losses, [losses[block] for block in sorted(losses)])
    assert np.allclose(only.sums["fixed"].excess, [excess[block] for block in sorted(excess)])
    assert np.allclose(only.sums["fixed"].hour_excess, by_hour)
    rows = sum(1 for _ in scored_rows())
    assert found.excess("fixed") == pytest.approx(sum(excess.values()) / rows)
    assert found.log_loss("fixed") == pytest.approx(sum(losses.values()) / rows)


def test_gc_3_is_that_of_the_rows(found):
    """Both against outcomes and against the truth, over the campaigns with enough positives."""
    _, campaigns, scores, outcomes, truth = map(np.array, zip(*scored_rows(), strict=True))
    p = Fixed().serve(campaigns, scores)
    for labels, value in ((outcomes, found.gc_3("fixed")), (truth, found.gc_3_true("fixed"))):
        kept = np.isin(campaigns, np.flatnonzero(np.bincount(campaigns, labels) >= 5 * BINS))
        assert kept.any()
        plain = gc_n(p[kept], labels[kept], campaigns[kept], BINS, min_positives=0)
        assert value == pytest.approx(plain, rel=1e-9)


def test_scores_that_are_the_truth_have_no_error():
    platform = DriftingPlatform(3, 300, 0.1, seed=1)
    methods = [METHODS["identity"](), Fixed()]
    found = prequential(platform, methods, first_scored=2, scored_hours=6)
    assert found.excess("identity") == pytest.approx(0.0, abs=1e-15)
    assert found.gc_3_true("identity") == pytest.approx(0.0, abs=1e-9)
    assert found.log_loss("identity") < found.log_loss("fixed")


@pytest.mark.parametrize("name", ["isotonic", "platt", "beta", "bbq", "sir"])
def test_a_log_has_the_metrics_that_the_backtest_has(name):
    """The same rows, probabilities and definitions, also where a method predicts 0."""
    log = Platform(campaigns=4, impressions_per_hour=800, ctr=0.05, seed=2).hours(0, 16).events
    window, bins = 8, 200
    method = ServiceMethod(name, PerCampaign(make_calibrator(name, bins), hours=window))
    raw = METHODS["identity"]()
    of_board = prequential(log, [method, raw], first_scored=window, scored_hours=16 - window)
    of_backtest = backtest(log, {name: make_calibrator(name, bins)}, window_hours=window)
    for theirs, ours in ((name, name), ("raw", "identity")):
        card = of_backtest.scorecards[theirs]
        assert of_board.log_loss(ours) == pytest.approx(card["log_loss"], rel=1e-12)
        assert of_board.gc_3(ours) == pytest.approx(card["gc_3"], rel=1e-9)
        assert of_board.pcoc(ours) == pytest.approx(card["pcoc"], rel=1e-12)
        assert (of_board.impressions, of_board.positives) == (card["n"], card["positives"])


def test_a_method_sees_the_hours_before_the_moment_and_no_other():
    """Every impression of them, none of the hour that it is scored on."""
    watched = Fixed()
    prequential(TINY, [watched], first_scored=3, scored_hours=2)
    start = int(TINY.start // SECONDS_PER_HOUR)

    assert [as_of - start for as_of, _ in watched.seen] == [3.0, 4.0]
    for as_of, tables in watched.seen:
        past = range(int(as_of) - start)
        assert sorted(tables) == [start + hour for hour in past]
        for hour in past:
            events = TINY.hour(hour).events
            assert tables[start + hour] == (len(events), events.outcomes.sum())


def test_refits_within_the_hour_see_the_hour_so_far():
    watched = Fixed()
    prequential(TINY, [watched], first_scored=2, scored_hours=1, minutes=20)
    start = int(TINY.start // SECONDS_PER_HOUR)
    events = TINY.hour(2).events
    minute = (events.times / SECONDS_PER_HOUR - start - 2) * 60.0

    assert [as_of - start for as_of, _ in watched.seen] == pytest.approx([2, 2 + 1 / 3, 2 + 2 / 3])
    seen = [tables.get(start + 2, (0.0, 0.0))[0] for _, tables in watched.seen]
    assert seen == [0.0, (minute < 20).sum(), (minute < 40).sum()]


@pytest.mark.parametrize(("every", "minutes", "refits"), [(1, 60, 6), (3, 60, 2), (2, 30, 6)])
def test_refits_come_as_often_as_asked(every, minutes, refits):
    watched = Fixed()
    options = {"refit_every": every, "minutes": minutes}
    prequential(TINY, [watched], first_scored=1, scored_hours=6, **options)

    assert len(watched.seen) == refits


@pytest.mark.parametrize("name", HERE)
def test_no_method_sees_the_future(name):
    """Whatever happens in an hour, what was served in it and before stays the same."""
    mad_from = FIRST + 2
    plain, poisoned = (
        served_by_hour(name, platform) for platform in (TINY, Poisoned(TINY, mad_from))
    )

    for hour in range(FIRST, mad_from + 1):
        assert plain[hour].tolist() == poisoned[hour].tolist()
    after = mad_from + 1
    assert plain[after].tolist() != poisoned[after].tolist() or name == "identity"


def served_by_hour(name: str, platform) -> dict[int, np.ndarray]:
    """What a method served in each scored hour, by hour."""
    method, served = METHODS[name](), {}

    class Noted:
        name, note = method.name, method.note

        def refit(self, history, campaigns, /):
            serve = method.refit(history, campaigns)
            hour = round(history.as_of - platform.start / SECONDS_PER_HOUR)

            def note(rows, scores):
                served[hour] = serve(rows, scores)
                return served[hour]

            return note

    prequential(platform, [Noted()], first_scored=FIRST, scored_hours=4)
    return served


def test_the_same_play_gives_the_same_numbers():
    def once() -> list[object]:
        made = [METHODS[name]() for name in HERE]
        found = prequential(TINY, made, first_scored=6, scored_hours=2, seed=1)
        metrics = (found.log_loss, found.excess, found.gc_3, found.gc_3_true, found.curve)
        return [metric(name) for name in HERE for metric in metrics]

    assert once() == once()


def test_a_log_is_played_without_a_truth():
    """Losses are those of the platform it was drawn from; what needs the truth is undefined."""
    table, _ = log_of(TINY, FIRST + HOURS)
    options = {"first_scored": FIRST, "scored_hours": HOURS}
    of_log = prequential(table, [Fixed()], **options)
    of_platform = prequential(TINY, [Fixed()], **options)

    assert not of_log.knows_truth
    assert of_log.log_loss("fixed") == pytest.approx(of_platform.log_loss("fixed"))
    assert np.isnan(of_log.excess("fixed"))
    assert np.isnan(of_log.gc_3_true("fixed"))


def test_rows_that_stand_for_several_count_so_often():
    table, _ = log_of(TINY, 4)
    weights = np.arange(len(table)) % 3 + 1.0
    weighted = EventTable(
        table.times, table.campaigns, table.rows, table.scores, table.outcomes, weights=weights
    )
    repeated = table.select(np.repeat(np.arange(len(table)), weights.astype(int)))
    options = {"first_scored": 2, "scored_hours": 2}
    few, many = (prequential(each, [Fixed()], **options) for each in (weighted, repeated))

    assert few.impressions == many.impressions
    assert few.log_loss("fixed") == pytest.approx(many.log_loss("fixed"))
    assert few.gc_3("fixed") == pytest.approx(many.gc_3("fixed"), rel=1e-9)


def test_hours_of_a_log_without_impressions_are_passed_over():
    """The method is refitted all the same, and the curve leaves the hour out."""
    table, _ = log_of(TINY, 6)
    gap = table.select(table.hours != table.hours[0] + 4)
    found = prequential(gap, [Fixed()], first_scored=3, scored_hours=3)

    assert [hour for hour, _ in found.curve("fixed")] == [0, 2]


def test_zeros_and_ones_cost_much_and_not_infinity():
    always = Fixed("always", factor=1e9)
    never = Fixed("never", factor=0.0)
    found = prequential(TINY, [always, never], first_scored=1, scored_hours=1)

    assert 5.0 < found.log_loss("always") < 28.0
    assert 0.5 < found.log_loss("never") < 28.0


class Absent:
    """Comes, and may leave when it is to serve."""

    name, note = "absent", ""

    def __init__(self, refits: int, serves: int) -> None:
        self.refits, self.serves = refits, serves

    def refit(self, history, campaigns, /):
        self.refits -= 1
        if self.refits < 0:
            raise MethodUnavailable("not today")
        return self.serve

    def serve(self, rows, scores):
        self.serves -= 1
        if self.serves < 0:
            raise MethodUnavailable("no more")
        return scores


@pytest.mark.parametrize(
    ("refits", "serves", "reason"), [(0, 9, "not today"), (2, 9, "not today"), (9, 1, "no more")]
)
def test_who_leaves_is_told_with_the_reason_and_the_others_go_on(refits, serves, reason):
    found = prequential(TINY, [Absent(refits, serves), Fixed()], first_scored=2, scored_hours=4)

    assert found.unavailable == {"absent": reason}
    assert found.methods == ("fixed",)
    assert "absent" not in found.by_seed[0].sums
    assert len(found.curve("fixed")) == 4


def test_blocks_are_hours_where_there_are_few_days():
    """One campaign's day is one block, of which no interval can be made."""
    platform = replace(TINY, campaigns=1)
    found = prequential(platform, [Fixed()], first_scored=1, scored_hours=5)

    assert found.unit == "campaign-hours"
    assert len(found.by_seed[0].counts) == 5
    assert prequential(TINY, [Fixed()], first_scored=20, scored_hours=8).unit == "campaign-days"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"first_scored": 0}, "first_scored = 0: must be at least 1"),
        ({"scored_hours": 0}, "scored_hours = 0: must be at least 1"),
        ({"refit_every": 0}, "refit_every = 0: must be at least 1"),
        ({"minutes": 7}, "minutes = 7: must be a divisor of 60"),
    ],
)
def test_what_cannot_be_played_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        prequential(TINY, [Fixed()], **{"first_scored": 1, "scored_hours": 1, **changes})


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b", "a")])
def test_names_are_taken_once(names):
    with pytest.raises(ValueError, match=r"methods: the name .* is taken"):
        prequential(TINY, [Fixed(name) for name in names], first_scored=1, scored_hours=1)


def test_an_empty_log_and_one_without_scored_hours_are_refused():
    table, _ = log_of(TINY, 2)
    with pytest.raises(ValueError, match="there are no impressions"):
        prequential(table.select(np.empty(0, np.int64)), [Fixed()], first_scored=1, scored_hours=1)
    with pytest.raises(ValueError, match="nothing to evaluate"):
        prequential(table, [Fixed()], first_scored=5, scored_hours=1)


def test_progress_is_told_after_every_hour():
    told: list[tuple[int, int]] = []
    options = {"first_scored": 1, "scored_hours": 2}
    prequential(TINY, [Fixed()], progress=lambda *done: told.append(done), **options)

    assert told == [(1, 3), (2, 3), (3, 3)]
