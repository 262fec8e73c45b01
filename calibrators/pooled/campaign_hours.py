"""Expected and observed positives of campaigns by hour: what levels and drift learn from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, Integers

SHORTEST = 1 / 12
"""Hours: a running hour that began less than five minutes ago is left out. Its last impressions
wait for their clicks still, and are too large a part of it."""


class CampaignHours(NamedTuple):
    """Positives of c campaigns in h hours, oldest hour first.

    Attributes
    ----------
    expected : (c, h), the sum of the probabilities that the shape gives, finite, >= 0.
    observed : (c, h), positives, finite, >= 0, may be fractional.
    weights : (c, h) in [0, 1], what each hour counts.
    groups : (c,), the group of each campaign counted from 0, or -1 for none.
    """

    expected: Floats
    observed: Floats
    weights: Floats
    groups: Integers

    @classmethod
    def checked(
        cls,
        expected: ArrayLike,
        observed: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> "CampaignHours":
        """The arrays as described; without weights every hour counts, without groups there are
        none. Raises ValueError on unequal shapes, or values that are out of range."""
        sums = _amounts("expected", expected, None)
        counts = _amounts("observed", observed, sums.shape)
        hour_weights = np.ones(sums.shape) if weights is None else np.asarray(weights, np.float64)
        _amounts("weights", np.broadcast_to(hour_weights, sums.shape), sums.shape)
        if hour_weights.size and hour_weights.max() > 1:
            raise ValueError(f"weights: {hour_weights.max()} is above 1")
        rows = np.full(len(sums), -1) if groups is None else np.asarray(groups, np.int64)
        if rows.shape != (len(sums),):
            raise ValueError(f"groups: has the shape {rows.shape}, not {(len(sums),)}")
        if rows.min(initial=-1) < -1:
            raise ValueError(f"groups: {rows.min()} is below -1")
        return cls(sums, counts, np.broadcast_to(hour_weights, sums.shape), rows)

    def chosen(self, hours: slice) -> "CampaignHours":
        """The same in some of the hours."""
        return self._replace(
            expected=self.expected[:, hours],
            observed=self.observed[:, hours],
            weights=self.weights[:, hours],
        )


def check_ages(ages: ArrayLike, hours: int | None = None) -> Floats:
    """Hours from the middle of each hour to the moment, (h,), oldest first; 0 where negative.

    Raises ValueError when they are not finite, do not descend, or are not `hours` many.
    """
    checked = np.asarray(ages, np.float64)
    if checked.ndim != 1 or (hours is not None and len(checked) != hours):
        raise ValueError(f"ages: has the shape {checked.shape}, not ({hours},)")
    if not np.isfinite(checked).all() or not (np.diff(checked) < 0).all():
        raise ValueError("ages: must be finite and descend, the oldest hour first")
    return np.maximum(checked, 0.0)


def complete_hours(ages: Floats) -> slice:
    """The hours without one that has only just begun; see `SHORTEST`."""
    begun = len(ages) and 2 * ages[-1] < SHORTEST - 1e-9
    return slice(0, len(ages) - int(begun))


def starts(ages: Floats) -> Floats:
    """Hours from the start of each hour to the moment, (h,); the newest may be part-filled."""
    return ages + np.minimum(ages, 0.5)


def _amounts(name: str, values: ArrayLike, shape: tuple[int, ...] | None) -> Floats:
    array = np.asarray(values, np.float64)
    if array.ndim != 2 or (shape is not None and array.shape != shape):
        raise ValueError(
            f"{name}: has the shape {array.shape}, not {shape or '(campaigns, hours)'}"
        )
    wrong = ~((array >= 0) & (array < np.inf))
    if wrong.any():
        row, hour = np.argwhere(wrong)[0]
        raise ValueError(f"{name}[{row}, {hour}] = {array[row, hour]}: must be finite and >= 0")
    return array
