"""What each sample adds to the log loss."""

import numpy as np

from calibrators.samples import Floats
from evaluation.log_loss import EPSILON


def sample_losses(p: Floats, positives: Floats, weights: Floats) -> Floats:
    """-(positives ln p + (weights - positives) ln(1 - p)) of every sample or run, (n,).

    `positives` are weight times outcome. Clipped as `log_loss` is.
    """
    clipped = np.clip(p, EPSILON, 1.0 - EPSILON)
    losses: Floats = -positives * np.log(clipped) - (weights - positives) * np.log1p(-clipped)
    return losses
