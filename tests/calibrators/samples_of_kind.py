"""Random samples of every awkward kind, with an exact twin for the oracle."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """Scores, outcomes and weights, (n,) each, as the product sees them; `exact` for the oracle."""

    scores: Floats
    outcomes: Floats
    weights: Floats

    @property
    def exact(self) -> list[tuple[Fraction, Fraction, Fraction]]:
        columns = (self.scores.tolist(), self.outcomes.tolist(), self.weights.tolist())
        return [(Fraction(x), Fraction(y), Fraction(w)) for x, y, w in zip(*columns, strict=True)]


Draw = Callable[[np.random.Generator, int], Floats]

SCORES: dict[str, Draw] = {
    "continuous": lambda rng, n: rng.random(n),
    "tied": lambda rng, n: rng.integers(0, 6, n) / 8,
    "skewed": lambda rng, n: rng.beta(0.3, 20, n),
    "constant": lambda rng, n: np.full(n, rng.choice([0.0, 0.1, 0.5, 1.0])),
    "edges": lambda rng, n: rng.choice([0.0, 0.25, 1.0], n),
    "two": lambda rng, n: rng.choice([0.2, 0.9], n),
}
OUTCOMES: dict[str, Draw] = {
    "clicks": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.15).astype(float),
    "none": lambda rng, n: np.zeros(n),
    "all": lambda rng, n: np.ones(n),
    "eighths": lambda rng, n: rng.integers(0, 9, n) / 8,
    "expected": lambda rng, n: rng.random(n),
}
WEIGHTS: dict[str, Draw] = {
    "ones": lambda rng, n: np.ones(n),
    "whole": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "quarters": lambda rng, n: rng.integers(0, 9, n) / 4,
    "any": lambda rng, n: rng.random(n),
}


def draw(rng: np.random.Generator, largest: int = 40) -> Drawn:
    """Samples of random kinds, at least one of them with a weight."""
    n = int(rng.choice([1, 2, 3, int(rng.integers(1, largest + 1))]))
    kinds = (list(table.values()) for table in (SCORES, OUTCOMES, WEIGHTS))
    scores, outcomes, weights = (kind[rng.integers(len(kind))](rng, n) for kind in kinds)
    weights[rng.integers(n)] += 1.0
    return Drawn(scores, outcomes, weights)


random_samples = st.builds(lambda seed: draw(np.random.default_rng(seed)), st.integers(0, 2**32))
