"""Many small neural networks trained side by side, each for one epoch in its own order."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrators.samples import Floats

_BATCH = 128
_FIRST_DECAY, _SECOND_DECAY, _TINY = 0.9, 0.999, 1e-8
"""Of Adam (Kingma and Ba, 2015), at the values that its authors recommend."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained.

    Attributes
    ----------
    hidden : units of the one hidden layer, rectified.
    features : columns of the data that the network sees; all unless given.
    rate : learning rate of Adam.
    penalty : of the squared weights, biases excepted.
    """

    hidden: int = 32
    features: tuple[int, ...] | None = None
    rate: float = 0.01
    penalty: float = 0.0

    def seen(self, inputs: Floats) -> Floats:
        """The columns that the network sees."""
        return inputs if self.features is None else inputs[:, self.features]


def one_epoch_probabilities(
    recipe: Recipe,
    inputs: Floats,
    outcomes: Floats,
    asked: Floats,
    nets: int,
    rng: np.random.Generator,
) -> Floats:
    """What each of `nets` networks of one recipe says of the rows asked, shape (nets, m).

    The networks differ in their initial weights and in the order of the (n, d) inputs, in batches
    of 128; `asked` is (m, d).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> inputs = rng.normal(size=(20_000, 2))
    >>> bought = (inputs[:, 0] > 0).astype(float)
    >>> p = one_epoch_probabilities(Recipe(8), inputs, bought, np.array([[2, 0], [-2, 0]]), 3, rng)
    >>> p.shape, bool((p[:, 0] > 0.8).all()), bool((p[:, 1] < 0.2).all())
    ((3, 2), True, True)
    """
    inputs, asked = recipe.seen(inputs), recipe.seen(asked)
    weights = _Weights.draw(nets, inputs.shape[1], recipe.hidden, rng)
    adam = _Adam.of(weights.arrays, recipe.rate)
    for rows in _batches(nets, len(inputs), rng):
        adam.step(weights.arrays, weights.gradients(inputs[rows], outcomes[rows], recipe.penalty))
    return weights.probabilities(np.broadcast_to(asked, (nets, *asked.shape)))


def _batches(nets: int, n: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Rows of each network's next batch, (nets, batch); the rest of the division is left out."""
    orders = rng.permuted(np.tile(np.arange(n), (nets, 1)), axis=1)
    for first in range(0, n - n % _BATCH, _BATCH):
        yield orders[:, first : first + _BATCH]


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Of all networks: (nets, d, h), (nets, 1, h), (nets, h, 1) and (nets, 1, 1)."""

    arrays: tuple[Floats, Floats, Floats, Floats]

    @classmethod
    def draw(cls, nets: int, d: int, h: int, rng: np.random.Generator) -> "_Weights":
        first = rng.normal(0.0, np.sqrt(2.0 / d), (nets, d, h))
        second = rng.normal(0.0, np.sqrt(1.0 / h), (nets, h, 1))
        return cls((first, np.zeros((nets, 1, h)), second, np.zeros((nets, 1, 1))))

    def probabilities(self, x: Floats) -> Floats:
        """Of rows (nets, m, d), shape (nets, m)."""
        return self._forward(x)[1][..., 0]

    def gradients(self, x: Floats, y: Floats, penalty: float) -> tuple[Floats, ...]:
        """Of the mean log loss of a batch, with the penalty."""
        first, _, second, _ = self.arrays
        active, p = self._forward(x)
        wrong = (p - y[..., None]) / x.shape[1]
        back = (wrong @ second.transpose(0, 2, 1)) * (active > 0.0)
        return (
            x.transpose(0, 2, 1) @ back + penalty * first,
            back.sum(axis=1, keepdims=True),
            active.transpose(0, 2, 1) @ wrong + penalty * second,
            wrong.sum(axis=1, keepdims=True),
        )

    def _forward(self, x: Floats) -> tuple[Floats, Floats]:
        first, first_bias, second, second_bias = self.arrays
        active = np.maximum(x @ first + first_bias, 0.0)
        return active, expit(active @ second + second_bias)


@dataclass(slots=True, eq=False)
class _Adam:
    """The moving means of the gradients and of their squares."""

    rate: float
    means: list[Floats]
    squares: list[Floats]
    steps: int = 0

    @classmethod
    def of(cls, arrays: tuple[Floats, ...], rate: float) -> "_Adam":
        means, squares = ([np.zeros_like(array) for array in arrays] for _ in range(2))
        return cls(rate, means, squares)

    def step(self, arrays: tuple[Floats, ...], gradients: tuple[Floats, ...]) -> None:
        """Move the arrays, in place."""
        self.steps += 1
        rate = self.rate * np.sqrt(1.0 - _SECOND_DECAY**self.steps)
        rate /= 1.0 - _FIRST_DECAY**self.steps
        columns = zip(arrays, gradients, self.means, self.squares, strict=True)
        for array, gradient, mean, square in columns:
            mean += (1.0 - _FIRST_DECAY) * (gradient - mean)
            square += (1.0 - _SECOND_DECAY) * (gradient**2 - square)
            array -= rate * mean / (np.sqrt(square) + _TINY)
