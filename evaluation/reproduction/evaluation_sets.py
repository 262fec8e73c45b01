"""How the reported numbers of a synthetic regression vary with the evaluation set."""

from collections.abc import Mapping

import numpy as np

from calibrators.samples import Floats
from evaluation.reproduction.regression_quantities import QUANTITIES
from evaluation.reproduction.synthetic_regression import USED_BY, Regression
from evaluation.reproduction.training_rounds import Rounds


def quantities_over_sets(
    regression: Regression, sets: int, runs: int, seed: int
) -> Mapping[str, Floats]:
    """Each quantity on each of so many evaluation sets, (sets,), with one set of trained models.

    The bands of the experiments were measured so, over models trained several times.
    """
    rng = np.random.default_rng(seed)
    models = {name: regression.trained(rng, runs, used)[None] for name, used in USED_BY.items()}
    judged = [
        Rounds.judged(regression, regression.evaluation_rows(rng), models) for _ in range(sets)
    ]
    return {
        what: np.array([quantity(rounds) for rounds in judged])
        for what, quantity in QUANTITIES.items()
    }
