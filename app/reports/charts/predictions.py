"""Charts of predictions beside what happened: where, when and for whom they were right."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import ratios_by_name_chart, ratios_over_time_chart
from app.reports.page import Chart
from app.results.scored_events import ScoredEvents
from calibrators.samples import Floats, Integers, sum_at
from evaluation import ReliabilityDiagram, reliability_diagram, score_quantiles
from evaluation.metrics.reliability import wilson_interval

_MOST_BINS, _FEWEST_BINS, _POSITIVES_PER_BIN = 12, 3, 25.0
_QUANTILES: Final = 10
_LEAST_POSITIVES: Final = 30
_CONFIDENCE: Final = 0.95
_FEW_LEFT_OUT: Final = (
    f" Campaigns with fewer than {_LEAST_POSITIVES} positives are left out: chance alone moves"
    " them by a fifth and more. The largest stand first."
)


def reliability_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """What happened beside what was predicted, in groups of equal size."""
    return reliability_chart({name: diagram_of(scored, name) for name in names})


def diagram_of(scored: ScoredEvents, name: str) -> ReliabilityDiagram:
    """The diagram of one prediction, with as many groups as its positives allow."""
    events = scored.events
    bins = float(events.positives.sum()) / _POSITIVES_PER_BIN
    return reliability_diagram(
        scored.predictions[name],
        events.outcomes,
        int(np.clip(bins, _FEWEST_BINS, _MOST_BINS)),
        sample_weight=events.weights,
    )


def quantiles_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """The error from low scores to high, and where the loss is."""
    events = scored.events
    bins = int(np.clip(events.positives.sum() / _POSITIVES_PER_BIN, _FEWEST_BINS, _QUANTILES))
    return quantile_chart(
        {
            name: score_quantiles(
                scored.predictions[name], events.outcomes, bins, sample_weight=events.weights
            )
            for name in names
        }
    )


def hours_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """PCOC hour by hour; a band of what chance explains around the last of them."""
    events = scored.events
    hours, places = np.unique(events.hours, return_inverse=True)
    actual = sum_at(places, events.positives, len(hours))
    counts = sum_at(places, events.counts, len(hours))
    predicted = {name: _predicted_sums(scored, name, places, len(hours)) for name in names}
    ratios = {name: _ratios(sums, actual) for name, sums in predicted.items()}
    last = names[-1]
    low, high = wilson_interval(np.minimum(actual / counts, 1.0), counts, _CONFIDENCE)
    return ratios_over_time_chart(
        hours,
        ratios,
        lower={last: _ratios(predicted[last], counts * high)},
        upper={last: _ratios(predicted[last], counts * low)},
    )


def campaigns_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """PCOC of the campaigns that have enough positives."""
    shown, ratios = largest_campaigns(scored, names)
    return ratios_by_name_chart(
        shown,
        ratios,
        caption="Right of 1 more was predicted than happened, left of it less." + _FEW_LEFT_OUT,
    )


def largest_campaigns(
    scored: ScoredEvents, names: Sequence[str], most: int | None = None
) -> tuple[list[str], dict[str, Floats]]:
    """The campaigns with enough positives, those with most traffic first, (k,), and their PCOC by
    each of the predictions `names`, (k,)."""
    events, size = scored.events, len(scored.events.campaigns)
    rows = events.rows.astype(np.int64)
    actual = sum_at(rows, events.positives, size)
    by_traffic = np.argsort(-sum_at(rows, events.counts, size), kind="stable")
    shown = by_traffic[actual[by_traffic] >= _LEAST_POSITIVES][:most]
    ratios = {name: _ratios(_predicted_sums(scored, name, rows, size), actual) for name in names}
    return (
        [events.campaigns[row] for row in shown],
        {name: found[shown] for name, found in ratios.items()},
    )


def _predicted_sums(scored: ScoredEvents, name: str, places: Integers, size: int) -> Floats:
    weighted = scored.events.counts * scored.predictions[name]
    return sum_at(places, weighted, size)


def _ratios(predicted: Floats, actual: Floats) -> Floats:
    ratios: Floats = np.full(len(actual), np.nan)
    return np.divide(predicted, actual, out=ratios, where=actual > 0.0)
