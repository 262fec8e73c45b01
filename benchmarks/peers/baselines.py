"""The obvious alternatives for one campaign: scikit-learn's isotonic regression, numpy.interp."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrators import CalibrationMap
from calibrators.samples import Floats

if TYPE_CHECKING:
    from sklearn.isotonic import IsotonicRegression


def fitted(scores: Floats, outcomes: Floats, weights: Floats | None = None) -> "IsotonicRegression":
    """scikit-learn's regression as one would use it for probabilities."""
    # Here, because every server that is measured imports this file, and one alone predicts by it:
    # scikit-learn would be half of the start of all others, and part of their memory.
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    return model.fit(scores, outcomes, sample_weight=weights)


def models_of(maps: Mapping[str, CalibrationMap]) -> dict[str, "IsotonicRegression"]:
    """Models that predict what the maps say."""
    return {name: fitted(m.knots, m.values) for name, m in maps.items()}


def interpolated(
    maps: Mapping[str, CalibrationMap], campaigns: Sequence[str], scores: Floats
) -> Floats:
    """A mixed batch by one numpy.interp per campaign in it."""
    probabilities = np.empty(len(scores))
    for campaign, places in places_of(campaigns).items():
        found = maps[campaign]
        probabilities[places] = np.interp(scores[places], found.knots, found.values)
    return probabilities


def predicted(
    models: Mapping[str, "IsotonicRegression"], campaigns: Sequence[str], scores: Floats
) -> Floats:
    """A mixed batch by one prediction of scikit-learn's per campaign in it."""
    probabilities = np.empty(len(scores))
    for campaign, places in places_of(campaigns).items():
        probabilities[places] = models[campaign].predict(scores[places])
    return probabilities


def places_of(campaigns: Sequence[str]) -> dict[str, list[int]]:
    """Where in the batch each campaign stands."""
    places: dict[str, list[int]] = {}
    for place, campaign in enumerate(campaigns):
        places.setdefault(campaign, []).append(place)
    return places
