"""Reserves for a wanted ad load, and the operating point a log was made at."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.auction.gsp import OperatingPoint, Ranking, SlotLayout, held_auction
from evaluation.auction.search_platform import SearchPlatform
from evaluation.auction.simulation import placement_agreement, point_at_load, point_in_force
from tests.evaluation.auction.auctions_of_kind import logs

LAYOUT = SlotLayout(2, 2)


def ranked(*pages):
    """A ranking of pages given as lists of rank scores."""
    numbers = np.repeat(np.arange(len(pages), dtype=np.int32), [len(page) for page in pages])
    bids = np.array([score for page in pages for score in page])
    ones = np.ones(len(bids))
    return Ranking(numbers, bids, ones, 1.0, LAYOUT, len(pages))


def load(ranking, point, layout=LAYOUT):
    """Ads shown, and ads shown in the mainline, over all pages."""
    shown = held_auction(ranking, layout, point)
    return len(shown.rows), int(shown.in_mainline.sum())


@pytest.mark.parametrize("wanted", range(7))
def test_any_mainline_load_is_met_where_no_scores_tie(wanted):
    """Six ads could stand in the mainlines of three pages."""
    ranking = ranked([9, 5, 3, 1], [8, 2], [7, 6, 4])

    point = point_at_load(ranking, LAYOUT, wanted / 3)

    # The second page has no third ad, so 2 + 2 + 2 is what the mainlines hold at most.
    assert load(ranking, point)[1] == wanted


@given(logs(), st.floats(0.0, 3.0))
def test_no_other_mainline_reserve_comes_nearer(drawn, wanted):
    """Of all thresholds that make a difference: those at a rank score, and just above it."""
    log, _, scores = drawn
    ranking = log.ranking(scores, 1.0)
    count = round(wanted * log.n_pages)

    point = point_at_load(ranking, LAYOUT, wanted)

    scores = ranking.rank_scores.tolist()
    thresholds = [0.0, *scores, *np.nextafter(scores, np.inf)]
    loads = [load(ranking, OperatingPoint(1.0, 0.0, each))[1] for each in thresholds]
    assert abs(load(ranking, point)[1] - count) == min(abs(each - count) for each in loads)


def test_ties_go_to_the_nearer_side():
    """Three ads tie at 5, so 1 and 2 are out of reach: 1 is nearer to none, 2 to all three."""
    ranking = ranked([5, 1], [5, 1], [5, 1])

    loads = [load(ranking, point_at_load(ranking, LAYOUT, n / 3))[1] for n in (1, 2)]

    assert loads == [0, 3]


def test_all_ads_per_page_are_matched_by_the_reserve():
    """Three in the mainlines, five in all."""
    ranking = ranked([9, 5, 3, 1], [8, 2, 1.5], [7, 6, 4])

    point = point_at_load(ranking, LAYOUT, 3 / 3, ads_per_page=5 / 3)

    assert load(ranking, point) == (5, 3)
    assert point == OperatingPoint(1.0, 5.0, 7.0)


def test_a_load_out_of_reach_needs_no_reserve():
    """Every ad that has a place is shown."""
    ranking = ranked([9, 5, 3, 1], [8])

    assert point_at_load(ranking, LAYOUT, 4.0, ads_per_page=9.0) == OperatingPoint(1.0)


def test_a_given_reserve_stays():
    """What it drops cannot stand in the mainline."""
    ranking = ranked([9, 5, 3, 1], [8, 2])

    point = point_at_load(ranking, LAYOUT, 2.0, reserve=4.0)

    assert (point.reserve, load(ranking, point)) == (4.0, (3, 3))


def test_without_ads_there_is_nothing_to_match():
    """No reserve at all."""
    nothing = Ranking(np.empty(0, np.int32), np.empty(0), np.empty(0), 1.0, LAYOUT, 0)

    assert point_at_load(nothing, LAYOUT, float("nan"), ads_per_page=1.0) == OperatingPoint(1.0)


@pytest.mark.parametrize("reserve", [0.0, 0.05])
def test_the_point_of_a_log_is_recovered(reserve):
    """From its ads per page alone, to the same placements."""
    drawn = SearchPlatform(queries=20, pages=500, seed=2).draw()
    ranking = drawn.log.ranking(drawn.scores, 1.0)
    point = OperatingPoint(1.0, reserve, max(drawn.point.mainline_reserve, 0.09))
    shown = held_auction(ranking, drawn.log.layout, point)
    positions = np.zeros(len(drawn.log), np.int32)
    positions[shown.rows] = shown.slots
    log = replace(drawn.log, positions=positions)

    found = point_in_force(log, ranking)

    again = held_auction(ranking, log.layout, found)
    assert placement_agreement(log, again) == 1.0
    assert len(again.rows) == len(shown.rows)


def test_what_is_given_of_the_point_stays():
    """The mainline reserve is matched unless it is given; the reserve, when neither is."""
    drawn = SearchPlatform(queries=20, pages=500, seed=2).draw()
    log, ranking = drawn.log, drawn.log.ranking(drawn.scores, 1.0)

    both = point_in_force(log, ranking, reserve=0.01, mainline_reserve=0.02)
    only_above = point_in_force(log, ranking, mainline_reserve=0.02)
    only_all = point_in_force(log, ranking, reserve=0.01)

    assert both == OperatingPoint(1.0, 0.01, 0.02)
    assert only_above == OperatingPoint(1.0, 0.0, 0.02)
    assert only_all == OperatingPoint(1.0, 0.01, drawn.point.mainline_reserve)


def test_agreement_counts_impressions_in_the_same_slot():
    """Nothing shown: nothing to agree on."""
    drawn = SearchPlatform(queries=20, pages=500, seed=2).draw()
    shown = held_auction(
        drawn.log.ranking(drawn.scores, 1.0), drawn.log.layout, OperatingPoint(1.0, 0.0, 99.0)
    )

    nowhere = replace(drawn.log, positions=np.zeros(len(drawn.log), np.int32))

    assert placement_agreement(drawn.log, shown) < 0.2
    assert np.isnan(placement_agreement(nowhere, shown))
