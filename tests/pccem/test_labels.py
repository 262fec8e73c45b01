"""Labels: the two modes and the correction put together, and how near the final totals they are."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from pccem import (
    Attribution,
    DelayDistribution,
    LabelRules,
    attribute,
    conversions_due,
    corrected,
    drift_ratios,
    expected_conversions,
    label,
)
from pccem.arrays import Floats

HOUR, WINDOW = 3600.0, 7 * 86_400.0
CAMPAIGNS = ("a", "b", "c", "quiet")


@dataclasses.dataclass
class Stream:
    """Clicks of three weeks of three campaigns, scored too low by their ratios."""

    scores: Floats
    rows: Any
    clicked: Floats
    delay: Floats

    @classmethod
    def draw(cls, seed: int, n: int) -> "Stream":
        random = np.random.default_rng(seed)
        rows, scores = random.integers(0, 3, n), random.beta(2, 40, n)
        delay = random.lognormal(np.log(12 * HOUR), 1.8, n)
        converts = random.random(n) < scores * np.array([0.7, 1.0, 1.6])[rows]
        delay = np.where(converts & (delay < WINDOW), delay, np.nan)
        return cls(scores, rows, np.sort(random.uniform(0, 3 * WINDOW, n)), delay)

    def known(self, chosen: Any, as_of: float) -> Attribution:
        ids = np.flatnonzero(chosen)
        converted = ids[~np.isnan(self.delay[ids])]
        return attribute(
            ids,
            self.clicked[ids],
            converted,
            (self.clicked + self.delay)[converted],
            window=WINDOW,
            as_of=as_of,
        )


AS_OF = 3 * WINDOW
RULES = [LabelRules(mode, drift) for mode in ("posterior", "paper") for drift in (True, False)]  # type: ignore[arg-type]


def delays_of(stream: Stream) -> DelayDistribution:
    known = stream.known(np.ones(len(stream.rows), bool), AS_OF)
    delays = DelayDistribution.fit(known.delay, known.age, stream.rows, CAMPAIGNS, window=WINDOW)
    assert delays is not None
    return delays


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_is_correction_then_expectation(rules):
    stream = Stream.draw(1, 30_000)
    delays, recent = delays_of(stream), stream.clicked > AS_OF - 25 * HOUR
    known, p, rows = stream.known(recent, AS_OF), stream.scores[recent], stream.rows[recent]

    found = label(p, known, delays, rows, CAMPAIGNS, rules)

    share = delays.share(known.age, rows, CAMPAIGNS)
    if rules.drift_correction:
        p = corrected(p, drift_ratios(p, known.converted, share, rows, 4), rows)
    expected = expected_conversions(p, known.converted, share, mode=rules.mode)
    np.testing.assert_array_equal(found, expected)


def test_totals_come_near_the_final_ones():
    """Over four draws, of clicks between 1 h and 25 h old: corrected labels miss a campaign's
    final conversions by less than uncorrected ones, posterior ones by less than the paper's."""
    misses = []
    for seed in range(4):
        stream = Stream.draw(seed, 400_000)
        delays = delays_of(stream)
        recent = (stream.clicked > AS_OF - 25 * HOUR) & (stream.clicked <= AS_OF - HOUR)
        known, rows = stream.known(recent, AS_OF), stream.rows[recent]
        final = np.bincount(rows, ~np.isnan(stream.delay[recent]))
        sums = [
            np.bincount(rows, label(stream.scores[recent], known, delays, rows, CAMPAIGNS, rules))
            for rules in RULES
        ]
        misses.append([np.abs(np.log(total / final)) for total in sums])

    posterior_drift, posterior, paper_drift, paper = np.mean(misses, axis=(0, 2))

    assert posterior_drift < 0.5 * posterior < 0.5 * paper
    assert posterior_drift < paper_drift < 0.6 * paper
    assert posterior_drift < 0.1


@pytest.mark.parametrize("resumed", [0.0, 2.0])
def test_a_feed_that_stands_still_is_no_fall_of_the_rate(resumed):
    """For ten hours no conversion has come, or none but in the last two. That says nothing of the
    clicks since, and of those before it no more than was known then."""
    stream = Stream.draw(6, 400_000)
    delays, stopped = delays_of(stream), AS_OF - 10 * HOUR
    recent = (stream.clicked > AS_OF - 25 * HOUR) & (stream.clicked <= AS_OF - HOUR)
    final = np.count_nonzero(~np.isnan(stream.delay[recent]))
    at = stream.clicked + stream.delay
    came = np.where((at < stopped) | (at > AS_OF - resumed * HOUR), stream.delay, np.nan)
    known = dataclasses.replace(stream, delay=came).known(recent, AS_OF)
    p, rows, clicked = (each[recent] for each in (stream.scores, stream.rows, stream.clicked))

    for window in (0.0, HOUR):
        rules = LabelRules(post_click=window)
        p = expected_conversions(p, p < 0, delays.share(np.full(len(p), window), rows, CAMPAIGNS))
        labels = label(p, known, delays, rows, CAMPAIGNS, rules, clicked)

        assert labels.sum() / final == pytest.approx(1, abs=0.1)


def test_mature_clicks_have_their_outcome():
    stream = Stream.draw(2, 20_000)
    delays, old = delays_of(stream), stream.clicked < AS_OF - WINDOW
    known = stream.known(old, AS_OF)

    found = label(stream.scores[old], known, delays, stream.rows[old], CAMPAIGNS, LabelRules())

    np.testing.assert_array_equal(found, known.converted)


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_what_the_post_click_window_decided_counts_once(rules):
    """Its conversions are 1 in any mode and weigh nothing in the correction of the others, whose
    share of conversions seen begins when the window ends: a plain loop says the same."""
    stream = Stream.draw(4, 30_000)
    delays, recent = delays_of(stream), stream.clicked > AS_OF - 30 * HOUR
    known, p, rows = stream.known(recent, AS_OF), stream.scores[recent], stream.rows[recent]
    # About six hours: the very moment at which one of them came, which is no more within it.
    post_click = float(known.delay[known.delay >= 6 * HOUR].min())

    found = label(
        p, known, delays, rows, CAMPAIGNS, dataclasses.replace(rules, post_click=post_click)
    )

    open_ = ~(known.delay < post_click)
    ages, others = known.age[open_], rows[open_]
    by_age = delays.share(ages, others, CAMPAIGNS)
    by_close = delays.share(np.full(len(ages), post_click), others, CAMPAIGNS)
    share = np.array([max(0.0, (a - b) / (1 - b)) for a, b in zip(by_age, by_close, strict=True)])
    expected, seen = p[open_], known.converted[open_]
    if rules.drift_correction:
        ratios = drift_ratios(expected, seen, share, others, 4)
        expected = corrected(expected, ratios, others)
    expected = expected_conversions(expected, seen, share, mode=rules.mode)
    assert 0 < np.count_nonzero(~open_) < len(open_)
    assert (found[~open_] == 1.0).all()
    np.testing.assert_allclose(found[open_], expected, rtol=1e-9)


def test_totals_of_a_model_that_knows_the_window():
    """A model that sees the window's conversions, and is right about the later ones: the labels add
    up to what comes in the end. Without the window they do not, corrected or not, because its
    conversions count twice."""
    random = np.random.default_rng(5)
    n, post_click = 600_000, 6 * HOUR
    p, age = random.beta(1, 9, n), random.uniform(post_click, 25 * HOUR, n)
    delay = random.lognormal(np.log(12 * HOUR), 1.8, n)
    converts = (random.random(n) < p) & (delay < WINDOW)
    stream = Stream(p, np.zeros(n, int), -age, np.where(converts, delay, np.nan))
    history = Stream(p, np.zeros(n, int), -age - WINDOW, stream.delay)
    past = history.known(np.ones(n, bool), 0.0)
    delays = DelayDistribution.fit(past.delay, past.age, history.rows, ("a",), window=WINDOW)
    assert delays is not None
    known = stream.known(np.ones(n, bool), 0.0)
    within, ever = (np.mean(delay < end) for end in (post_click, WINDOW))
    later = p * (ever - within) / (1 - p * within)
    knowing = np.where(stream.delay < post_click, 1.0, later)

    totals = [
        label(knowing, known, delays, stream.rows, ("a",), LabelRules("posterior", drift, window))
        for drift in (False, True)
        for window in (post_click, 0.0)
    ]

    right, wrong, right_drift, wrong_drift = (t.sum() / converts.sum() for t in totals)
    assert right == pytest.approx(1, abs=0.01)
    assert right_drift == pytest.approx(1, abs=0.01)
    assert max(wrong, wrong_drift) < 0.92


def test_conversions_due_are_those_to_be_seen_by_now():
    """Two clicks an hour old, one of which has converted at once; half come within the hour, and
    half of the others within two."""
    delays = DelayDistribution.from_dict(
        DelayDistribution.fit(
            np.repeat([1800.0, 5400.0, 9000.0], [200, 100, 100]),
            np.full(400, 9.0e4),
            np.zeros(400, int),
            ("a",),
            window=86_400.0,
        ).to_dict()  # type: ignore[union-attr]
    )
    known = attribute([1, 2], [0.0, 0.0], [1], [10.0], window=86_400.0, as_of=7200.0)
    p = np.array([0.3, 0.4])
    share = delays.share(np.array([7200.0, 3600.0]), np.zeros(2, int), ("a",))

    plain = conversions_due(p, known, delays, [0, 0], ["a"], LabelRules())
    knowing = conversions_due(p, known, delays, [0, 0], ["a"], LabelRules(post_click=3600.0))

    assert plain == pytest.approx(0.7 * share[0])
    assert knowing == pytest.approx(1 + 0.4 * (share[0] - share[1]) / (1 - share[1]))


def test_when_all_conversions_come_within_the_window_none_is_left():
    delays = DelayDistribution.fit(
        np.full(200, 60.0), np.full(200, 9.0e4), np.zeros(200, int), ("a",), window=86_400.0
    )
    known = attribute([1], [0.0], [], [], window=86_400.0, as_of=40_000.0)

    found = label([0.9], known, delays, [0], ["a"], LabelRules(post_click=36_000.0))

    assert found.tolist() == [0.0]


def test_without_delays_the_window_is_decided_all_the_same():
    known = attribute([1, 2], [0.0, 0.0], [1], [5.0], window=90.0, as_of=50.0)

    found = label([0.3, 0.3], known, None, [0, 0], ["a"], LabelRules("paper", False, 10.0))

    assert found.tolist() == [1.0, 0.3]


def test_without_delays_only_the_paper_mode_answers():
    """And it goes without a correction."""
    known = attribute([1], [0.0], [], [], window=9.0, as_of=1.0)

    for drift in (True, False):
        rules = LabelRules("paper", drift)
        assert label([0.3], known, None, [0], ["a"], rules).tolist() == [0.3]
    with pytest.raises(ValueError, match="seen_share = None: mode 'posterior' needs it"):
        label([0.3], known, None, [0], ["a"], LabelRules())


def test_what_is_refused():
    stream = Stream.draw(3, 20_000)
    delays = delays_of(stream)
    other = attribute([1], [0.0], [], [], window=9.0, as_of=1.0)
    with pytest.raises(ValueError, match=r"delays.window = 604800.0: must equal .* = 9.0"):
        label([0.3], other, delays, [0], ["a"], LabelRules())
    with pytest.raises(ValueError, match="p has 2, attribution has 1"):
        label([0.3, 0.3], other, delays, [0, 0], ["a"], LabelRules())
    with pytest.raises(ValueError, match=r"mode = 'oracle': must be one of \('posterior', 'paper'"):
        LabelRules("oracle")  # type: ignore[arg-type]
    for seconds in (-1.0, np.nan):
        with pytest.raises(ValueError, match=f"post_click = {seconds}: must be at least 0"):
            LabelRules(post_click=seconds)


def test_where_all_conversions_are_reported_on_one_day_of_the_week_the_model_is_believed():
    """On Sunday at 02:00 comes what the week's clicks have sold: of today's it says little."""
    random, n, as_of = np.random.default_rng(3), 60_000, 4 * WINDOW
    rows, clicked = random.integers(0, 4, n), np.sort(random.uniform(0, as_of, n))
    sunday = 3 * 24 * HOUR + 2 * HOUR
    delay = np.ceil((clicked - sunday) / WINDOW) * WINDOW + sunday - clicked
    delay = np.where(random.random(n) < 0.3, delay, np.nan)
    stream, names = Stream(np.full(n, 0.3), rows, clicked, delay), [f"c{k}" for k in range(4)]
    past = stream.known(np.ones(n, bool), as_of)
    delays = DelayDistribution.fit(past.delay, past.age, rows, names, window=WINDOW, as_of=as_of)

    for days in range(7):
        then = as_of - days * 24 * HOUR
        new = (clicked >= then - 24 * HOUR) & (clicked < then - HOUR)
        about = rows[new], names, LabelRules(post_click=HOUR), clicked[new]
        labels = label(stream.scores[new], stream.known(new, then), delays, *about)
        assert labels.sum() == pytest.approx(np.count_nonzero(delay[new] > 0), rel=0.1)
