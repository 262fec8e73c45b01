"""The synthetic search engine, and the contrast of offline, simulated and online metrics."""

import numpy as np
import pytest

from evaluation.auction.comparison import compare_auctions
from evaluation.auction.search_platform import SearchPlatform
from research.reproduction.search_experiment import search_experiment

pytestmark = pytest.mark.slow

FEW, SEEDS = 25_000, (1, 2)


@pytest.fixture(scope="module", params=SEEDS)
def found(request):
    return search_experiment(request.param, pages=FEW, alphas=(0.6, 1.0, 1.6))


def test_simulated_clicks_foretell_online_clicks(found):
    """Every model: the same sign, and no further than five points off."""
    for row in found.rows.values():
        for metric in ("click_yield", "mainline_click_yield"):
            assert row.simulated[metric].value * row.online[metric] > 0.0
            assert abs(row.gap(metric)) < 0.05


def test_a_model_can_rise_in_auc_and_rig_and_lose_clicks(found):
    """The pattern of the paper's table 5: AUC and RIG up, clicks down by a tenth, and the
    simulation knows."""
    row = found.rows["sharper_head"]

    assert row.auc_change > 0.003
    assert row.rig_change > 0.08
    assert -0.18 < row.online["click_yield"] < -0.08
    assert row.simulated["click_yield"].upper < -0.03


def test_less_noise_is_better_by_every_metric(found):
    """Offline, simulated and online."""
    row = found.rows["less_noise"]

    assert min(row.auc_change, row.rig_change, row.online["click_yield"]) > 0.008
    assert row.simulated["click_yield"].lower > 0.0


def test_scores_times_three_alarm_rig_and_hardly_anyone_else(found):
    """The ranking stays; a few more ads reach the mainline."""
    row = found.rows["times_three"]

    assert row.rig_change < -1.5
    assert abs(row.auc_change) < 0.001
    assert 0.0 < row.online["click_yield"] < 0.02


def test_the_naive_curve_flatters_a_model_that_digs_up_bad_ads(found):
    """It takes the sidebar for worse than it is, so ads that come up from there for better."""
    row = found.rows["sharper_head"]
    drawn = SearchPlatform(found.queries, pages=found.pages, seed=found.seed).draw()
    models = {name: drawn.models[name] for name in ("baseline", "sharper_head")}

    naive = compare_auctions(drawn.log, models, point=drawn.point, curve="naive")

    changed = naive.models["sharper_head"].changes["click_yield"]
    assert changed.value > row.simulated["click_yield"].value
    assert 0.02 < row.scored.simulation.level_shares[2] < 0.1


def test_at_equal_load_a_higher_alpha_brings_clicks_and_costs_revenue(found):
    """Simulated and online alike."""
    simulated = [point.changes["click_yield"].value for point in found.points]
    online = [truth["click_yield"] for truth in found.online_points]

    assert [point.point.alpha for point in found.points] == [0.6, 1.0, 1.6]
    assert simulated == sorted(simulated)
    assert simulated == pytest.approx(online, abs=0.03)
    revenue = [truth["revenue_per_mille"] for truth in found.online_points]
    assert revenue == sorted(revenue, reverse=True)
    assert simulated[0] < 0.0 < simulated[1]


def test_shrinkage_comes_nearer_to_the_truth():
    """With few pages most cells are nearly empty; what their pairs have elsewhere steadies them."""
    paper, drawn = (
        search_experiment(1, pages=2_000, queries=20, alphas=(), shrinkage=k).rows.values()
        for k in (0.0, 20.0)
    )

    gaps = [sum(abs(row.gap("click_yield")) for row in rows) for rows in (paper, drawn)]
    assert gaps[1] < 0.7 * gaps[0]


def test_the_experiment_can_be_repeated():
    """The same seed is the same log; another is another."""
    first, again, other = (search_experiment(seed, pages=1_000, alphas=()) for seed in (5, 5, 6))

    assert first.baseline.offline == again.baseline.offline != other.baseline.offline
    assert (first.queries, first.pages, list(first.points)) == (10, 1_000, [])


def test_progress_grows_to_the_end():
    """Shares of the work, ascending to 1."""
    told = []

    search_experiment(1, pages=1_000, queries=5, alphas=(1.0,), progress=told.append)

    assert told == sorted(told)
    assert told[-1] == 1.0


def test_the_log_shows_what_the_platform_decided():
    """Every page has 14 candidates of one query, fills its slots, and is clicked at the true
    rates: the clicks are within four standard deviations of what they should be."""
    drawn = SearchPlatform(queries=50, pages=5_000, seed=4).draw()
    log = drawn.log

    rates = drawn.truth[log.shown] * drawn.curve[log.positions[log.shown] - 1]
    assert abs(log.clicks.sum() - rates.sum()) < 4 * np.sqrt((rates * (1 - rates)).sum())
    assert np.bincount(log.pages).tolist() == [14] * 5_000
    assert log.order is None
    assert (drawn.models["sharper_head"] >= 0.04).all()
    assert drawn.models["times_three"].max() <= 0.99


@pytest.mark.parametrize(
    ("name", "value", "rule"), [("queries", 0, 1), ("ads", 0, 1), ("pages", 0, 1), ("seed", -1, 0)]
)
def test_a_bad_parameter_is_named(name, value, rule):
    """With value and rule."""
    with pytest.raises(ValueError, match=f"{name} = {value}: must be at least {rule}"):
        SearchPlatform(**{name: value})
