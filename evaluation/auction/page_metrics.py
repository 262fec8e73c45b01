"""The metrics of an auction: clicks, revenue and ads of an average page."""

import numpy as np

from calibrators.samples import Floats
from evaluation.auction.gsp import Auction
from evaluation.sums import sum_at

CLICK_METRICS = ("click_yield", "mainline_click_yield", "revenue_per_mille")
LOAD_METRICS = ("ads_per_page", "mainline_ads_per_page")
METRICS = CLICK_METRICS + LOAD_METRICS
_PER_MILLE = 1_000.0


def click_values(auction: Auction) -> dict[str, Floats]:
    """What a click in each slot, (k,), counts in each of the metrics of clicks."""
    above = auction.in_mainline.astype(np.float64)
    values = (np.ones(len(above)), above, _PER_MILLE * auction.cpcs)
    return dict(zip(CLICK_METRICS, values, strict=True))


def load_values(auction: Auction) -> dict[str, Floats]:
    """What each slot, (k,), counts in each of the metrics of load."""
    above = auction.in_mainline.astype(np.float64)
    return dict(zip(LOAD_METRICS, (np.ones(len(above)), above), strict=True))


def page_sums(auction: Auction, values: Floats) -> Floats:
    """Sum of the slots' values, (k,), over each page, (n_pages,)."""
    return sum_at(auction.pages.astype(np.int64), values, auction.n_pages)


def page_mean(values: Floats) -> float:
    """Mean over pages; nan without pages."""
    return float(values.mean()) if len(values) else float("nan")


def metrics_at(auction: Auction, rates: Floats) -> dict[str, float]:
    """Every metric of an auction whose slots are clicked at known rates, (k,)."""
    values = {name: each * rates for name, each in click_values(auction).items()}
    values |= load_values(auction)
    return {name: page_mean(page_sums(auction, each)) for name, each in values.items()}
