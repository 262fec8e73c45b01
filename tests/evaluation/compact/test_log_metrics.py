"""The metrics of a long log are those of its rows, however they were read and held."""

import numpy as np
import pytest

from evaluation import (
    auc,
    cal_n,
    cal_n_floor,
    calibrated_losses,
    copc,
    cs_auc_parts,
    grouped_auc,
    grouped_cal_n,
    grouped_cs_auc,
    log_loss,
    mae,
    mse,
    nmse,
    partial_auc,
    pcoc,
    prediction_error,
    reliability_diagram,
    rig,
    ropr,
    score_quantiles,
)
from evaluation.streaming.log import OVERALL, Groupings, RowLimits, StreamedLog
from evaluation.streaming.log_metrics import log_metrics
from evaluation.streaming.rows import LogBatch
from tests.evaluation.compact.compact_logs import CUT, Log, drawn, measured

PLAIN = {
    "pcoc": pcoc, "copc": copc, "prediction_error": prediction_error, "log_loss": log_loss,
    "rig": rig, "mse": mse, "nmse": nmse, "mae": mae, "auc": auc, "partial_auc": partial_auc,
}  # fmt: skip
SUMS = ("n", "positives", "expected", "pcoc", "ropr", "log_loss", "rig", "mse", "nmse", "mae")
HELD, FOLDED = None, RowLimits(700, 700, 100_000)


def expected(p, y, bids):
    """The metrics of some rows, each by the function of its name."""
    numbers = {name: metric(p, y) for name, metric in PLAIN.items()}
    parts = cs_auc_parts(p, y, bids)
    return numbers | {
        "n": len(p),
        "positives": y.sum(),
        "ropr": ropr(p, y, bids),
        "cs_auc": parts.value,
        "cs_auc_worst": parts.worst,
        "cs_auc_tied_share": parts.tied_share,
    }


@pytest.mark.parametrize("room", [HELD, FOLDED])
def test_every_number_of_the_whole_is_that_of_its_function(room):
    log = drawn(levels=60)
    found = measured(log, room).overall
    for name, value in expected(log.p, log.y, log.bids).items():
        assert found[name] == pytest.approx(value, abs=1e-12), name
    for n in (3, 4, 5):
        assert found[f"cal_{n}"] == pytest.approx(cal_n(log.p, log.y, n))
        grouped = grouped_cal_n(log.p, log.y, log.slices, n)
        assert found[f"gc_{n}"] == pytest.approx(grouped.value)
        assert found[f"gc_{n}_left_out"] == pytest.approx(grouped.share_left_out)


@pytest.mark.parametrize("room", [HELD, FOLDED])
def test_every_number_of_a_slice_is_that_of_its_rows(room):
    log = drawn(2_000, slices=6, levels=40)
    columns = measured(log, room).groupings[CUT].columns
    for number in range(6):
        own = log.slices == number
        for name, value in expected(log.p[own], log.y[own], log.bids[own]).items():
            assert columns[name][number] == pytest.approx(value, abs=1e-12, nan_ok=True), name


def test_cal_n_of_a_slice_is_that_of_its_rows_if_it_has_five_positives_a_bin():
    log = drawn(600, slices=12, rate=0.1)
    columns = measured(log).groupings[CUT].columns
    per_campaign = grouped_cal_n(log.p, log.y, log.slices, 4).per_campaign
    defined = {i: value for i, value in enumerate(columns["cal_4"]) if not np.isnan(value)}
    assert 0 < len(defined) < 12
    assert defined == pytest.approx(per_campaign)


def test_grouped_ranking_is_that_of_its_functions():
    log = drawn(400, slices=60, rate=0.05)
    found = measured(log).overall
    ranked, paid = (
        grouped_auc(log.p, log.y, log.slices),
        grouped_cs_auc(log.p, log.y, log.bids, log.slices),
    )
    assert 0.0 < ranked.share_left_out < 1.0
    assert found["gauc"] == pytest.approx(ranked.value)
    assert found["gauc_left_out"] == pytest.approx(ranked.share_left_out)
    assert found["gcs_auc"] == pytest.approx(paid.value)
    assert found["gcs_auc_left_out"] == pytest.approx(paid.share_left_out)
    assert found["gcs_auc_bids_left_out"] == pytest.approx(paid.bids_left_out)


def test_rows_without_a_group_are_left_out_of_grouped_ranking():
    log = drawn(500)
    slices = np.where(np.arange(500) % 4 == 0, -1, log.slices).astype(np.int32)
    found = measured(Log(log.p, log.y, log.bids, slices)).overall
    kept = slices >= 0
    assert found["gauc_left_out"] == pytest.approx(0.25, abs=0.03)
    assert found["gauc"] == pytest.approx(grouped_auc(log.p[kept], log.y[kept], slices[kept]).value)


@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_the_floor_under_cal_n_is_that_of_its_function(rate):
    log = drawn(5_000, rate=rate)
    found = measured(log).overall
    for n in (3, 5):
        floor = cal_n_floor(log.p, n, rng=np.random.default_rng(1), draws=400)
        assert found[f"cal_{n}_floor"] == pytest.approx(floor, rel=0.08)


def test_the_floor_under_gc_n_is_the_mean_of_those_of_its_campaigns():
    metrics = measured(drawn(4_000))
    columns = metrics.groupings[CUT].columns
    mean = np.average(columns["cal_3_floor"], weights=columns["n"])
    assert metrics.overall["gc_3_floor"] == pytest.approx(mean)


def test_quantiles_and_reliability_are_those_of_the_rows():
    log = drawn()
    metrics = measured(log)
    quantiles = score_quantiles(log.p, log.y)
    np.testing.assert_allclose(metrics.quantiles.rates, quantiles.rates)
    np.testing.assert_allclose(metrics.quantiles.loss_shares, quantiles.loss_shares)
    diagram = reliability_diagram(log.p, log.y, 12)
    np.testing.assert_allclose(metrics.reliability.rates, diagram.rates)


def test_calibrated_losses_are_near_those_of_another_draw():
    """The bias is fitted on another tenth of the rows, so they agree up to chance."""
    log = drawn(20_000)
    found = measured(log).overall
    for loss, name, plain in (
        ("log", "calibrated_log_loss", "log_loss_beside_calibrated"),
        ("quadratic", "calibrated_quadratic_loss", "mse_beside_calibrated"),
    ):
        ours = calibrated_losses(log.p, log.y, loss)
        assert found[name] == pytest.approx(ours.value, rel=0.02)
        assert found[name] - found[plain] == pytest.approx(ours.value - ours.plain, abs=1e-3)


def test_a_bias_of_one_class_has_no_calibrated_log_loss():
    log = Log(np.full(40, 0.1), np.eye(1, 40)[0], np.ones(40), np.zeros(40, np.int32))
    found = measured(log).overall
    assert np.isnan(found["calibrated_log_loss"])
    assert not np.isnan(found["calibrated_quadratic_loss"])


@pytest.mark.parametrize("room", [HELD, FOLDED, RowLimits(500, 500, 200)])
@pytest.mark.parametrize("batch", [499, 100])
def test_neither_order_nor_batches_matter(room, batch):
    log = drawn(2_000)
    one = measured(log, room, 250)
    other = measured(log.shuffled(np.random.default_rng(4)), room, batch, workers=2)
    ours, theirs = (
        {
            **found.overall,
            **{f"of {k}": v.tolist() for k, v in found.groupings[CUT].columns.items()},
        }
        for found in (one, other)
    )
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert theirs[name] == pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True), name


def test_sums_are_exact_and_areas_within_their_bounds_when_scores_share_cells():
    log = drawn(6_000)
    exact, coarse = measured(log), measured(log, RowLimits(1_000, 1_000, 400))
    assert exact.groupings[CUT].cells_per_octave is None
    assert coarse.groupings[CUT].cells_per_octave < 2**30
    for name in SUMS:
        assert coarse.overall[name] == pytest.approx(exact.overall[name], rel=1e-12), name
    for name, error in (("auc", "auc_error_at_most"), ("cs_auc", "cs_auc_error_at_most")):
        ours, theirs = exact.groupings[CUT].columns, coarse.groupings[CUT].columns
        assert error not in ours
        assert (np.abs(ours[name] - theirs[name]) <= theirs[error]).all()
    assert coarse.overall["gc_3"] == pytest.approx(exact.overall["gc_3"], rel=0.1)


def test_outcomes_may_be_fractions_but_then_there_is_no_cs_auc():
    log = drawn(1_000)
    shares = Log(log.p, 0.3 + 0.5 * log.y, log.bids, log.slices)
    found = measured(shares, RowLimits(300, 300, 100_000))
    for name, metric in PLAIN.items():
        assert found.overall[name] == pytest.approx(metric(shares.p, shares.y)), name
    assert "cs_auc" not in found.overall
    assert found.overall["calibrated_log_loss"] > 0


def test_without_bids_there_is_no_cs_auc():
    log = drawn(100)
    found = StreamedLog((OVERALL,), (OVERALL,))
    found.add(LogBatch(log.p, log.y, None, {OVERALL: None}))
    overall = log_metrics(found, Groupings({OVERALL: 1})).overall
    assert "cs_auc" not in overall
    assert np.isnan(overall["ropr"])
    assert overall["bids"] == 0.0


def test_the_mainline_is_measured_by_itself():
    log = drawn(1_000)
    slices = np.where(log.slices == 0, 0, -1).astype(np.int32)
    found = StreamedLog((OVERALL, "mainline"))
    found.add(LogBatch(log.p, log.y, None, {OVERALL: None, "mainline": slices}))
    cuts = Groupings({OVERALL: 1, "mainline": 1}, mainline="mainline")
    expected_auc = auc(log.p, log.y, where=slices == 0)
    assert log_metrics(found, cuts).overall["mainline_auc"] == pytest.approx(expected_auc)
    assert "gauc" not in log_metrics(found, cuts).overall


def test_the_sketch_holds_the_log_by_campaign():
    log = drawn(1_000)
    sketch = measured(log).sketch
    assert sketch.weights.sum() == 1_000
    assert np.bincount(sketch.slices, sketch.positives) == pytest.approx(
        np.bincount(log.slices, log.y)
    )


def test_many_slices_need_no_short_codes():
    """Codes beyond 16 bits stand beside short ones of earlier batches."""
    codes = np.concatenate((np.zeros(50), np.arange(40_000))).astype(np.int32)
    p, y = np.full(len(codes), 0.25), (np.arange(len(codes)) % 3 == 0).astype(float)
    found = measured(
        Log(p, y, np.ones(len(codes)), codes), RowLimits(20_000, 20_000, 50_000), batch=10_000
    )
    assert found.groupings[CUT].columns["n"].tolist() == np.bincount(codes).tolist()


def test_each_step_is_told():
    told = []
    found = StreamedLog((OVERALL, CUT), (CUT,))
    for batch in drawn(100).batches(100):
        found.add(batch)
    log_metrics(found, Groupings({OVERALL: 1, CUT: 7}), advance=told.append)
    assert told == [OVERALL, CUT, CUT]
    assert len(found) == 100
