"""What a refit leaves for the next one to start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.pooled.coordinates import Coordinates
from calibrators.pooled.knots import Knots
from calibrators.pooled.shape import Shape
from calibrators.pooled.tree import Priors
from calibrators.samples import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Priors, and curves at the knots: the target's, (1, k), and the deviations of groups, (g, k),
    and of campaigns, (c, k), with the row of each by name."""

    knots: Knots
    priors: Priors
    target: Floats
    groups: Mapping[str, int]
    group_curves: Floats
    campaigns: Mapping[str, int]
    campaign_curves: Floats

    @classmethod
    def of(cls, shape: Shape, groups: Sequence[str]) -> Self:
        """Of a fitted shape."""
        basis = shape.coordinates.basis
        names = [name for block in shape.blocks for name in block.campaigns]
        values = np.vstack([np.empty((0, len(basis))), *(block.values for block in shape.blocks)])
        return cls(
            shape.coordinates.knots,
            shape.priors,
            (shape.tree.target @ basis.T)[None],
            {name: row for row, name in enumerate(groups)},
            shape.tree.groups @ basis.T,
            {name: row for row, name in enumerate(names)},
            values @ basis.T,
        )

    @classmethod
    def nothing(cls, knots: Knots) -> Self:
        """What is known before the first refit."""
        none = np.empty((0, knots.count))
        return cls(knots, Priors(), np.zeros((1, knots.count)), {}, none, {}, none)

    def target_in(self, coordinates: Coordinates) -> Floats:
        """The target's coordinates, (k,)."""
        target: Floats = self._in(coordinates, self.target)[0]
        return target

    def groups_in(self, coordinates: Coordinates, names: Sequence[str]) -> Floats:
        """The groups' coordinates, (g, k), 0 for one that is new."""
        return self._of(coordinates, self.group_curves, self.groups, names)

    def campaigns_in(self, coordinates: Coordinates, names: Sequence[str]) -> Floats:
        """The campaigns' coordinates, (c, k), 0 for one that is new."""
        return self._of(coordinates, self.campaign_curves, self.campaigns, names)

    def _of(
        self,
        coordinates: Coordinates,
        curves: Floats,
        known: Mapping[str, int],
        names: Sequence[str],
    ) -> Floats:
        rows = np.array([known.get(name, -1) for name in names], np.int64)
        found = np.zeros((len(names), coordinates.knots.count))
        found[rows >= 0] = self._in(coordinates, curves[rows[rows >= 0]])
        return found

    def _in(self, coordinates: Coordinates, curves: Floats) -> Floats:
        return coordinates.of_curves(self.knots.moved(curves, coordinates.knots))
