"""Two models on the same rows: reading them in pieces, and comparing them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import (
    EventTable,
    calibrated_losses,
    cs_auc,
    log_loss,
    mse,
    paired_bootstrap,
    pcoc,
    rig,
    scorecard,
)
from evaluation.bootstrap.blocks import observed
from evaluation.comparison.models import (
    LOWER_IS_BETTER,
    A,
    B,
    PairedRows,
    compare_models,
    compared_models,
)


def expit(odds):
    return 1 / (1 + np.exp(-odds))


def a_log(n=6_000, seed=0, shift=0.0, noise=0.0, bids=True):
    """Scores of A that are right, and of B: off by a shift and by noise of their log-odds."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-1.5, 1.0, n)
    events = EventTable.from_columns(
        rng.uniform(0, 4 * 86_400, n),
        rng.choice(["x", "y", "z"], n),
        expit(odds),
        rng.random(n) < expit(odds),
        rng.lognormal(0, 1, n).round(1) if bids else None,
    )
    return events, expit(odds + shift + rng.normal(0, noise, n) if noise else odds + shift)


def read(events, scores_b, parts=1, **options):
    rows = PairedRows(**options)
    for piece in np.array_split(np.arange(len(events)), parts):
        rows.add(events.select(piece), scores_b[piece])
    return rows.log()


def compared(events, scores_b, *, draws=200, bias_share=0.1, seed=0):
    models = compared_models(read(events, scores_b), bias_share=bias_share, seed=seed)
    return compare_models(models, draws=draws)


@given(st.integers(1, 7), st.integers(1, 40), st.integers(0, 9))
def test_pieces_of_a_log_are_the_log(parts, n, seed):
    """However it is cut up: sums, rows, blocks."""
    events, b = a_log(n, seed, noise=0.5)

    whole, pieces = read(events, b), read(events, b, parts)

    assert pieces.rows == len(pieces.events) == n
    assert np.array_equal(whole.events.scores, pieces.events.scores)
    assert np.array_equal(whole.scores_b, pieces.scores_b)
    assert np.array_equal(whole.blocks.codes, pieces.blocks.codes)
    for ours, theirs in zip(whole.sums_b.columns, pieces.sums_b.columns, strict=True):
        assert ours == pytest.approx(theirs)


def test_a_long_log_is_sampled_and_its_sums_are_not():
    """Between half of the budget and all of it is held; sums are of every row."""
    events, b = a_log(5_000, noise=0.5)

    log = read(events, b, 7, most_rows=1_000)

    assert log.sampled
    assert 400 < len(log.events) <= 1_000
    assert log.sums_a.weights.sum() == 5_000
    assert observed(log.sums_b.metric("log_loss"), log.blocks.count) == pytest.approx(
        log_loss(b, events.outcomes)
    )


def test_a_sample_does_not_hang_on_batches():
    """The seed and the places decide."""
    events, b = a_log(3_000)

    one, other = (read(events, b, parts, most_rows=700, seed=3) for parts in (1, 11))

    assert np.array_equal(np.sort(one.events.times), np.sort(other.events.times))
    another = read(events, b, most_rows=700, seed=4)
    assert not np.array_equal(one.events.times, another.events.times)


def test_a_sample_is_uniform():
    """Its scores have the mean of all, and its blocks are those of the rows."""
    events, b = a_log(20_000, seed=2)

    log = read(events, b, 3, most_rows=6_000)

    assert log.events.scores.mean() == pytest.approx(events.scores.mean(), abs=0.01)
    keys = log.events.rows.astype(int) * 10_000 + log.events.hours // 24
    pairs = set(zip(keys.tolist(), log.blocks.codes.tolist(), strict=True))
    assert len(pairs) == len(set(keys.tolist())) == len({code for _, code in pairs})


def test_campaigns_may_come_in_any_order():
    """A name keeps its number from batch to batch."""
    first = EventTable.from_columns([0.0, 90_000.0], ["z", "b"], [0.1, 0.2], [0, 1])
    second = EventTable.from_columns([5.0], ["a"], [0.3], [1])
    rows = PairedRows()
    rows.add(first, first.scores)
    rows.add(second, second.scores)

    log = rows.log()

    assert len(rows) == 3
    assert log.identical
    assert log.sums_a.expected[log.blocks.codes] == pytest.approx(log.events.scores)


def test_metrics_are_those_of_their_functions():
    """Of all rows, and the calibrated ones of the same V and R."""
    events, b = a_log(shift=0.4, noise=0.3)
    y = events.outcomes

    found = compared(events, b, draws=0)

    card, model = found.metrics[B], found.models[B]
    assert card["log_loss"] == pytest.approx(log_loss(b, y))
    assert card["mse"] == pytest.approx(mse(b, y))
    assert card["rig"] == pytest.approx(rig(b, y))
    assert card["pcoc"] == pytest.approx(pcoc(b, y))
    assert card["cs_auc"] == cs_auc(b, y, events.bids)
    log = calibrated_losses(b, y, "log", bias_rows=model.bias_rows)
    assert (card["calibrated_log_loss"], card["log_loss_beside_calibrated"]) == (
        log.value,
        log.plain,
    )
    expected = scorecard(b, y, events.rows)
    assert {name: card[name] for name in expected} == pytest.approx(expected)
    assert np.array_equal(model.bias_rows, found.models[A].bias_rows)


def test_every_difference_is_a_less_b():
    """And has the better model on its side."""
    found = compared(*a_log(shift=0.4, noise=0.6))

    assert list(found.differences) == list(LOWER_IS_BETTER)
    for name, difference in found.differences.items():
        values = [found.metrics[side][name] for side in (A, B)]
        assert difference.value == pytest.approx(values[0] - values[1])
        assert found.better(name) == A
        assert found.leads(name) == A


@pytest.mark.slow
def test_what_a_shift_alone_changes():
    """A model that is only too high: PCOC and log loss tell; calibrated losses and AUC do not."""
    found = compared(*a_log(n=20_000, shift=0.5))

    assert [found.better(name) for name in ("log_loss", "cal_1")] == [A, A]
    assert found.better("calibrated_log_loss") is None
    assert found.better("auc") is None


@pytest.mark.slow
def test_turned_round_the_other_is_better():
    """No side is favoured."""
    events, b = a_log(noise=0.8)
    turned = EventTable(
        events.times, events.campaigns, events.rows, b, events.outcomes, events.bids
    )

    one, other = compared(events, b), compared(turned, events.scores)

    assert one.better("log_loss") == A
    assert other.better("log_loss") == B
    assert other.differences["auc"].value == pytest.approx(-one.differences["auc"].value)


def test_log_loss_is_the_paired_bootstrap():
    """Over campaign-days, by the same seed."""
    events, b = a_log(noise=0.3)
    days = [f"{row} {hour // 24}" for row, hour in zip(events.rows, events.hours, strict=True)]

    found = compared(events, b, draws=100).differences["log_loss"]

    expected = paired_bootstrap(events.scores, b, events.outcomes, days, draws=100)
    assert (found.value, found.lower, found.upper) == pytest.approx(
        (expected.value, expected.lower, expected.upper)
    )


def test_a_lift_is_a_share_of_b():
    """Positive where A is better, for losses and for AUC."""
    found = compared(*a_log(noise=0.8))

    metrics = found.metrics
    losses = 1 - metrics[A]["log_loss"] / metrics[B]["log_loss"]
    assert found.lifts["log_loss"].value == pytest.approx(losses)
    assert found.lifts["auc"].value == pytest.approx(metrics[A]["auc"] / metrics[B]["auc"] - 1)
    assert found.lifts["log_loss"].lower > 0


@pytest.mark.parametrize("bids", [True, False])
def test_csauc_needs_bids_and_whole_clicks(bids):
    """Half a click has no revenue order."""
    events, b = a_log(600, bids=bids)
    halves = EventTable(
        events.times, events.campaigns, events.rows, events.scores, events.outcomes / 2, events.bids
    )

    assert ("cs_auc" in compared(events, b, draws=5).differences) == bids
    assert "cs_auc" not in compared(halves, b, draws=5).metrics[A]


def test_bias_rows_of_one_outcome_leave_the_calibrated_log_loss_undefined():
    """No finite shift fits them; the quadratic one needs a mean only."""
    events, b = a_log(300)
    quiet = EventTable(
        events.times, events.campaigns, events.rows, events.scores, np.arange(300) == 7
    )

    found = compared(quiet, b, bias_share=0.01, draws=20)

    assert not found.models[A].can_be_calibrated
    assert np.isnan(found.metrics[A]["calibrated_log_loss"])
    assert found.better("calibrated_log_loss") is None
    assert np.isfinite(found.metrics[A]["calibrated_quadratic_loss"])


def test_without_draws_nothing_is_beyond_chance():
    """Only the values are there."""
    found = compared(*a_log(600, noise=2.0), draws=0)

    assert {found.better(name) for name in found.differences} == {None}
    assert found.leads("log_loss") == A
