"""Operating points at equal load."""

import pytest

from evaluation.auction.gsp import OperatingPoint
from evaluation.auction.search_platform import SearchPlatform
from evaluation.auction.simulation import relative_change, simulate_auction, sweep_operating_points


@pytest.fixture(scope="module")
def drawn():
    return SearchPlatform(queries=30, pages=3_000, seed=1).draw()


def test_every_point_is_a_simulation_of_its_own(drawn):
    """With the settings it names, against the model in force at the point in force."""
    before = simulate_auction(drawn.log, drawn.scores, point=drawn.point)

    swept = sweep_operating_points(
        drawn.log, drawn.truth, alphas=[0.5, 2.0], baseline=drawn.scores, point=drawn.point
    )

    assert [each.point.alpha for each in swept] == [0.5, 2.0]
    for each in swept:
        after = simulate_auction(drawn.log, drawn.truth, point=each.point)
        assert each.metrics == after.metrics
        assert each.level_shares == after.level_shares
        assert each.changes["click_yield"] == relative_change(before, after, "click_yield")


def test_the_mainline_load_is_held(drawn):
    """At every alpha, and at multiples of it."""
    swept = sweep_operating_points(drawn.log, drawn.scores, alphas=[0.0, 1.0, 3.0], loads=[0.5, 1])

    assert [each.load for each in swept] == [0.5, 1] * 3
    above = [each.metrics["mainline_ads_per_page"] for each in swept]
    assert above == pytest.approx([1.9, 3.8] * 3, abs=1e-3)


def test_a_reserve_in_force_holds_all_ads_per_page_too(drawn):
    """Rank scores have another scale at another alpha, so the reserve moves with it."""
    point = OperatingPoint(1.0, 0.03, 0.06)
    before = simulate_auction(drawn.log, drawn.scores, point=point).metrics

    swept = sweep_operating_points(drawn.log, drawn.scores, alphas=[0.7, 1.4], point=point)

    for each in swept:
        assert each.metrics["ads_per_page"] == pytest.approx(before["ads_per_page"], abs=1e-3)
        assert each.metrics["mainline_ads_per_page"] == pytest.approx(
            before["mainline_ads_per_page"], abs=1e-3
        )
    assert swept[0].point.reserve > 0.03 > swept[1].point.reserve


def test_clicks_rise_and_revenue_falls_with_alpha(drawn):
    """As far as the sweep goes: clicked ads rank higher, and pay less."""
    swept = sweep_operating_points(drawn.log, drawn.truth, alphas=[0.3, 0.8, 1.4], shrinkage=20.0)

    clicks, revenue = (
        [each.metrics[name] for each in swept] for name in ("click_yield", "revenue_per_mille")
    )
    assert clicks == sorted(clicks)
    assert revenue == sorted(revenue, reverse=True)


def test_progress_is_told_after_each_point(drawn):
    """As the share that is done."""
    told = []

    sweep_operating_points(
        drawn.log, drawn.scores, alphas=[1.0, 2.0], loads=[0.5, 1.0], progress=told.append
    )

    assert told == [0.25, 0.5, 0.75, 1.0]


def test_a_bad_alpha_is_named(drawn):
    """Not one point is simulated with it."""
    with pytest.raises(ValueError, match=r"alpha = -1.0: must be finite and at least 0"):
        sweep_operating_points(drawn.log, drawn.scores, alphas=[-1.0])
