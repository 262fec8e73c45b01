"""Simulated auctions: three levels of what the log knows, and what a page's clicks do to them."""

import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evaluation.auction.click_estimates
from evaluation.auction.click_curve import ClickCurve
from evaluation.auction.click_estimates import ClickHistory
from evaluation.auction.gsp import OperatingPoint, SlotLayout
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import SearchPlatform
from evaluation.auction.simulation import METRICS, simulate_auction
from tests.evaluation.auction.auctions_of_kind import ALPHAS, THRESHOLDS, logs
from tests.evaluation.auction.simulation_oracle import simulation_oracle

ONE_SLOT = SlotLayout(1, 0)


@pytest.fixture(autouse=True, scope="module")
def _impatient():
    """Logs of a few rows often have no likeliest curve: a few steps will do to see that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["evaluation.auction.click_curve"], "MOST_STEPS", 50)
        yield


def log_of(rows, layout):
    """A log of (page, query, ad, position, clicked) rows with bids of 1."""
    names = ("pages", "queries", "ads", "positions", "clicks")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return SearchLog.of(**columns, bids=[1.0] * len(rows), layout=layout)


@given(
    logs(),
    ALPHAS,
    THRESHOLDS,
    THRESHOLDS,
    st.sampled_from([1, 2, 3]),
    st.sampled_from([0.0, 2.5]),
    st.sampled_from(["mle", "naive"]),
)
def test_the_fast_simulation_is_the_slow_one(
    drawn, alpha, reserve, mainline_reserve, min_impressions, shrinkage, curve
):
    """Any log, scores and settings: the same metrics and levels as slot by slot."""
    log, columns, scores = drawn
    assume(len(log.shown) > 0)
    point = OperatingPoint(alpha, reserve, mainline_reserve)
    options = {"min_impressions": min_impressions, "shrinkage": shrinkage}

    found = simulate_auction(log, scores, point=point, curve=curve, **options)

    factors = ClickHistory.of(log, curve).curve.factors
    totals, levels = simulation_oracle(columns, scores, log.layout, point, factors, **options)
    assert [found.metrics[name] for name in METRICS] == pytest.approx(totals, rel=1e-9, abs=1e-12)
    if sum(levels):
        assert found.level_shares == pytest.approx([n / sum(levels) for n in levels])
    else:
        assert np.isnan(found.level_shares).all()
    assert [found.page_values[name].mean() for name in METRICS] == pytest.approx(totals, abs=1e-9)


@given(logs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(drawn, random):
    """Rows may come in any order, with their scores."""
    log, columns, scores = drawn
    order = list(range(len(log)))
    random.shuffle(order)
    shuffled = {name: column[order] for name, column in columns.items()}

    again = simulate_auction(SearchLog.of(**shuffled, layout=log.layout), scores[order])

    assert again.metrics == simulate_auction(log, scores).metrics


def test_a_model_simulated_on_its_own_log_has_its_own_clicks():
    """Every slot is answered at level 1 by the very clicks that were logged."""
    drawn = SearchPlatform(queries=20, pages=2_000, seed=1).draw()

    found = simulate_auction(drawn.log, drawn.scores, point=drawn.point)

    assert found.level_shares == (1.0, 0.0, 0.0)
    assert found.metrics["click_yield"] == pytest.approx(drawn.log.clicks.sum() / 2_000)
    assert found.metrics["ads_per_page"] == drawn.log.ads_per_page
    assert found.metrics["mainline_ads_per_page"] == drawn.log.mainline_ads_per_page


def test_the_share_of_clicks_that_are_guessed():
    """Page 0 shows ad 0, clicked once in two impressions; page 1 an ad that was never shown, which
    the position's own rate of 1/2 is guessed for."""
    log = log_of([(0, 0, 0, 1, 1), (0, 0, 1, 0, 0), (1, 0, 0, 1, 0), (1, 0, 1, 0, 0)], ONE_SLOT)

    assert simulate_auction(log, [0.9, 0.1, 0.1, 0.9]).guessed_share == 0.5


def test_a_log_without_clicks_expects_none():
    """Nor revenue."""
    log = log_of([(0, 0, 0, 1, 0), (0, 0, 1, 0, 0)], ONE_SLOT)

    found = simulate_auction(log, [0.2, 0.9])

    assert found.metrics["click_yield"] == found.metrics["revenue_per_mille"] == 0.0
    assert found.metrics["ads_per_page"] == 1.0
    assert np.isnan(found.guessed_share)


def test_without_pages_nothing_is_defined():
    """nan, not 0."""
    log = SearchLog.of(pages=[], queries=[], ads=[], positions=[], clicks=[], bids=[])

    found = simulate_auction(log, [])

    assert all(np.isnan(value) for value in found.metrics.values())
    assert np.isnan(found.level_shares).all()


def test_pages_without_candidates_count():
    """Two of four pages have an ad."""
    columns = {"queries": [0, 0], "ads": [0, 0], "positions": [1, 1], "clicks": [1, 0]}
    log = SearchLog.of(pages=[0, 2], bids=[1.0, 1.0], n_pages=4, **columns)

    found = simulate_auction(log, [0.1, 0.1])

    assert found.metrics["ads_per_page"] == 0.5
    assert found.metrics["click_yield"] == 0.25


@pytest.mark.parametrize("shrinkage", [0.0, 4.0])
def test_page_values_hold_what_one_more_page_would_do(monkeypatch, shrinkage):
    """A page counted a little more often moves the metric by its value, up to what is the same for
    all pages: with the click curve held, so that the values' spread is the uncertainty."""
    factors = np.array([1.0, 0.6, 0.3])
    monkeypatch.setattr(
        evaluation.auction.click_estimates,
        "curve_of",
        lambda pairs, at, seen, clicks, n, method: ClickCurve(
            factors, np.ones(3, bool), np.bincount(at - 1, seen, n), np.bincount(at - 1, clicks, n)
        ),
    )
    rng = np.random.default_rng(5)
    pages, copies = 30, 400
    rows = [
        (page, page % 3, ad, at, rng.random() < 0.3 if at else 0)
        for page in range(pages)
        for ad, at in enumerate(rng.permutation([0, 0, 1, 2, 3]))
    ]
    scores = {(page, ad): rng.choice([0.1, 0.2, 0.3]) for page, _, ad, *_ in rows}

    def simulated(weights):
        repeated = [
            (page + pages * copy, *rest)
            for page, *rest in rows
            for copy in range(weights.get(page, copies))
        ]
        log = log_of(repeated, SlotLayout(2, 1))
        given = [scores[page % pages, ad] for page, _, ad, *_ in repeated]
        return simulate_auction(log, given, shrinkage=shrinkage * copies)

    base, first, second = simulated({}), simulated({7: copies + 1}), simulated({29: copies + 1})

    for name in METRICS:
        moved = (first.metrics[name] - second.metrics[name]) * (pages * copies + 1)
        values = base.page_values[name]
        tolerance = 5e-3 * max(base.metrics[name], 1.0)
        assert moved == pytest.approx(values[7] - values[29], rel=0.01, abs=tolerance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_impressions": 0}, "min_impressions = 0: must be at least 1"),
        ({"min_impressions": np.nan}, "min_impressions = nan: must be at least 1"),
        ({"shrinkage": -1.0}, "shrinkage = -1.0: must be at least 0, finite"),
        ({"shrinkage": np.inf}, "shrinkage = inf: must be at least 0, finite"),
    ],
)
def test_bad_options_are_named(options, message):
    """With value and rule."""
    with pytest.raises(ValueError, match=message):
        simulate_auction(log_of([(0, 0, 0, 1, 1)], ONE_SLOT), [0.1], **options)


def test_scores_belong_to_the_rows():
    """As many, each a probability."""
    log = log_of([(0, 0, 0, 1, 1)], ONE_SLOT)

    with pytest.raises(ValueError, match="equal lengths: log has 1, scores has 2"):
        simulate_auction(log, [0.1, 0.2])
    with pytest.raises(ValueError, match=r"scores\[0\] = nan"):
        simulate_auction(log, [np.nan])
