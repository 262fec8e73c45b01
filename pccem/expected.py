"""Expected conversions: what clicks count as before their attribution window is over."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pccem.arrays import Floats, check_equal_lengths, check_flags, check_unit_interval

Mode = Literal["posterior", "paper"]


def expected_conversions(
    p: ArrayLike,
    converted: ArrayLike,
    seen_share: ArrayLike | None = None,
    *,
    mode: Mode = "posterior",
) -> Floats:
    """The outcome that each click is expected to end with.

    `paper`: the model's probability p, whatever has been seen. `posterior`: a conversion that has
    been seen is 1; a click that has not converted after the time in which a share F of all
    conversions comes is, by Bayes' rule,

        P(converts later | not yet) = p (1 - F) / (1 - p F),

    which falls from p at F = 0 to 0 at F = 1. This holds the delay to be independent of p among
    clicks that convert.

    Parameters
    ----------
    p : (n,) probabilities of a conversion inside the attribution window, in [0, 1].
    converted : (n,) booleans, whether a conversion has been seen.
    seen_share : (n,) share of conversions that have come by the click's age, in [0, 1]; only mode
        "posterior" reads it, and needs it.
    mode : "posterior" or "paper".

    Returns
    -------
    Floats
        (n,) in [0, 1].

    Raises
    ------
    ValueError
        When a value breaks its rule, the columns differ in length, or the share is missing.

    References
    ----------
    Deng et al. (paper 004), Algorithm 2 for `paper`; `posterior` is ours.

    Examples
    --------
    >>> expected_conversions([0.5, 0.5, 0.5], [True, False, False], [0.5, 0.5, 1.0]).round(4)
    array([1.    , 0.3333, 0.    ])
    >>> expected_conversions([0.5, 0.5], [True, False], mode="paper")
    array([0.5, 0.5])
    """
    probabilities = check_unit_interval("p", p)
    seen = check_flags("converted", converted)
    check_equal_lengths(p=len(probabilities), converted=len(seen))
    if mode == "paper":
        return probabilities.copy()
    if mode != "posterior":
        raise ValueError(f"mode = {mode!r}: must be 'posterior' or 'paper'")
    if seen_share is None:
        raise ValueError("seen_share = None: mode 'posterior' needs it")
    share = check_unit_interval("seen_share", seen_share)
    check_equal_lengths(p=len(probabilities), seen_share=len(share))
    return np.where(seen, 1.0, _still_to_come(probabilities, share))


def _still_to_come(p: Floats, share: Floats) -> Floats:
    unseen = 1.0 - p * share
    # Sure to convert and out of time: 0 / 0. What was seen, nothing, wins over what was promised.
    still: Floats = np.divide(p * (1.0 - share), unseen, out=np.zeros_like(p), where=unseen > 0.0)
    return np.minimum(still, 1.0, out=still)
