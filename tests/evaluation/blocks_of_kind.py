"""Hypothesis strategies for predictions in blocks, and what a draw of blocks is: rows repeated."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from evaluation.bootstrap.blocks import Blocks


@dataclass(frozen=True)
class BlockedRows:
    """Rows of few campaigns and days, with how often each of their blocks was drawn."""

    p: np.ndarray
    y: np.ndarray
    bids: np.ndarray
    campaigns: np.ndarray
    blocks: Blocks
    bias: np.ndarray
    drawn: np.ndarray

    @property
    def repeated(self):
        """Every row as often as its block was drawn, as indices."""
        return np.repeat(np.arange(len(self.p)), self.drawn.astype(int)[self.blocks.codes])

    @property
    def multiplicities(self):
        return self.drawn[np.newaxis, :]


FEW_SCORES = np.array([0.0, 0.001, 0.1, 0.25, 0.5, 1.0])


@st.composite
def blocked_rows(draw, min_size=1, max_size=60):
    """Rows drawn by a seed, which is much quicker than one by one; ties abound."""
    n = draw(st.integers(min_size, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    campaigns, days = rng.integers(0, 3, n), rng.integers(0, 4, n)
    blocks = Blocks.of(list(zip(campaigns.tolist(), days.tolist(), strict=True)))
    few = rng.random(n) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return BlockedRows(
        np.where(few, rng.choice(FEW_SCORES, n), rng.random(n)),
        (rng.random(n) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))).astype(float),
        rng.choice([0.0, 0.5, 1.0, 3.0], n),
        campaigns,
        blocks,
        rng.random(n) < draw(st.sampled_from([0.0, 0.3, 1.0])),
        rng.integers(0, 4, blocks.count).astype(float),
    )
