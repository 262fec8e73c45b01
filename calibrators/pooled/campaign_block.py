"""A block of campaigns during a fit: their cells, and their deviations so far."""

import numpy as np

from calibrators.pooled.cell_hours import CellHours, sums_by
from calibrators.pooled.cells import Cells
from calibrators.pooled.coordinates import Coordinates
from calibrators.pooled.knots import Knots
from calibrators.samples import Floats, Integers
from calibrators.scipy_functions import expit


class CampaignBlock:
    """Campaigns with their weighted cells and the coordinates of their deviations, (c, k).

    What every Newton step reads is kept, 36 bytes a cell; what the hours hold is packed.

    Attributes
    ----------
    campaigns : their names, (c,).
    hours : what their cells hold hour by hour.
    groups : the group of each campaign, (c,), -1 for none.
    log_odds : of the mean score of each cell, (m,).
    offsets : from the centre of all traffic to that of each campaign's own, by the positives that
        scores promise, in log-odds, (c,).
    values : coordinates of the deviations, (c, k).
    trust : in each campaign's level, (c,), see `Precisions`.
    """

    values: Floats

    def __init__(
        self,
        cells: Cells,
        coordinates: Coordinates,
        groups: Integers,
        values: Floats,
        weights: Floats,
    ) -> None:
        """With what their hours weigh, (c, h)."""
        self.campaigns: tuple[str, ...] = cells.campaigns
        self.hours: CellHours = cells.hours
        self.log_odds: Floats = cells.log_odds
        self.groups, self.values = groups, values
        self._coordinates = coordinates
        self._knots: Knots = coordinates.knots
        rows = cells.hours.rows
        before, self._after = self._knots.places(cells.log_odds)
        self._key = (rows * self._knots.count + before).astype(np.int32)
        self.offsets = self._centres(rows, cells.promised) - coordinates.centre
        self.trust: Floats = np.ones(len(cells))
        self.weigh(weights)

    def __len__(self) -> int:
        return len(self.campaigns)

    def weigh(self, weights: Floats) -> None:
        """Count each campaign's hours with these weights, (c, h), from now on."""
        self._counts, self._positives = self.hours.weighted(weights)

    def _centres(self, rows: Integers, promised: Floats) -> Floats:
        weights = promised + np.finfo(float).tiny
        total = sums_by(rows, weights, len(self))
        centres = sums_by(rows, weights * self.log_odds, len(self)) / total
        positions = self._knots.positions
        return np.clip(centres, positions[0], positions[-1])

    def probabilities(self, curves: Floats) -> Floats:
        """Of each cell, (m,), with the log odds ratio of each campaign at the knots, (c, k)."""
        return expit(self.log_odds + self.at_cells(curves))

    def at_cells(self, curves: Floats) -> Floats:
        """The curves, (c, k), at each cell, (m,)."""
        flat = curves.reshape(-1)
        before, after = flat[self._key], flat[self._key + 1]
        found: Floats = before + self._after * (after - before)
        return found

    def linearised(self, curves: Floats) -> tuple[Floats, Floats]:
        """Gradient, (c, k), and information, (c, k, k), of the binomial likelihood in the
        coordinates, when these are the log odds ratios."""
        p = self.probabilities(curves)
        residuals = self._positives - self._counts * p
        weights = self._counts * p * (1 - p)
        gradients = self.on_knots(residuals) @ self._coordinates.basis
        diagonal, beside = self._tridiagonal(weights)
        return gradients, self._coordinates.matrices(diagonal, beside)

    def information(self, curves: Floats) -> Floats:
        """Of the binomial likelihood about the log odds near each knot, (c, k)."""
        p = self.probabilities(curves)
        return self.on_knots(self._counts * p * (1 - p))

    def on_knots(self, amounts: Floats) -> Floats:
        """Amounts at the cells, (m,), shared between the knots around each, (c, k)."""
        behind = amounts * self._after
        size = len(self) * self._knots.count
        shared = sums_by(self._key, amounts - behind, size)
        shared += sums_by(self._key + 1, behind, size)
        return shared.reshape(-1, self._knots.count)

    def _tridiagonal(self, weights: Floats) -> tuple[Floats, Floats]:
        mixed = weights * (1 - self._after) * self._after
        diagonal = self.on_knots(weights) - self.on_knots_both(mixed)
        size = len(self) * self._knots.count
        beside = sums_by(self._key, mixed, size).reshape(-1, self._knots.count)
        return diagonal, beside[:, :-1]

    def on_knots_both(self, amounts: Floats) -> Floats:
        """Amounts at the cells, (m,), whole to each of both knots around, (c, k)."""
        size = len(self) * self._knots.count
        both = sums_by(self._key, amounts, size) + sums_by(self._key + 1, amounts, size)
        return both.reshape(-1, self._knots.count)

    def curvature_pull(self, curves: Floats, covariances: Floats) -> Floats:
        """Half the third derivative of the likelihood against these covariances, (c, k, k), as a
        gradient in the coordinates, (c, k)."""
        own, beside = self._coordinates.variances(covariances)
        at, key = self._after, self._key
        pairs = np.pad(beside, ((0, 0), (0, 1))).reshape(-1)[key]
        flat = own.reshape(-1)
        spread = (1 - at) ** 2 * flat[key] + 2 * at * (1 - at) * pairs + at**2 * flat[key + 1]
        p = self.probabilities(curves)
        third = self._counts * p * (1 - p) * (1 - 2 * p)
        return self.on_knots(-0.5 * third * spread) @ self._coordinates.basis
