"""Strategies: pages of candidates with ties, zeros and gaps, and logs of them."""

import numpy as np
from hypothesis import strategies as st

from evaluation.auction.gsp import SlotLayout
from evaluation.auction.search_log import SearchLog

BID_VALUES = [0.0, 0.5, 1.0, 1.0, 2.0, 3.25]
SCORE_VALUES = [0.0, 1e-3, 0.02, 0.05, 0.1, 0.1, 0.4, 1.0]
BIDS, SCORES = st.sampled_from(BID_VALUES), st.sampled_from(SCORE_VALUES)
THRESHOLDS = st.sampled_from([0.0, 0.0, 0.02, 0.05, 0.1, 0.4, 2.0])
ALPHAS = st.sampled_from([0.0, 0.5, 1.0, 1.5])


@st.composite
def candidates(draw, max_pages=4, max_ads=6):
    """Lists pages, bids, scores, ads: each page with different ads, rows in any order."""
    rows = []
    for page in range(draw(st.integers(0, max_pages))):
        ads = draw(st.lists(st.integers(0, 9), unique=True, max_size=max_ads))
        rows += [(page, draw(BIDS), draw(SCORES), ad) for ad in ads]
    rows = draw(st.permutations(rows))
    return tuple([list(column) for column in zip(*rows, strict=True)] or [[], [], [], []])


@st.composite
def layouts(draw):
    """Small pages; one block may be empty."""
    mainline = draw(st.integers(0, 3))
    return SlotLayout(mainline, draw(st.integers(0 if mainline else 1, 3)))


@st.composite
def logs(draw, max_pages=8):
    """A log of few queries and ads, so that pairs and cells repeat; its rows as a dict, and scores.

    Drawn from one seed: a log has far too many values to be drawn one by one.
    """
    layout = SlotLayout(2, 2)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = []
    for page in range(draw(st.integers(1, max_pages))):
        ads = rng.permutation(4)[: rng.integers(1, 5)]
        slots = rng.permutation([1, 2, 3, 4, 0, 0, 0])
        query = rng.integers(0, 2)
        rows += [
            (page, query, ad, slot, bool(slot) and rng.random() < 0.4, rng.choice(BID_VALUES))
            for ad, slot in zip(ads, slots, strict=False)
        ]
    names = ("pages", "queries", "ads", "positions", "clicks", "bids")
    columns = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    scores = rng.choice(SCORE_VALUES, len(rows))
    return SearchLog.of(**columns, layout=layout), columns, scores
