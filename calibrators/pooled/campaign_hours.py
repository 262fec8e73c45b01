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
    begun : (c, h) in (0, 1], the probability that the last jump was no later than the hour, of
        which the weight is a part; never falling.
    groups : (c,), the group of each campaign counted from 0, or -1 for none.
    fitted, variances : (c,), the campaign's own level that is in the expected, a log ratio that
        these very hours may have told, and the variance that it had before they did, >= 0.
    """

    expected: Floats
    observed: Floats
    weights: Floats
    begun: Floats
    groups: Integers
    fitted: Floats
    variances: Floats

    @classmethod
    def checked(
        cls,
        expected: ArrayLike,
        observed: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        begun: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        fitted: ArrayLike | None = None,
        variances: ArrayLike | None = None,
    ) -> "CampaignHours":
        """The arrays as described; without weights every hour counts, without `begun` there was
        no jump, without groups there are none, without a level or variance it is 0. Raises
        ValueError on unequal shapes, or values that are out of range."""
        sums = _amounts("expected", expected, None)
        counts = _amounts("observed", observed, sums.shape)
        rows = np.full(len(sums), -1) if groups is None else np.asarray(groups, np.int64)
        if rows.shape != (len(sums),):
            raise ValueError(f"groups: has the shape {rows.shape}, not {(len(sums),)}")
        if rows.min(initial=-1) < -1:
            raise ValueError(f"groups: {rows.min()} is below -1")
        return cls(
            sums,
            counts,
            _shares("weights", weights, sums.shape),
            _begun(begun, sums.shape),
            rows,
            _by_campaign("fitted", fitted, len(sums), -np.inf),
            _by_campaign("variances", variances, len(sums), 0.0),
        )

    def chosen(self, hours: slice) -> "CampaignHours":
        """The same in some of the hours."""
        return self._replace(
            expected=self.expected[:, hours],
            observed=self.observed[:, hours],
            weights=self.weights[:, hours],
            begun=self.begun[:, hours],
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


def _begun(values: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    shares = _shares("begun", values, shape)
    if shares.size and (shares.min() <= 0 or (np.diff(shares, axis=1) < 0).any()):
        raise ValueError("begun: must be above 0 and never fall")
    return shares


def _shares(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    shares: Floats = np.broadcast_to(1.0 if values is None else np.asarray(values, float), shape)
    _amounts(name, shares, shape)
    if shares.size and shares.max() > 1:
        raise ValueError(f"{name}: {shares.max()} is above 1")
    return shares


def _by_campaign(name: str, values: ArrayLike | None, campaigns: int, least: float) -> Floats:
    array = np.zeros(campaigns) if values is None else np.asarray(values, np.float64)
    if array.shape != (campaigns,):
        raise ValueError(f"{name}: has the shape {array.shape}, not {(campaigns,)}")
    wrong = ~(np.isfinite(array) & (array >= least))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rule = "finite" if np.isinf(least) else f"finite and >= {least:g}"
        raise ValueError(f"{name}[{row}] = {array[row]}: must be {rule}")
    return array


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
