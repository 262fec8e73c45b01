"""How much the campaigns' delay curves differ, as the strength of a Dirichlet process."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import Floats

_PRIOR_STRENGTH: Final = 100.0
_PRIOR_CAMPAIGNS: Final = 2.0
_LARGEST: Final = 1e6


def curve_strength(curves: Floats, counts: NDArray[np.int64]) -> float:
    """The k for which (n_c F_c + k F) / (n_c + k) mixes a campaign's curve with that of all.

    Curves drawn from a Dirichlet process of strength k about F have Var F_c(t) = v F (1 - F) with
    v = 1 / (k + 1); counting n_c conversions adds (1 - v) F (1 - F) / n_c. With F the mean of the C
    curves by n_c and the integral of F (1 - F) dF = 1 / 6, the sum S of 6 n_c times the integral of
    (F_c - F)^2 dF has the mean

        (1 - v) (C - 1) + v (N - sum n_c^2 / N),  N = sum n_c,

    which is solved for v and averaged with a prior (k = 100) worth two more campaigns.

    Parameters
    ----------
    curves : (n_campaigns, t) distribution functions at common times, from (about) 0 to 1.
    counts : (n_campaigns,) conversions behind each, at least 1.

    Returns
    -------
    float
        k in (0, 1e6]; the prior's for fewer than two campaigns.

    References
    ----------
    DerSimonian and Laird (1986) for the moments; Ferguson (1973) for the process.
    """
    prior = 1.0 / (_PRIOR_STRENGTH + 1.0)
    others = max(len(counts) - 1, 0)
    found = _variance(curves, counts, others) if others else prior
    variance = (others * found + _PRIOR_CAMPAIGNS * prior) / (others + _PRIOR_CAMPAIGNS)
    return float(min(1.0 / variance - 1.0, _LARGEST))


def _variance(curves: Floats, counts: NDArray[np.int64], others: int) -> float:
    total = counts.sum()
    mean = counts @ curves / total
    steps = np.diff(mean)
    squares = (curves - mean) ** 2
    integrals = 0.5 * (squares[:, 1:] + squares[:, :-1]) @ steps
    spare = total - (counts**2).sum() / total - others
    if spare <= 0.0:
        return 1.0 / (_PRIOR_STRENGTH + 1.0)
    return float(np.clip((6.0 * counts @ integrals - others) / spare, 0.0, 1.0))
