"""A log whose scores are the truth, distorted in a way that is known."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import expit, logit

from calibrators.samples import Floats, Integers
from evaluation.event_table import EventTable
from evaluation.platform import PlatformHour

Distortion = Callable[[Floats], Floats]
"""Log-odds of the score, from those of the truth; both relative to the campaign's mean."""


def too_steep(deviation: Floats) -> Floats:
    """Affine: too high everywhere, and over-confident."""
    return 0.6 + deviation / 0.7


def inflated_top(deviation: Floats) -> Floats:
    """Not affine: nearly flat below, exploding above half a standard deviation or so."""
    return 0.4 * deviation + 1.8 * np.logaddexp(0.0, 4.0 * (deviation - 0.5)) / 4.0


DISTORTIONS: Mapping[str, Distortion] = {"affine": too_steep, "not affine": inflated_top}


def distorted(log: PlatformHour, distortion: Distortion) -> EventTable:
    """The same impressions and clicks with other scores; inside a campaign they rank the same.

    Examples
    --------
    >>> from evaluation.platform import Platform
    >>> log = Platform(campaigns=2, impressions_per_hour=1_000, seed=1).hour(0)
    >>> scores = distorted(log, too_steep).scores
    >>> bool(scores.mean() > log.truth.mean())
    True
    """
    log_odds, rows = logit(log.truth), log.events.rows.astype(np.int64)
    centres = _means(log_odds, rows)[rows]
    scores = expit(centres + distortion(log_odds - centres))
    events = log.events
    return EventTable(events.times, events.campaigns, events.rows, scores, events.outcomes)


def _means(values: Floats, rows: Integers) -> Floats:
    counts = np.maximum(np.bincount(rows), 1)
    return np.asarray(np.bincount(rows, values) / counts)
