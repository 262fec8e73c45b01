"""Which samples a bias is fitted on, and which it is judged on."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import check_equal_lengths

Mask = NDArray[np.bool_]


def bias_split(held: Mask, bias_rows: ArrayLike | None, share: float, seed: int) -> Mask:
    """Mask of the rows, (n,), that the bias is fitted on; all of them are among those held, (n,).

    Given `bias_rows` it is those. Otherwise `share` of the held rows, at least one and not all, is
    drawn by the seed. The draw looks at places only, so models judged on the same rows in the same
    order are split alike. Fewer than two rows cannot be split: none is drawn.
    """
    if bias_rows is not None:
        return held & _check_mask(bias_rows, held)
    if not 0.0 < share < 1.0:
        raise ValueError(f"bias_share = {share}: must be between 0 and 1")
    rows = np.flatnonzero(held)
    drawn = np.zeros(len(held), bool)
    if len(rows) > 1:
        size = min(max(round(share * len(rows)), 1), len(rows) - 1)
        drawn[np.random.default_rng(seed).permutation(rows)[:size]] = True
    return drawn


def _check_mask(bias_rows: ArrayLike, held: Mask) -> Mask:
    mask = np.asarray(bias_rows)
    if mask.size and mask.dtype != bool:
        raise ValueError(f"bias_rows must be True or False for every row, not {mask.dtype}")
    if mask.ndim != 1:
        raise ValueError(f"bias_rows must have one dimension, not {mask.ndim}")
    check_equal_lengths(probabilities=held, bias_rows=mask)
    return mask.astype(bool, copy=False)
