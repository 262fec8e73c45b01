"""The hourly backtest: the protocol of paper 004, section 5.1, and what it must never see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Beta, BinsTable, Identity, Isotonic, SmoothedIsotonic, Sufficiency, refit
from evaluation import EventTable, Platform, backtest, scorecard
from tests.evaluation.backtest_oracle import backtest_oracle
from tests.evaluation.logs_of_kind import campaigns_at, tables

ANYTHING = Sufficiency(min_samples=1, min_positives=0)
SOME = Sufficiency(min_samples=4, min_positives=2)
SIR = SmoothedIsotonic(bin_size=3)
PATHS = pytest.mark.parametrize("raw_samples", [False, True], ids=["bins", "raw_samples"])


def with_outcomes(table, outcomes):
    return EventTable(table.times, table.campaigns, table.rows, table.scores, outcomes)


def by_row(table, result, name):
    """Probability of each impression, nan where it was not judged."""
    probabilities = np.full(len(table), np.nan)
    probabilities[result.rows] = result.probabilities[name]
    return probabilities


def bins_of(table):
    return BinsTable.from_columns(
        table.campaigns,
        table.rows.astype(np.int64),
        table.scores,
        np.ones(len(table)),
        table.outcomes,
    )


@pytest.mark.slow
@given(tables(), st.integers(1, 6), st.sampled_from([ANYTHING, SOME]))
def test_raw_samples_is_the_literal_protocol(table, window_hours, sufficiency):
    """Fit on [t - window, t), score hour t, campaign by campaign: each probability is that of a
    plain loop, and no other impression is judged."""
    for calibrator in (SIR, Isotonic()):
        expected = backtest_oracle(table, calibrator, window_hours, sufficiency)

        result = backtest(
            table,
            {"one": calibrator},
            window_hours=window_hours,
            sufficiency=sufficiency,
            raw_samples=True,
        )

        assert sorted(expected) == sorted(result.rows.tolist())
        probabilities = [expected[row] for row in result.rows.tolist()]
        assert result.probabilities["one"] == pytest.approx(probabilities, rel=1e-12, abs=1e-15)


@given(tables(), st.integers(1, 6), st.sampled_from([ANYTHING, SOME]))
def test_the_bins_path_is_the_services_refit(table, window_hours, sufficiency):
    """Hourly bins, merged, give each hour exactly the atlas of one refit on the whole window."""
    result = backtest(table, {"sir": SIR}, window_hours=window_hours, sufficiency=sufficiency)
    probabilities, hours = by_row(table, result, "sir"), table.hours

    for t in set(hours[result.rows].tolist()):
        window = table.select((hours >= t - window_hours) & (hours < t))
        atlas = refit(bins_of(window), SIR, sufficiency).atlas
        for row in np.flatnonzero(hours == t):
            expected = atlas.at(table.campaigns[table.rows[row]], table.scores[row])
            assert probabilities[row] == expected


def test_bins_and_raw_samples_agree():
    """Bins forget only where in its cell a score lay: probabilities within 2 % on average; so the
    pooled numbers agree, and GC-N, which few clicks decide, within .03."""
    events = Platform(campaigns=4, impressions_per_hour=20_000, ctr=0.1, seed=2).hours(0, 8).events
    calibrators = {
        "sir": SmoothedIsotonic(bin_size=1000, prior_strength=0.0),
        "isotonic": Isotonic(),
        "beta": Beta(),
    }

    bins, raw = (
        backtest(events, calibrators, window_hours=5, raw_samples=raw_samples)
        for raw_samples in (False, True)
    )

    assert np.array_equal(bins.rows, raw.rows)
    for name in calibrators:
        gap = np.abs(bins.probabilities[name] - raw.probabilities[name])
        assert gap.mean() < 0.02 * raw.probabilities[name].mean()
        for number, expected in raw.scorecards[name].items():
            tolerance = {"abs": 0.03} if number.startswith("gc_") else {"rel": 0.01}
            assert bins.scorecards[name][number] == pytest.approx(expected, **tolerance)


@pytest.mark.slow
@PATHS
@given(table=tables(min_size=20), window_hours=st.integers(1, 4), data=st.data())
def test_an_outcome_changes_no_probability_of_its_hour_or_before(
    raw_samples, table, window_hours, data
):
    """Out of sample: what came of hour h is known from hour h + 1 on, for one window."""
    hours = table.hours
    h = data.draw(st.sampled_from(sorted(set(hours.tolist()))))
    changed = with_outcomes(table, np.where(hours == h, 1 - table.outcomes, table.outcomes))
    options = {"window_hours": window_hours, "sufficiency": ANYTHING, "raw_samples": raw_samples}

    before, after = (
        by_row(log, backtest(log, {"sir": SIR}, **options), "sir") for log in (table, changed)
    )

    apart = (hours <= h) | (hours > h + window_hours)
    assert np.array_equal(before[apart], after[apart], equal_nan=True)


@PATHS
def test_an_outcome_changes_the_next_hours(raw_samples):
    """The converse: the fit does learn from each hour of its window, the last one included."""
    table = campaigns_at(range(6))
    hours = table.hours
    changed = with_outcomes(table, np.where(hours == 3, 1 - table.outcomes, table.outcomes))

    before, after = (
        by_row(log, backtest(log, {"sir": SIR}, window_hours=2, raw_samples=raw_samples), "sir")
        for log in (table, changed)
    )

    assert set(hours[~np.isclose(before, after, equal_nan=True)].tolist()) == {4, 5}


@PATHS
@given(table=tables(), window_hours=st.integers(1, 6))
def test_the_first_window_is_not_judged(raw_samples, table, window_hours):
    """All impressions from first hour + window on are, each once, hour after hour."""
    hours = table.hours

    result = backtest(table, {}, window_hours=window_hours, raw_samples=raw_samples)

    expected = np.flatnonzero(hours >= hours.min() + window_hours)
    assert np.array_equal(np.sort(result.rows), expected)
    assert np.all(np.diff(hours[result.rows]) >= 0)


def test_the_window_is_a_day_unless_given():
    """24 h, as in the paper."""
    table = campaigns_at(range(26), each=2)

    result = backtest(table, {})

    assert set(table.hours[result.rows].tolist()) == {24, 25}


@PATHS
def test_the_services_rule_of_sufficiency_is_the_default(raw_samples):
    """100 samples and 10 positives: one less, and the campaign has no map."""
    options = {"window_hours": 1, "raw_samples": raw_samples}

    def changed(samples, positives):
        times = np.repeat([0.0, 3600.0], [samples, 5])
        outcomes = np.arange(samples + 5) < positives
        table = EventTable.from_columns(
            times, ["a"] * len(times), np.full(len(times), 0.4), outcomes
        )
        result = backtest(table, {"sir": SIR}, **options)
        return not np.array_equal(result.probabilities["sir"], table.scores[result.rows])

    assert changed(100, 10)
    assert not changed(99, 10)
    assert not changed(100, 9)


@PATHS
def test_silent_hours_are_not_judged_and_age_the_window(raw_samples):
    """Hours are those of the clock, not of the log: a window that holds no impression teaches
    nothing, and the map is the identity again."""
    table = campaigns_at([0, 1, 2, 9, 10])

    steps = []
    result = backtest(
        table,
        {"sir": SIR},
        window_hours=2,
        sufficiency=ANYTHING,
        raw_samples=raw_samples,
        progress=lambda done, total: steps.append((done, total)),
    )

    hours, probabilities = table.hours, by_row(table, result, "sir")
    changed = ~np.isclose(probabilities, table.scores)
    assert set(hours[result.rows].tolist()) == {2, 9, 10}
    assert {hour: bool(changed[hours == hour].any()) for hour in (2, 9, 10)} == {
        2: True,
        9: False,
        10: True,
    }
    assert steps == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.slow
@given(tables())
def test_the_order_of_campaigns_is_of_no_effect(table):
    """Nor does a name in the list that no impression bears."""
    names = ("unseen", *table.campaigns[::-1])
    renumbered = EventTable(
        table.times, names, len(table.campaigns) - table.rows, table.scores, table.outcomes
    )

    for raw_samples in (False, True):
        a, b = (
            backtest(log, {"sir": SIR}, window_hours=3, sufficiency=SOME, raw_samples=raw_samples)
            for log in (table, renumbered)
        )
        assert np.array_equal(a.probabilities["sir"], b.probabilities["sir"])


def test_judged_hours_are_pooled_before_they_are_scored():
    """A scorecard is that of all judged impressions, by campaign; raw is always among them."""
    table = campaigns_at(range(6))

    result = backtest(table, {"sir": SIR, "identity": Identity()}, window_hours=2)

    outcomes, campaigns = table.outcomes[result.rows], table.rows[result.rows]
    assert list(result.scorecards) == list(result.probabilities) == ["raw", "sir", "identity"]
    assert np.array_equal(result.probabilities["raw"], table.scores[result.rows])
    assert np.array_equal(result.probabilities["identity"], result.probabilities["raw"])
    for name, probabilities in result.probabilities.items():
        assert result.scorecards[name] == scorecard(probabilities, outcomes, campaigns)


def test_calibrators_are_judged_independently():
    """One more in the table changes no other."""
    table = campaigns_at(range(5))

    alone = backtest(table, {"sir": SIR}, window_hours=2)
    together = backtest(table, {"isotonic": Isotonic(), "sir": SIR}, window_hours=2)

    assert np.array_equal(alone.probabilities["sir"], together.probabilities["sir"])


@pytest.mark.slow
def test_calibration_helps_on_the_platform():
    """Sliding SIR takes away more than half of GC-N, and some of the log loss: the rule of the
    study, wherever the tests run."""
    hours = Platform(campaigns=6, impressions_per_hour=20_000, ctr=0.05, seed=4).hours(48, 96)

    result = backtest(hours.events, {"sir": SmoothedIsotonic()}, window_hours=24)

    raw, sir = result.scorecards["raw"], result.scorecards["sir"]
    assert all(sir[f"gc_{n}"] < 0.5 * raw[f"gc_{n}"] for n in (3, 4, 5))
    assert sir["log_loss"] < raw["log_loss"]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (campaigns_at([0, 1]), {"window_hours": 0}, "window_hours = 0: must be at least 1"),
        (campaigns_at([0, 1]), {"window_hours": 2}, "the log spans 2 h, none is left to evaluate"),
        (campaigns_at([5, 9]), {"window_hours": 5}, "window_hours = 5: the log spans 5 h"),
        (campaigns_at([3]), {}, "window_hours = 24: the log spans 1 h"),
        (EventTable.concatenate([]), {"window_hours": 1}, "the log spans 0 h"),
    ],
)
def test_a_log_must_outlast_its_window(table, options, message):
    """ValueError that says how long the log is."""
    with pytest.raises(ValueError, match=message):
        backtest(table, {"sir": SIR}, **options)


def test_the_name_raw_is_taken():
    """A calibrator of that name would hide what it is compared with."""
    with pytest.raises(ValueError, match='the name "raw" stands for the scores themselves'):
        backtest(campaigns_at([0, 1]), {"raw": SIR}, window_hours=1)
