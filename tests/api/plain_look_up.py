"""The calibration map in plain Python: the reference that answers are compared with."""

from calibrators import Atlas


def probability(atlas: Atlas, campaign: str, score: float) -> float:
    """By the map that serves the campaign: on the line between the knots around the score."""
    served = atlas.map_of(campaign)
    knots, values = served.knots.tolist(), served.values.tolist()
    for left in range(len(knots) - 1):
        if knots[left] <= score <= knots[left + 1]:
            share = (score - knots[left]) / (knots[left + 1] - knots[left])
            return float(values[left] + share * (values[left + 1] - values[left]))
    raise AssertionError(f"{score} lies between no knots")
