"""Products of targets evaluated as one: what their probabilities add up to over impressions, beside
the conversions that are expected of the clicks of the same hours.

Factors that are calibrated each need not have a calibrated product: see docs/composite-targets.md.
"""

from collections.abc import Mapping
from math import ceil, floor, pi, sqrt
from typing import Any, Final

import numpy as np

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage import keys
from app.storage.bins import BinsStore
from app.worker.relabelling import RelabelledClicks
from calibrators.samples import Floats

Report = dict[str, Any]

_SUMS: Final = ("trials", "predicted", "variance", "clicks", "positives")
_MATERIAL: Final = 0.05
"""As for PCOC of targets: less than this is no fault, whatever the traffic."""
_FLOORS: Final = 5
"""Floors, four standard deviations: 16,000 looks at what is right have one beyond them."""
_EVALUATED: Final = ("evaluated_until", "hour", "window", "off")


def evaluated_products(
    bins: BinsStore, settings: Settings, target: str, recent: RelabelledClicks
) -> dict[str, Report]:
    """How the products of which this delayed target tells what came do, by name, over the whole
    hours that the relabelled clicks are of."""
    names = [name for name in settings.products if settings.evaluated_by(name) == target]
    return {name: _evaluated(bins, name, recent) for name in names}


def products_report(settings: Settings, targets: Mapping[str, Any]) -> dict[str, Any]:
    """What a version's report says of products, given what it says of targets."""
    products: dict[str, Report] = {}
    for name, factors in settings.products.items():
        source = settings.evaluated_by(name)
        found = targets.get(source or "", {}).get("products", {}).get(name, {})
        evaluated = {field: found.get(field) for field in _EVALUATED}
        products[name] = {"factors": list(factors), "evaluated_by": source, **evaluated}
    return {"products": products}


def _evaluated(bins: BinsStore, name: str, recent: RelabelledClicks) -> Report:
    first, behind = (
        ceil(recent.span[0] / SECONDS_PER_HOUR),
        floor(recent.span[1] / SECONDS_PER_HOUR),
    )
    # Trials may have begun, or bins ended, within an hour: one behind another with trials is whole.
    trials = _trials(bins, name, first - 1, behind)
    whole = (trials[1:, 0] > 0) & (trials[:-1, 0] > 0)
    hours = np.hstack([trials[1:], _conversions(recent, first, behind)]) * whole[:, None]
    window = hours.sum(axis=0)
    return {
        "evaluated_until": float(behind * SECONDS_PER_HOUR),
        "hour": _row(hours[-1]) if len(hours) else None,
        "window": _row(window),
        "off": _is_off(window) if window[0] else None,
    }


def _trials(bins: BinsStore, name: str, first: int, behind: int) -> Floats:
    """Number, sum and variance of the probabilities of each hour, (hours, 3)."""
    found = np.zeros((behind - first, 3))
    for block in bins.history(keys.product(name), first, behind):
        for hour, table in block.items():
            p, _, n, _ = table.samples()
            found[hour - first] += n.sum(), (n * p).sum(), (n * p * (1 - p)).sum()
    return found


def _conversions(recent: RelabelledClicks, first: int, behind: int) -> Floats:
    """Number of clicks of each hour, and conversions that are expected of them, (hours, 2)."""
    hours = np.floor(recent.clicks.clicks.clicked_at / SECONDS_PER_HOUR).astype(np.int64) - first
    chosen = (hours >= 0) & (hours < behind - first)
    counts = [
        np.bincount(hours[chosen], weights, minlength=behind - first)
        for weights in (None, recent.labels[chosen])
    ]
    return np.array(counts, np.float64).T


def _row(sums: Floats) -> Report | None:
    """What is reported of some hours; None without trials."""
    found = dict(zip(_SUMS, sums.tolist(), strict=True))
    if not found["trials"]:
        return None
    predicted, positives = found["predicted"], found["positives"]
    variance = found.pop("variance")
    return {
        **found,
        "pcoc": predicted / positives if positives else None,
        "pcoc_floor": sqrt(2 / pi * variance) / predicted if predicted else None,
    }


def _is_off(window: Floats) -> bool:
    """Whether the sum of a window is off by more than chance explains, and than matters."""
    _, predicted, variance, _, positives = window.tolist()
    by_chance = _FLOORS * sqrt(2 / pi * variance)
    return bool(abs(predicted - positives) > max(by_chance, _MATERIAL * predicted))
