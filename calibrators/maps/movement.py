"""By how much the maps of one atlas differ from those of another."""

from typing import Final

import numpy as np

from calibrators.maps.atlas import Atlas
from calibrators.samples import Floats, Integers

SCORES: Final = np.geomspace(1e-4, 0.9, 25)
"""Where maps are compared: from rare clicks to near certainty, a quarter apart or so."""
_NEAREST: Final = 1e-9
"""Probabilities nearer to 0 or 1 count as so far away: their odds would be infinite."""


class MapMovement:
    """What serves each campaign that either atlas has a map of, sorted by name, shapes (c,): the
    score at which its odds differ most, the probabilities there, and by how much the logarithms of
    their odds differ, with the sign of the change. Row c is everybody else: the shared map."""

    def __init__(self, before: Atlas, after: Atlas) -> None:
        """From what serves by one atlas to what serves by the other, at `SCORES`."""
        self.campaigns = tuple(sorted({*before.campaigns, *after.campaigns}))
        was, now = (np.append(atlas.rows(self.campaigns), 0) for atlas in (before, after))
        most = [np.zeros(len(was)) for _ in range(4)]
        for score in SCORES.tolist():
            # One score of all campaigns at a time, so that memory does not grow by the scores.
            scores = np.full(len(was), score)
            probabilities = before.look_up(was, scores), after.look_up(now, scores)
            change = _log_odds(probabilities[1]) - _log_odds(probabilities[0])
            further = np.abs(change) > np.abs(most[3])
            for found, new in zip(most, (scores, *probabilities, change), strict=True):
                found[further] = new[further]
        self.scores, self.before, self.after, self.log_odds = most

    @property
    def moved(self) -> Integers:
        """Rows of the campaigns whose probabilities differ, the largest difference first, ties by
        name."""
        sizes = np.abs(self.log_odds[:-1])
        order = np.argsort(-sizes, kind="stable")
        return order[: np.count_nonzero(sizes)]


def _log_odds(probabilities: Floats) -> Floats:
    clipped = np.clip(probabilities, _NEAREST, 1.0 - _NEAREST)
    return np.asarray(np.log(clipped / (1.0 - clipped)))
