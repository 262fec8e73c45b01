"""One level of a tree of normal nodes: what its data tell the level above, and back."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.pooled.priors import Precisions
from calibrators.samples import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Eliminated:
    """Nodes solved for given their parents: one block of an arrowhead system.

    Each node adds its own deviation x to its parent's curve. With the gradient r and the
    information H of its data, and prior precision Q, the Newton system of parent and child is
    [. H; H, H + Q]; its Schur complement is what remains for the parent.

    Attributes
    ----------
    covariances : P = (H + Q)^-1, (n, k, k).
    steps : P (r - Q x), the node's step were its parent's 0, (n, k).
    shrunk : P Q, (n, k, k).
    gradients : Q (x + step), for the parent, (n, k).
    information : Q - Q P Q = H - H P H, for the parent, (n, k, k).
    """

    covariances: Floats
    steps: Floats
    shrunk: Floats
    gradients: Floats
    information: Floats

    @classmethod
    def of(cls, gradients: Floats, information: Floats, prior: Precisions, values: Floats) -> Self:
        """From the data's gradients, (n, k), and information, (n, k, k), at these values."""
        inverse = np.linalg.inv(prior.plus(information))
        covariances = (inverse + inverse.transpose(0, 2, 1)) / 2
        penalty = prior.times(values[:, :, None])[:, :, 0]
        steps = np.einsum("nij,nj->ni", covariances, gradients - penalty)
        upwards = prior.times((values + steps)[:, :, None])[:, :, 0]
        shrunk = prior.times(covariances).transpose(0, 2, 1)
        left = prior.plus(-prior.times(shrunk))
        return cls(covariances, steps, shrunk, upwards, left)

    def moved(self, parents: Floats) -> Floats:
        """The steps given those of the parents, (n, k)."""
        moved: Floats = self.steps - parents + np.einsum("nij,nj->ni", self.shrunk, parents)
        return moved

    def own_covariances(self, parents: Floats) -> Floats:
        """Of the deviations, given the covariances of the parents' curves, (n or 1, k, k)."""
        size = self.shrunk.shape[1]
        released = np.eye(size) - self.shrunk
        spread: Floats = (released @ parents) @ released.transpose(0, 2, 1)
        return self.covariances + spread

    def curve_covariances(self, parents: Floats) -> Floats:
        """Of parent and deviation together, given the covariances of the parents' curves."""
        spread: Floats = (self.shrunk @ parents) @ self.shrunk.transpose(0, 2, 1)
        return self.covariances + spread
