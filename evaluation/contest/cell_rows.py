"""The past day as weighted rows: what contenders with models of their own are trained on."""

from dataclasses import dataclass
from math import ceil
from typing import Final, Self

import numpy as np
from scipy.special import logit

from calibrators.history import History
from calibrators.samples import Floats, Integers

HOURS: Final = 24
"""Hours that models are trained on, as all per-campaign contenders are."""

_LOWEST = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class CellRows:
    """Campaign, mean score, mean outcome and weight of each cell of a window, (n,) each."""

    rows: Integers
    scores: Floats
    outcomes: Floats
    weights: Floats

    @classmethod
    def of(cls, history: History, campaigns: tuple[str, ...]) -> Self:
        """The cells of the 24 hours before the history's moment."""
        behind = ceil(history.as_of)
        return cls.between(history, campaigns, behind - HOURS, behind)

    @classmethod
    def between(cls, history: History, campaigns: tuple[str, ...], first: int, behind: int) -> Self:
        """The cells of the hours [first, behind); rows point at the campaigns."""
        places = {name: row for row, name in enumerate(campaigns)}
        rows, columns = [np.empty(0, np.int64)], [np.empty((3, 0))]
        for window in history.windows(first, behind):
            *means, owners = window.samples()
            known = np.array([places[name] for name in window.campaigns], np.int64)
            rows.append(known[owners])
            columns.append(np.stack(means))
        return cls(np.concatenate(rows), *np.hstack(columns))


def log_odds(scores: Floats) -> Floats:
    """Log-odds of the scores, (n,), those of 0 and 1 made finite."""
    found: Floats = logit(np.clip(scores, _LOWEST, 1.0 - _LOWEST))
    return found
