"""The mean of weighted values."""

from calibrators.samples import Floats


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Mean of the values, (n,), by weights at least 0, (n,); nan without weight."""
    total = weights.sum()
    if total == 0.0:
        return float("nan")
    # Shares, because value times weight can leave the range of floats where the mean does not.
    return float((values * (weights / total)).sum())
