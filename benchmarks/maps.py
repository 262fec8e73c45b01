"""Calibration maps for the benchmarks: about as many knots as a day of a campaign gives."""

import numpy as np

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import MapColumns

KNOTS = 40
LOWEST_SCORE = 1e-4


def campaign_names(count: int) -> list[str]:
    """Names as an ad platform has them."""
    return [f"campaign-{number}" for number in range(count)]


def random_maps(count: int, seed: int) -> dict[str, CalibrationMap]:
    """Monotone maps of `count` campaigns, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return {name: _random_map(rng) for name in campaign_names(count)}


def random_scores(count: int, rng: np.random.Generator) -> list[float]:
    """Log-uniform scores, as many at 0.0005 as at 0.5."""
    scores: list[float] = np.exp(rng.uniform(np.log(LOWEST_SCORE), 0.0, count)).tolist()
    return scores


def _random_map(rng: np.random.Generator) -> CalibrationMap:
    inner = np.unique(random_scores(KNOTS, rng))
    knots = np.concatenate(([0.0], inner, [1.0]))
    return CalibrationMap(knots, np.sort(rng.random(len(knots))))


def random_atlas(count: int, seed: int) -> Atlas:
    """Such maps of `count` campaigns and no map of the target, without an object for each."""
    rng = np.random.default_rng(seed)
    inner = np.exp(rng.uniform(np.log(LOWEST_SCORE), 0.0, (count, KNOTS)))
    inner.sort(axis=1)
    knots = np.hstack((np.zeros((count, 1)), inner, np.ones((count, 1))))
    values = rng.random(knots.shape)
    values.sort(axis=1)
    identity = np.array([0.0, 1.0])
    maps = MapColumns(
        np.append(len(identity), np.full(count, KNOTS + 2)),
        np.append(identity, knots),
        np.append(identity, values),
    )
    return Atlas.of_columns(sorted(campaign_names(count)), maps, has_target_map=False)
