"""Wilson's interval: how far off a rate of few samples may be."""

from scipy.special import ndtri

from calibrators.samples import Floats


def wilson_interval(rates: Floats, weights: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Lower and upper ends of each rate's interval.

    Parameters
    ----------
    rates : (n,) observed shares in [0, 1].
    weights : (n,) numbers of samples that each was observed on, above 0.
    confidence : coverage of the intervals, between 0 and 1.

    Raises
    ------
    ValueError
        When the confidence is not between 0 and 1.

    References
    ----------
    Wilson, Journal of the American Statistical Association 22 (1927).

    Examples
    --------
    >>> import numpy as np
    >>> lower, upper = wilson_interval(np.array([0.2]), np.array([100.0]), 0.95)
    >>> lower.round(4), upper.round(4)
    (array([0.1334]), array([0.2888]))
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    z = float(ndtri(0.5 + confidence / 2.0))
    shrink = 1.0 / (1.0 + z**2 / weights)
    centre = shrink * (rates + z**2 / (2.0 * weights))
    half = shrink * z * ((rates * (1.0 - rates) / weights + (z / (2.0 * weights)) ** 2) ** 0.5)
    return (centre - half).clip(min=0.0), (centre + half).clip(max=1.0)
