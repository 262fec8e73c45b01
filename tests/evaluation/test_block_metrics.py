"""Metrics in a draw of blocks are those of the rows repeated as often as their block was drawn."""

from math import nan

import numpy as np
import pytest
from hypothesis import given

from evaluation import auc, calibrated_losses, cs_auc, gc_n, log_loss, mse, pcoc
from evaluation import rig as rig_of
from evaluation.bootstrap.blocks import (
    CELL_SPAN,
    METRICS,
    MOST_EXACT,
    BlockCells,
    Blocks,
    BlockSums,
    multiplicities,
    observed,
)
from evaluation.bootstrap.ranking import (
    BlockAuc,
    BlockCalibratedLogLoss,
    BlockCsAuc,
    BlockGcN,
    log_odds_shifts,
)
from evaluation.metrics.predictions import Predictions
from tests.evaluation.blocks_of_kind import blocked_rows


def cal_1(p, y):
    ratio = pcoc(p, y)
    return max(ratio, 1 / ratio) - 1 if ratio > 0 else np.inf if ratio == 0 else nan


OF_SUMS = {"cal_1": cal_1, "log_loss": log_loss, "mse": mse, "pcoc": pcoc, "rig": rig_of}


def sums_of(rows):
    return BlockSums.of(Predictions.check(rows.p, rows.y, None), rows.blocks)


def cells_of(rows, mask=slice(None)):
    predictions = Predictions.check(rows.p[mask], rows.y[mask], None)
    return BlockCells.of(predictions, Blocks(rows.blocks.codes[mask], rows.blocks.count))


def test_every_metric_of_sums_is_held_to_its_definition():
    """A new one is added to the table above."""
    assert OF_SUMS.keys() == METRICS.keys()


@pytest.mark.parametrize("name", sorted(OF_SUMS))
@given(rows=blocked_rows())
def test_sums_of_drawn_blocks_are_sums_of_repeated_rows(name, rows):
    """Log loss, quadratic loss, PCOC and RIG: exact."""
    chosen = rows.repeated

    drawn = sums_of(rows).metric(name)(rows.multiplicities)[0]

    expected = OF_SUMS[name](rows.p[chosen], rows.y[chosen])
    assert drawn == pytest.approx(expected, nan_ok=True, abs=1e-12)


@given(rows=blocked_rows())
def test_auc_of_drawn_blocks(rows):
    """Ties count one half, within a row's copies too."""
    chosen = rows.repeated

    drawn = BlockAuc.of(cells_of(rows))(rows.multiplicities)[0]

    assert drawn == pytest.approx(auc(rows.p[chosen], rows.y[chosen]), nan_ok=True)


@pytest.mark.parametrize("n", [1, 3])
@given(rows=blocked_rows(min_size=20, max_size=150))
def test_gc_n_of_drawn_blocks(n, rows):
    """Campaigns count when they have enough positives in the draw; bins are those of copies."""
    chosen = rows.repeated
    weights = np.ones(len(rows.p))

    metric = BlockGcN.of(cells_of(rows), rows.blocks, rows.campaigns, weights, n)

    expected = gc_n(rows.p[chosen], rows.y[chosen], rows.campaigns[chosen].tolist(), n)
    assert metric(rows.multiplicities)[0] == pytest.approx(expected, nan_ok=True)


def test_gc_n_of_fractional_weights():
    """Cut at exactly k W / n, as without blocks."""
    rng = np.random.default_rng(3)
    p, weights = rng.uniform(0.1, 0.9, 400), rng.uniform(0.2, 3.0, 400)
    y, campaigns = (rng.random(400) < p * 0.8).astype(float), np.repeat([0, 1], 200)
    blocks = Blocks.of(campaigns)
    cells = BlockCells.of(Predictions.check(p, y, weights), blocks)

    metric = BlockGcN.of(cells, blocks, campaigns, weights, 3)

    expected = gc_n(p, y, campaigns, 3, sample_weight=weights)
    assert observed(metric, 2) == pytest.approx(expected)


@given(rows=blocked_rows(min_size=4))
def test_calibrated_log_loss_of_drawn_blocks(rows):
    """The shift of the drawn bias rows, on the other rows drawn; nan where it is infinite."""
    chosen = rows.repeated
    fitted = rows.y[chosen][rows.bias[chosen]]

    metric = BlockCalibratedLogLoss(cells_of(rows, rows.bias), cells_of(rows, ~rows.bias))
    drawn = metric(rows.multiplicities)[0]

    if len(set(fitted.tolist())) < 2:
        assert np.isnan(drawn)
    else:
        bias = rows.bias[chosen]
        expected = calibrated_losses(rows.p[chosen], rows.y[chosen], "log", bias_rows=bias).value
        assert drawn == pytest.approx(expected, nan_ok=True, rel=1e-6)


def test_the_shift_solves_its_equation_wherever_it_lies():
    """Lopsided scores and rates: sum of weights * sigmoid(log-odds - c) is the positives."""
    log_odds = np.array([-27.0, -5.0, 0.0, 27.0])
    weights = np.array([[1e6, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1e6]])
    positives = np.array([900_000.0, 3.0])

    c = log_odds_shifts(log_odds, weights, positives)

    q = weights / (1 + np.exp(c - log_odds[:, None]))
    assert q.sum(axis=0) == pytest.approx(positives, rel=1e-9)


@given(rows=blocked_rows(min_size=2))
def test_cs_auc_of_drawn_blocks(rows):
    """Exact while bids and scores have buckets of their own; tied pairs pay the mean."""
    chosen = rows.repeated

    metric = BlockCsAuc(rows.p * rows.bids, rows.y == 1.0, rows.bids, rows.blocks)

    expected = cs_auc(rows.p[chosen], rows.y[chosen], rows.bids[chosen], ties="half")
    assert metric(rows.multiplicities)[0] == pytest.approx(expected, nan_ok=True)


def many_rows(n=30_000):
    rng = np.random.default_rng(5)
    campaigns = rng.integers(0, 4, n)
    p = 1 / (1 + np.exp(-rng.normal(-1.0, 2.0, n)))
    y = (rng.random(n) < p**1.2).astype(float)
    blocks = Blocks.of_campaigns(campaigns, rng.integers(0, 96, n))
    return p, y, campaigns, blocks, rng.lognormal(0, 1, n)


def test_cells_of_many_rows_change_little():
    """Beyond 20,000 rows near probabilities tie: AUC within 1e-5, calibration within 1 %."""
    p, y, campaigns, blocks, bids = many_rows()
    assert len(p) > MOST_EXACT
    cells = BlockCells.of(Predictions.check(p, y, None), blocks)

    assert len(cells.probabilities) < 3000
    assert observed(BlockAuc.of(cells), blocks.count) == pytest.approx(auc(p, y), abs=1e-5)
    gc_3 = BlockGcN.of(cells, blocks, campaigns, np.ones(len(p)), 3)
    assert observed(gc_3, blocks.count) == pytest.approx(gc_n(p, y, campaigns, 3), rel=0.01)
    revenue = BlockCsAuc(p * bids, y == 1.0, bids, blocks)
    assert observed(revenue, blocks.count) == pytest.approx(cs_auc(p, y, bids), abs=5e-3)


def test_cells_of_very_many_campaigns_are_coarser():
    """As few neighbours as needed are one, 32 at most; calibration stays within 5 %."""
    p, y, campaigns, blocks, _ = many_rows()
    cells = BlockCells.of(Predictions.check(p, y, None), blocks)
    owners = np.zeros(blocks.count, int)
    owners[blocks.codes] = campaigns

    exact, coarse, coarsest = (cells.within(owners, most) for most in (10**6, 1_000, 1))

    assert len(exact.keys) > 1_000 >= len(coarse.keys) > len(coarsest.keys) > 4
    assert coarse.positives.sum() == y.sum()
    assert coarsest.expected.sum() == pytest.approx(p.sum())
    bounds = np.searchsorted(coarse.keys // CELL_SPAN, range(5))
    metric = BlockGcN(coarse, bounds, np.ones(4, bool), snapped=True, n=3)
    assert observed(metric, blocks.count) == pytest.approx(gc_n(p, y, campaigns, 3), rel=0.05)


def test_cells_do_not_divide_a_positive():
    """Thin campaigns, whose bins hold a handful: draws vary as those of the samples do."""
    rng = np.random.default_rng(6)
    campaigns = rng.integers(0, 60, 30_000)
    p = 1 / (1 + np.exp(-rng.normal(-3.0, 0.8, 30_000)))
    y = (rng.random(30_000) < p).astype(float)
    blocks, drawn = Blocks.of_campaigns(campaigns, rng.integers(0, 96, 30_000)), []
    times = np.vstack([*multiplicities(blocks.count, 40, seed=0)])
    for most_exact in (MOST_EXACT, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("evaluation.bootstrap.blocks.MOST_EXACT", most_exact)
            cells = BlockCells.of(Predictions.check(p, y, None), blocks)
            drawn.append(BlockGcN.of(cells, blocks, campaigns, np.ones(30_000), 3)(times))

    assert drawn[0].std() == pytest.approx(drawn[1].std(), rel=0.15)
    assert drawn[0].mean() == pytest.approx(drawn[1].mean(), rel=0.02)


def test_cells_keep_the_order_of_probabilities_up_to_1():
    """Fine near 0 and near 1 alike."""
    p = np.concatenate([np.linspace(0, 1, 25_000), 1 - 10.0 ** -np.arange(2, 9)])
    cells = BlockCells.of(Predictions.check(p, p, None), Blocks.of(np.zeros(len(p), int)))

    probabilities = cells.probabilities
    assert np.all(np.diff(probabilities) > 0)
    assert (1 - probabilities[probabilities < 1]).min() < 1e-7


def test_nothing_has_no_metric():
    """No rows: nan."""
    none = Predictions.check([], [], None)
    blocks = Blocks.of([])
    cells = BlockCells.of(none, blocks)

    for metric in (BlockAuc.of(cells), BlockSums.of(none, blocks).metric("log_loss")):
        assert np.isnan(observed(metric, blocks.count))
