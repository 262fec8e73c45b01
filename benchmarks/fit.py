"""Fit of one campaign's map, in microseconds of CPU.

`from bins` is what the service does each hour: SIR from the bins of the window, beside scikit-
learn's IsotonicRegression on the same cells as weighted samples and on the raw samples. `from
raw samples` is the published algorithm beside scikit-learn on the same samples. Scores are log-
normal in odds, click rates about 2 %.

    python -m benchmarks.fit [--json]
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figure, Table
from benchmarks.isotonic import fitted
from benchmarks.parts import Part, main
from benchmarks.timing import BUDGET_SECONDS, interleaved
from calibrators import Bins, SmoothedIsotonic
from calibrators.samples import Floats

SEED = 5


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    samples: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    budget_seconds: float = BUDGET_SECONDS


def measure(sizes: Sizes | None = None) -> Table:
    """Two rows for each size of window: from its bins, and from its raw samples."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng(SEED)
    rows: Table = {}
    for size in sizes.samples:
        scores, outcomes = window(size, rng)
        bins = Bins.from_samples(scores, outcomes)
        rows[f"from bins of {size:,}"] = {
            "cells": len(bins.cells),
            **_from_bins(bins, scores, outcomes, sizes.budget_seconds),
        }
        rows[f"from {size:,} raw samples"] = _from_samples(scores, outcomes, sizes.budget_seconds)
    return rows


def window(size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Scores and outcomes of a campaign whose click rates are distorted in log-odds."""
    log_odds = rng.normal(-4.0, 0.8, size)
    truth = 1 / (1 + np.exp(-(0.3 + 0.8 * (log_odds + 4.0) - 4.0)))
    return 1 / (1 + np.exp(-log_odds)), (rng.random(size) < truth).astype(np.float64)


def _from_bins(bins: Bins, scores: Floats, outcomes: Floats, budget: float) -> dict[str, Figure]:
    calibrator = SmoothedIsotonic()
    seconds = interleaved(
        {
            "sirocco": lambda: calibrator.fit_bins(bins),
            "scikit-learn, same bins": lambda: fitted(*bins.samples()),
            "scikit-learn, raw": lambda: fitted(scores, outcomes),
        },
        budget,
    )
    return {name: figure.times(1e6) for name, figure in seconds.items()}


def _from_samples(scores: Floats, outcomes: Floats, budget: float) -> dict[str, Figure]:
    calibrator = SmoothedIsotonic()
    seconds = interleaved(
        {
            "sirocco": lambda: calibrator.fit(scores, outcomes),
            "scikit-learn, raw": lambda: fitted(scores, outcomes),
        },
        budget,
    )
    return {name: figure.times(1e6) for name, figure in seconds.items()}


PART = Part("fit", "Fit of one campaign, microseconds of CPU", __doc__, measure)

if __name__ == "__main__":
    main(PART)
