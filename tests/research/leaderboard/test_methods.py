"""Contenders: each is what it says, above all SIR to the letter of its paper."""

import numpy as np
import pytest

from calibrators import BinsTable
from calibrators.bins.table import History
from research.leaderboard import METHODS, PER_CAMPAIGN, prequential
from research.leaderboard.methods import PublishedSir, RefitInterval, whole_bins
from tests.research.leaderboard.tiny import TINY, Fixed

NAMES = {
    "identity",
    *("isotonic", "platt", "temperature", "beta", "bbq", "sir", "sir_published"),
    *("lightgbm", "mcgrad", "pooled"),
}


def history_of(scores, outcomes, campaigns=None):
    """One campaign's samples, or several campaigns', as the hour before hour 100."""
    names = campaigns or ["a"] * len(scores)
    distinct = sorted(set(names))
    rows = np.array([distinct.index(name) for name in names])
    ones = np.ones(len(scores))
    table = BinsTable.from_columns(distinct, rows, np.array(scores), ones, np.array(outcomes))
    return History(100.0, [{99: table}]), tuple(distinct)


def literal_sir(scores, outcomes, n):
    """Anchors ((l + u) / 2, v) of Algorithm 1, line by line: bins of n samples with their range,
    mean and count, the rest dropped; pooled; between (0, 0) and (1, 1)."""
    order = np.argsort(scores)
    x, y = np.asarray(scores)[order], np.asarray(outcomes)[order]
    stack = []
    for first in range(0, len(x) // n * n, n):
        lowest, highest = x[first], x[first + n - 1]
        mean, count = y[first : first + n].mean(), n
        while stack and mean <= stack[-1][2]:
            lower = stack.pop()
            mean = (mean * count + lower[2] * lower[3]) / (count + lower[3])
            lowest, count = lower[0], count + lower[3]
        stack.append((lowest, highest, mean, count))
    anchors = [((lowest + highest) / 2.0, mean) for lowest, highest, mean, _ in stack]
    return np.array([(0.0, 0.0), *anchors, (1.0, 1.0)])


def test_every_method_of_the_plan_is_there():
    assert set(METHODS) == NAMES
    assert set(PER_CAMPAIGN) < set(METHODS)
    for name, make in METHODS.items():
        assert make().name == name
        assert make() is not make()


@pytest.mark.parametrize("seed", range(6))
def test_published_sir_is_algorithm_1_to_the_letter(seed):
    """Scores lie in cells of their own; where in its cell an anchor lies is not known, .8 %."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(3, 9)), int(rng.integers(30, 60))
    scores = 0.01 * 1.02 ** rng.permutation(150)[:count]
    outcomes = (rng.random(count) < scores * rng.uniform(0.5, 2.0)).astype(float)
    history, _ = history_of(scores, outcomes)

    found = PublishedSir(n).refit(history).atlas.map_of("a")

    anchors = literal_sir(scores, outcomes, n)
    assert found.knots == pytest.approx(anchors[:, 0], rel=0.008)
    assert found.values == pytest.approx(anchors[:, 1])


def test_published_sir_serves_the_score_where_there_is_no_bin():
    """No parent's map: neither the target's nor any other campaign's."""
    scores = [0.1] * 12 + [0.2] * 5
    outcomes = [1.0, 0.0] * 6 + [1.0] * 5
    history, names = history_of(scores, outcomes, ["a"] * 12 + ["b"] * 5)

    atlas = PublishedSir(10).refit(history).atlas

    assert atlas(["b", "c"], [0.2, 0.3]).tolist() == [0.2, 0.3]
    assert atlas(["a"], [0.1])[0] == pytest.approx(0.5)
    assert names == ("a", "b")


def test_the_trial_of_published_sir_does_not_know_the_newest_hour():
    history, _ = history_of([0.1] * 10, [1.0] * 10)

    fitted = PublishedSir(10).refit(history, trial=True)

    assert fitted.trial is not None
    assert (len(fitted.atlas), len(fitted.trial)) == (1, 0)


def test_whole_bins_hold_a_multiple_of_their_size():
    """A cell that the cut falls into is split in proportion; nothing below it is lost."""
    table = BinsTable.from_columns(
        ["a", "b"],
        np.array([0, 0, 0, 1]),
        np.array([0.1, 0.2, 0.3, 0.1]),
        np.array([8.0, 4.0, 3.0, 9.0]),
        np.array([4.0, 2.0, 3.0, 9.0]),
    )

    kept = whole_bins(table, 10)

    assert kept.campaigns == ("a",)
    assert kept.totals()[0].tolist() == [10.0]
    assert kept.totals()[1].tolist() == [5.0]
    assert whole_bins(BinsTable.empty(), 10).campaigns == ()


def test_lightgbm_learns_each_campaign():
    """It comes nearer to the truth than the scores, and than one map for all."""
    made = [METHODS[name]() for name in ("identity", "lightgbm")]
    found = prequential(TINY, made, first_scored=24, scored_hours=4)

    assert found.excess("lightgbm") < 0.5 * found.excess("identity")


def test_lightgbm_serves_scores_until_there_is_a_positive():
    history, names = history_of([0.1, 0.2], [0.0, 0.0])
    serve = METHODS["lightgbm"]().refit(history, names)

    assert serve(np.array([0, 0]), np.array([0.1, 0.9])).tolist() == [0.1, 0.9]
    assert serve(np.empty(0, np.int64), np.empty(0)).tolist() == []


def test_who_is_refitted_seldom_serves_what_it_learnt_last():
    slow = Fixed("slow")
    found = prequential(TINY, [RefitInterval(slow, 3)], first_scored=2, scored_hours=7)

    start = TINY.start / 3600.0
    assert [as_of - start for as_of, _ in slow.seen] == [2.0, 5.0, 8.0]
    assert found.notes["slow"].startswith("refitted every 3 h only")
    assert RefitInterval(Fixed("silent", note=""), 3).note.endswith("so long")
