"""Campaigns as integers: any hashable keys in, codes that arrays can be indexed by out."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Integers

Campaigns = Sequence[Hashable] | NDArray[Any]


def encode_campaigns(campaigns: Campaigns) -> tuple[list[Hashable], Integers]:
    """The distinct campaigns, and the index into them of every sample, shape (n,)."""
    if isinstance(campaigns, np.ndarray) and campaigns.dtype.kind in "iu" and campaigns.ndim == 1:
        return _encode_numbers(campaigns)
    keys = campaigns.tolist() if isinstance(campaigns, np.ndarray) else campaigns
    code_of = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    return list(code_of), np.fromiter(map(code_of.__getitem__, keys), np.int64, len(keys))


def _encode_numbers(numbers: NDArray[Any]) -> tuple[list[Hashable], Integers]:
    # Indices into a list of names are small: counting them spares a sort of all samples.
    if len(numbers) and numbers.min() >= 0 and numbers.max() < 2 * len(numbers):
        present = np.bincount(numbers.astype(np.int64, copy=False)) > 0
        codes = numbers if present.all() else (np.cumsum(present) - 1)[numbers]
        return list(np.flatnonzero(present).tolist()), codes
    distinct, codes = np.unique(numbers, return_inverse=True)
    return list(distinct.tolist()), codes
