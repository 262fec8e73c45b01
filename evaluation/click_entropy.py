"""Entropy of a click rate: the log loss of one who knows the rate and nothing else."""

import numpy as np
from scipy.special import xlogy

from calibrators.samples import Floats


def click_entropy(positives: Floats, negatives: Floats) -> Floats:
    """Entropy in nats of each rate positives / (positives + negatives), in the arguments' shape.

    Both are at least 0. The entropy is 0 where there is one class only, nan where there is none.
    """
    with np.errstate(invalid="ignore"):
        # The rarer class, because 1 - x cannot tell a small x.
        rarer = np.minimum(positives, negatives) / (positives + negatives)
    entropy: Floats = -xlogy(rarer, rarer) - (1.0 - rarer) * np.log1p(-rarer)
    return entropy
