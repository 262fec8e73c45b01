"""Log-odds of probabilities: the scale on which a bias is a plain shift."""

import numpy as np
from scipy.special import logit

from calibrators.samples import Floats
from evaluation.log_loss import EPSILON


def log_odds(p: Floats) -> Floats:
    """ln(p / (1 - p)) with p clipped to [1e-12, 1 - 1e-12], in p's shape: within 27.7 of 0."""
    odds: Floats = logit(np.clip(p, EPSILON, 1.0 - EPSILON))
    return odds
