"""The strong alternative: one boosted model of the past day over all campaigns, every hour; and the
rows of the past day, which models are trained on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Self

import lightgbm
import numpy as np
from scipy.special import expit, logit

from calibrators.bins.table import History
from calibrators.samples import Floats, Integers
from evaluation.metrics.calibration import sample_losses
from research.leaderboard.method import Predictor

HOURS: Final = 24
"""Hours that models are trained on, as all per-campaign methods are."""

_LOWEST_SCORE = 1e-9


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
    found: Floats = logit(np.clip(scores, _LOWEST_SCORE, 1.0 - _LOWEST_SCORE))
    return found


ROUNDS: Final = (20, 40, 80, 160)
"""Numbers of rounds it chooses between."""

PARAMETERS: Final[Mapping[str, Any]] = {
    "objective": "cross_entropy",
    "num_leaves": 15,
    "learning_rate": 0.05,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 10.0,
    "lambda_l2": 5.0,
    "min_data_per_group": 1,
    "cat_smooth": 50.0,
    "cat_l2": 30.0,
    "max_cat_threshold": 8,
    "deterministic": True,
    "num_threads": 1,
    "seed": 0,
    "verbosity": -1,
}
"""The best of some sixty settings on the regimes "mixed", "steps" and "sparse" (seed 0), by the
truth, which only helps it. Cells are rows with weights, so leaves are bounded by curvature."""

_FIRST_CHOICE_HOURS = 6


class BoostedMaps:
    """LightGBM on the log-odds of the score and the campaign, from the scores' own log-odds on.

    How many rounds serve is chosen by the log loss that each number has had so far on the hour
    after it was trained; first of all, by the 6 hours before the first refit.
    """

    name = "lightgbm"
    note = "refitted hourly on 24 h; its settings were chosen with knowledge of the truth"

    def __init__(self) -> None:
        self._booster: lightgbm.Booster | None = None
        self._fitted_at = 0
        self._losses = np.zeros(len(ROUNDS))

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        """See `LeaderboardMethod`."""
        behind = ceil(history.as_of)
        if self._booster is None:
            self._train(history, campaigns, behind - _FIRST_CHOICE_HOURS)
        self._compare(CellRows.between(history, campaigns, self._fitted_at, behind))
        self._train(history, campaigns, behind)
        return self._serving(ROUNDS[int(self._losses.argmin())])

    def _train(self, history: History, campaigns: tuple[str, ...], behind: int) -> None:
        cells = CellRows.between(history, campaigns, behind - HOURS, behind)
        self._fitted_at = behind
        self._booster = None
        if cells.outcomes.any():
            self._booster = lightgbm.train(dict(PARAMETERS), _data(cells), ROUNDS[-1])

    def _compare(self, cells: CellRows) -> None:
        for place, rounds in enumerate(ROUNDS):
            p = self._serving(rounds)(cells.rows, cells.scores)
            positives = cells.weights * cells.outcomes
            self._losses[place] += sample_losses(p, positives, cells.weights).sum()

    def _serving(self, rounds: int) -> Predictor:
        booster = self._booster

        def predict(rows: Integers, scores: Floats) -> Floats:
            if booster is None or not len(rows):
                return scores
            moved = booster.predict(_features(rows, scores), raw_score=True, num_iteration=rounds)
            probabilities: Floats = expit(log_odds(scores) + np.asarray(moved))
            return probabilities

        return predict


def _data(cells: CellRows) -> lightgbm.Dataset:
    return lightgbm.Dataset(
        _features(cells.rows, cells.scores),
        label=cells.outcomes,
        weight=cells.weights,
        init_score=log_odds(cells.scores),
        categorical_feature=[1],
        params={"verbosity": -1, "num_threads": 1, "min_data_in_bin": 1, "max_bin": 255},
    )


def _features(rows: Integers, scores: Floats) -> Floats:
    return np.column_stack((log_odds(scores), rows.astype(np.float64)))
