"""The functions of scipy that fits need, imported at their first call: an API process looks up and
never fits, and importing scipy would be a third of its start.
"""

import numpy as np

from calibrators.samples import Floats, Integers


def expit(log_odds: Floats) -> Floats:
    """1 / (1 + exp(-x)) of each value."""
    from scipy import special

    probabilities: Floats = special.expit(log_odds)
    return probabilities


def ndtr(values: Floats) -> Floats:
    """The chance that a standard normal variable is below each value."""
    from scipy import special

    chances: Floats = special.ndtr(values)
    return chances


def betaln(a: Floats, b: Floats) -> Floats:
    """Logarithm of the beta function of each pair."""
    from scipy import special

    logarithms: Floats = special.betaln(a, b)
    return logarithms


def gammaincinv(a: Floats, chance: float) -> Floats:
    """Below what a gamma variable of each shape stays with the probability."""
    from scipy import special

    return np.asarray(special.gammaincinv(a, chance), np.float64)


def isotonic_regression(values: Floats, weights: Floats) -> tuple[Floats, Integers]:
    """Weighted isotonic regression: the fitted values, and where each pool starts."""
    from scipy import optimize

    found = optimize.isotonic_regression(values, weights=weights)
    return found.x, found.blocks[:-1].astype(np.int64)
