"""Boosted trees by LightGBM: trained to a text, loaded from a checked text, evaluated.

LightGBM is imported where it is first called: it costs 50 MB, and most processes that import this
package never hold a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pccem.arrays import Floats
from pccem.model_text import trimmed

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

# Sixteen leaves and a hundred rounds score 400,000 clicks a second on one core, twice as many as
# 31 leaves, with the same log loss on a day that was held out.
LEAVES: Final = 16
ROUNDS: Final = 100
LEARNING_RATE: Final = 0.1
# A column of many categories that mean nothing takes a third of the gain at LightGBM's own 10.
CATEGORY_PULL: Final = 200.0
PATIENCE: Final = 20


@dataclass(frozen=True, slots=True)
class Boosting:
    """How to boost: rounds at most, the seed, and threads (0: all cores)."""

    rounds: int = ROUNDS
    seed: int = 0
    num_threads: int = 0

    def parameters(self) -> dict[str, object]:
        """LightGBM's parameters; the same rows in the same order give the same trees by them,
        whatever the number of threads."""
        return {
            "objective": "binary",
            "metric": "binary_logloss",
            "num_leaves": LEAVES,
            "learning_rate": LEARNING_RATE,
            "min_data_in_leaf": 100,
            "min_sum_hessian_in_leaf": 1.0,
            "lambda_l2": 1.0,
            "cat_smooth": CATEGORY_PULL,
            "cat_l2": CATEGORY_PULL,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "seed": self.seed,
            "num_threads": self.num_threads,
            "verbosity": -1,
        }


def dataset(
    matrix: Floats,
    outcomes: Floats,
    categorical: Sequence[int],
    boosting: Boosting,
    reference: "Dataset | None" = None,
) -> "Dataset":
    """LightGBM's own form of the rows, one byte a value; it keeps no reference to the matrix.

    Parameters
    ----------
    matrix : (n, columns) numbers, nan where missing.
    outcomes : (n,) 0 or 1.
    categorical : places of the columns that hold codes.
    boosting : the parameters that training will use.
    reference : what to take the bins of values from, for rows that are held out.

    Raises ValueError without a row.
    """
    if not len(matrix):
        raise ValueError("matrix: has no rows, trees need one at least")
    import lightgbm

    return lightgbm.Dataset(
        matrix,
        outcomes,
        reference=reference,
        feature_name=[f"column_{place}" for place in range(matrix.shape[1])],
        categorical_feature=list(categorical),
        params=boosting.parameters(),
    ).construct()


def boosted(fitted_on: "Dataset", held_out: "Dataset | None", boosting: Boosting) -> str:
    """The trees' text; with rows held out, up to the round that predicts those best."""
    import lightgbm

    booster = lightgbm.train(
        boosting.parameters(),
        fitted_on,
        num_boost_round=boosting.rounds,
        valid_sets=None if held_out is None else [held_out],
        callbacks=None if held_out is None else [lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    return trimmed(booster.model_to_string(num_iteration=booster.best_iteration or -1))


def loaded(text: str) -> "Booster":
    """The trees of a text that `check_model_text` has let pass."""
    import lightgbm

    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"model text: LightGBM refuses it: {error}") from error


def log_odds(booster: "Booster", matrix: Floats, num_threads: int) -> Floats:
    """What the trees add up to for each of the rows, (n,)."""
    if not len(matrix):
        # LightGBM refuses them.
        return np.empty(0)
    sums = booster.predict(matrix, raw_score=True, num_iteration=-1, num_threads=num_threads)
    return np.asarray(sums, np.float64)
