"""The click curve: maximum likelihood, what it leaves open, and the naive curve."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from evaluation.auction.click_curve import click_curve
from evaluation.auction.click_estimates import ClickHistory
from evaluation.auction.search_platform import TRUE_CURVE, SearchPlatform

CELLS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(1, 60), st.floats(0.05, 1.0)),
    min_size=8,
    max_size=24,
)


def curve_of_rows(rows, **options):
    """The curve of (pair, position, impressions, clicks) rows."""
    columns = zip(*rows, strict=True)
    names = ("pairs", "positions", "impressions", "clicks")
    return click_curve(**dict(zip(names, map(list, columns), strict=True)), **options)


def loss(log_factors, table, linked):
    """Negative log likelihood of Poisson clicks, with the best rate for every pair."""
    factors = np.exp(log_factors)
    total = 0.0
    for pair in sorted({pair for pair, *_ in table}):
        cells = [row for row in table if row[0] == pair and linked[row[1] - 1]]
        clicks, seen = sum(c for *_, c in cells), [i * factors[p - 1] for _, p, i, _ in cells]
        if clicks:
            rate = clicks / sum(seen)
            for (*_, c), exposure in zip(cells, seen, strict=True):
                total += rate * exposure - c * np.log(rate * exposure)
    return total


def test_a_curve_without_noise_is_found_exactly():
    """Clicks that are just what pairs and positions say they should be."""
    rates, factors = [0.5, 0.1, 0.02], [1.0, 0.6, 0.25]
    rows = [
        (pair, place + 1, 1_000 * (pair + place + 1), 1_000 * (pair + place + 1) * rate * factor)
        for pair, rate in enumerate(rates)
        for place, factor in enumerate(factors)
        if pair + place != 2
    ]

    curve = curve_of_rows(rows)

    assert curve.factors == pytest.approx(factors, rel=1e-8)
    assert curve.linked.all()
    assert curve.converged


@given(CELLS)
def test_no_other_curve_is_likelier(cells):
    """A general optimiser, started where we stand, finds nothing better."""
    rows = [(pair, at, seen, max(1.0, round(seen * share))) for pair, at, seen, share in cells]
    curve = curve_of_rows(rows, n_positions=4)
    assume(curve.converged and curve.linked.sum() > 1)

    start = np.log(np.nan_to_num(curve.factors, nan=1.0))
    found = minimize(loss, start, args=(rows, curve.linked), method="Nelder-Mead")

    here = loss(start, rows, curve.linked)
    assert found.fun >= here - 1e-6 * max(abs(here), 1.0)


@given(CELLS, st.randoms(use_true_random=False))
def test_cells_may_come_in_any_order_and_in_parts(cells, random):
    """Each impression a row, or all of a cell in one: the sums count."""
    rows = [(pair, at, 2 * seen, 2 * round(seen * share)) for pair, at, seen, share in cells]
    halves = [(pair, at, seen / 2, clicks / 2) for pair, at, seen, clicks in rows] * 2
    random.shuffle(halves)

    whole, parted = curve_of_rows(rows, n_positions=4), curve_of_rows(halves, n_positions=4)

    assert parted.factors == pytest.approx(whole.factors, rel=1e-6, nan_ok=True)
    assert parted.linked.tolist() == whole.linked.tolist()


def test_the_first_position_with_clicks_is_1():
    """Position 1 was never filled, position 2 never clicked."""
    curve = curve_of_rows([(0, 2, 50, 0), (0, 3, 50, 10), (0, 4, 50, 5)])

    assert curve.factors.tolist() == pytest.approx([np.nan, 0.0, 1.0, 0.5], nan_ok=True)


def test_positions_that_nothing_compares_keep_the_naive_ratio():
    """Pair 0 stands at 1 and 2, pair 1 at 3 and 4, none in both halves: the scale between the
    halves is that of the click rates of positions 1 and 3."""
    rows = [(0, 1, 100, 40), (0, 2, 200, 40), (1, 3, 100, 10), (1, 4, 100, 5)]

    curve = curve_of_rows(rows)

    assert curve.linked.tolist() == [True, True, False, False]
    assert curve.factors.tolist() == pytest.approx([1.0, 0.5, 0.25, 0.125])


def test_a_pair_at_one_position_tells_nothing():
    """However often it is seen there."""
    rows = [(0, 1, 100, 40), (0, 2, 100, 10)]

    with_more = curve_of_rows([*rows, (1, 2, 10_000, 9_000), (2, 1, 10_000, 1)])

    assert with_more.factors == pytest.approx(curve_of_rows(rows).factors)


def test_a_position_where_only_single_pairs_are_clicked_keeps_the_naive_factor():
    """The pair that would compare it was never clicked there, but others were."""
    rows = [(0, 1, 100, 40), (0, 2, 100, 20), (0, 3, 10, 0), (1, 3, 90, 9)]

    curve = curve_of_rows(rows)

    assert curve.linked.tolist() == [True, True, False]
    assert curve.factors.tolist() == pytest.approx([1.0, 0.5, 0.09 / 0.4])


def test_a_likelihood_without_a_maximum_does_not_settle():
    """The only pair that compares 1 with 2 was clicked at 1 alone: their ratio runs away."""
    rows = [(0, 1, 10, 5), (0, 2, 10, 0), (1, 2, 10, 5), (1, 3, 10, 5)]

    assert not curve_of_rows(rows).converged


def test_without_clicks_there_is_no_curve():
    """Nor without impressions."""
    assert np.isnan(curve_of_rows([(0, 1, 10, 0), (0, 2, 10, 0)]).factors).all()
    assert np.isnan(curve_of_rows([(0, 1, 10, 0)]).naive_factors).all()
    assert click_curve([], [], [], []).factors.tolist() == []
    assert click_curve([], [], [], [], n_positions=2).rates == pytest.approx(
        [np.nan] * 2, nan_ok=True
    )


def test_the_naive_curve_is_the_click_rate_by_position():
    """Position 2 has 30 clicks of 300."""
    rows = [(0, 1, 100, 40), (0, 2, 100, 20), (1, 2, 200, 10)]

    naive = curve_of_rows(rows, method="naive")

    assert naive.factors.tolist() == pytest.approx([1.0, 0.25])
    assert curve_of_rows(rows).naive_factors.tolist() == pytest.approx([1.0, 0.25])
    assert naive.rates.tolist() == pytest.approx([0.4, 0.1])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_true_curve_is_found_where_better_ads_stand_higher(seed):
    """On a confounded log the likelihood gets every factor within four standard errors (clicks are
    Poisson), the naive curve misses each by a sixth of it or more, and too low."""
    drawn = SearchPlatform(queries=300, pages=30_000, seed=seed).draw()

    curve = ClickHistory.of(drawn.log).curve

    truth = np.array(TRUE_CURVE)
    errors = np.sqrt(1.0 / curve.clicks + 1.0 / curve.clicks[0])
    assert (np.abs(np.log(curve.factors / truth))[1:] < 4.0 * errors[1:]).all()
    assert (curve.naive_factors[1:] < truth[1:] * 5 / 6).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0, 0, 1, 0), r"positions\[1\] = 0: every position must be from 1 to 3"),
        ((0, 4, 1, 0), r"positions\[1\] = 4: every position must be from 1 to 3"),
        ((0, 1, 1, 2), r"clicks\[1\] = 2.0: more than impressions\[1\] = 1.0"),
        ((0, 1, -1, 0), r"impressions\[1\] = -1.0: every value must be finite and at least 0"),
        ((0.5, 1, 1, 0), r"pairs\[1\] = 0.5: every value must be a whole number"),
    ],
)
def test_bad_cells_are_named(row, message):
    """Column, row, value and rule."""
    with pytest.raises(ValueError, match=message):
        curve_of_rows([(0, 1, 1, 1), row], n_positions=3)


def test_an_unknown_method_lists_those_that_exist():
    """Named as it was given."""
    with pytest.raises(ValueError, match="method = 'em': must be one of mle, naive"):
        curve_of_rows([(0, 1, 1, 1)], method="em")
