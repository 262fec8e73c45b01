"""Hours of traffic and atlases for the guard's tests."""

from collections.abc import Mapping

import numpy as np
from scipy.special import expit, logit

from calibrators import Atlas, BinsTable, CalibrationMap

SCORES = np.geomspace(0.002, 0.08, 12)
KNOTS = np.concatenate(([0.0], np.geomspace(1e-3, 0.5, 20), [1.0]))


def shifted(shift: float) -> CalibrationMap:
    """The map that adds so much to the log-odds of a score."""
    return CalibrationMap(KNOTS, np.concatenate(([0.0], expit(logit(KNOTS[1:-1]) + shift), [1.0])))


def atlas(shifts: Mapping[str, float], target: float | None = 0.0) -> Atlas:
    """The atlas of shifts by campaign and of the target's; None is the identity."""
    maps = {name: shifted(shift) for name, shift in shifts.items()}
    return Atlas.build(maps, None if target is None else shifted(target))


def hour(truths: Mapping[str, float], impressions: int, seed: int = 0) -> BinsTable:
    """Impressions by score of each campaign, clicks drawn by the shift that is true of it."""
    rng = np.random.default_rng(seed)
    names = list(truths)
    probabilities = np.stack([expit(logit(SCORES) + shift) for shift in truths.values()])
    clicks = rng.binomial(impressions, probabilities).astype(np.float64)
    rows = np.repeat(np.arange(len(names)), len(SCORES))
    counts = np.full(len(rows), float(impressions))
    return BinsTable.from_columns(names, rows, np.tile(SCORES, len(names)), counts, clicks.ravel())


def exactly(truths: Mapping[str, float], impressions: int) -> BinsTable:
    """As many clicks as are expected, fractions of them included."""
    names = list(truths)
    clicks = [impressions * expit(logit(SCORES) + shift) for shift in truths.values()]
    rows = np.repeat(np.arange(len(names)), len(SCORES))
    counts = np.full(len(rows), float(impressions))
    scores = np.tile(SCORES, len(names))
    return BinsTable.from_columns(names, rows, scores, counts, np.concatenate(clicks))
