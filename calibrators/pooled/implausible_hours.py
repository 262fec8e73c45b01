"""Hours whose ratio no market gives: all clicks or none, a broken tracker, an attack."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats

FARTHEST = 9.0
"""A ratio farther than this factor from the campaign's median is implausible, however sure: the
square of the levels' bound."""

EVIDENCE = 12.5
"""In nats, half a Poisson deviance: five standard deviations."""

SPANS = (1, 2, 4, 8)
"""Hours that are judged together: where positives are few, an hour alone tells nothing."""

_MEDIAN_OF = 8
"""Hours of the spans over which the median is taken."""


def implausible_hours(expected: Floats, observed: Floats) -> NDArray[np.bool_]:
    """The hours, (c, h), from positives as ratios to the campaign's mean, (c, h).

    Spans of hours whose ratio is farther than `FARTHEST` from the median ratio of the campaign's
    spans, beyond chance; in them, the hours that are as far themselves. What lasts for half of the
    hours is the median, and so is believed.
    """
    if not expected.size:
        return np.zeros(expected.shape, bool)
    usual = expected * _usual(expected, observed)[:, None]
    far = _far(usual, observed)
    found = np.zeros_like(far)
    for span in SPANS:
        if span <= expected.shape[1]:
            e, y = _summed(usual, span), _summed(observed, span)
            found |= _covered(_far(e, y) & (_evidence(e, y) > EVIDENCE), span)
    return found & far


def _usual(expected: Floats, observed: Floats) -> Floats:
    """The median ratio of the spans with traffic, (c,), drawn to 1 where there is little."""
    span = min(_MEDIAN_OF, expected.shape[1])
    e, y = _summed(expected, span), _summed(observed, span)
    ratios = np.sort(np.where(e > 0, (y + 0.5) / (e + 0.5), np.inf), axis=1)
    spans = np.maximum((e > 0).sum(axis=1), 1)
    rows = np.arange(len(e))
    middle = (ratios[rows, (spans - 1) // 2] + ratios[rows, spans // 2]) / 2
    return np.where(np.isfinite(middle), middle, 1.0)


def _far(expected: Floats, observed: Floats) -> NDArray[np.bool_]:
    far: NDArray[np.bool_] = (observed > FARTHEST * expected) | (observed * FARTHEST < expected)
    return far


def _evidence(expected: Floats, observed: Floats) -> Floats:
    e, y = np.maximum(expected, 1e-12), np.maximum(observed, 1e-12)
    return y * np.log(y / e) - y + e


def _covered(spans: NDArray[np.bool_], span: int) -> NDArray[np.bool_]:
    """The hours of the spans that are marked, by their first hour."""
    hours = np.zeros((len(spans), spans.shape[1] + span - 1), dtype=bool)
    for first in range(span):
        hours[:, first : first + spans.shape[1]] |= spans
    return hours


def _summed(values: Floats, span: int) -> Floats:
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    return np.maximum(sums[:, span:] - sums[:, :-span], 0.0)
