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
    prior : Q.
    """

    covariances: Floats
    steps: Floats
    prior: Precisions

    @classmethod
    def of(cls, gradients: Floats, information: Floats, prior: Precisions, values: Floats) -> Self:
        """From the data's gradients, (n, k), and information, (n, k, k), at these values."""
        inverse = np.linalg.inv(prior.plus(information))
        covariances = (inverse + inverse.transpose(0, 2, 1)) / 2
        steps = np.einsum("nij,nj->ni", covariances, gradients - _product(prior, values))
        return cls(covariances, steps, prior)

    @property
    def size(self) -> int:
        """Bytes."""
        prior = self.prior.diagonal.nbytes + self.prior.beside.nbytes
        return self.covariances.nbytes + self.steps.nbytes + prior

    @property
    def shrunk(self) -> Floats:
        """P Q, (n, k, k)."""
        shrunk: Floats = self.prior.times(self.covariances).transpose(0, 2, 1)
        return shrunk

    def told(self, values: Floats) -> tuple[Floats, Floats]:
        """What is left for the parents: with the values it was made from, (n, k), the gradients
        Q (x + step), (n, k), and the information Q - Q P Q = H - H P H, (n, k, k)."""
        left = self.prior.plus(-self.prior.times(self.shrunk))
        return _product(self.prior, values + self.steps), left

    def moved(self, parents: Floats) -> Floats:
        """The steps given those of the parents, (n, k)."""
        released = _product(self.prior, parents)
        moved: Floats = self.steps - parents + np.einsum("nij,nj->ni", self.covariances, released)
        return moved

    def own_covariances(self, parents: Floats) -> Floats:
        """Of the deviations, given the covariances of the parents' curves, (n or 1, k, k)."""
        released = np.eye(self.covariances.shape[1]) - self.shrunk
        spread: Floats = (released @ parents) @ released.transpose(0, 2, 1)
        return self.covariances + spread

    def curve_covariances(self, parents: Floats) -> Floats:
        """Of parent and deviation together, given the covariances of the parents' curves."""
        shrunk = self.shrunk
        spread: Floats = (shrunk @ parents) @ shrunk.transpose(0, 2, 1)
        return self.covariances + spread


def _product(prior: Precisions, values: Floats) -> Floats:
    return prior.times(values[:, :, None])[:, :, 0]
