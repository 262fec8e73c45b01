"""The mean of a metric over groups, and how much of the data it leaves out."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from calibrators.samples import Floats
from evaluation.weighted_mean import weighted_mean


def mean_of_defined(values: Floats, sizes: Floats) -> float:
    """Mean of the groups' values that are not nan, by the groups' sizes; both of shape (g,).

    nan when no group is left or those that are have no size.
    """
    kept = ~np.isnan(values)
    return weighted_mean(values[kept], sizes[kept])


def share_of_undefined(values: Floats, sizes: Floats) -> float:
    """Share of the sizes, shape (g,), in groups whose value is nan; nan when there is no size."""
    total = sizes.sum()
    return float(sizes[np.isnan(values)].sum() / total) if total > 0.0 else float("nan")


def defined_by_name(names: Sequence[Hashable], values: Floats) -> Mapping[Hashable, float]:
    """The value of each group, shape (g,), that has one."""
    kept = np.flatnonzero(~np.isnan(values)).tolist()
    return dict(zip(map(names.__getitem__, kept), values[kept].tolist(), strict=True))
