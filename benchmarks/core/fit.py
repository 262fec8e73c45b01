"""Fit of one campaign's map, in microseconds of CPU.

`from bins` is what the service does each hour: SIR from the bins of the window, beside scikit-
learn's IsotonicRegression on the same cells as weighted samples and on the raw samples. `from
raw samples` is the published algorithm beside scikit-learn, netcal and betacal on the same
samples. Scores are log-normal in odds, click rates about 2 %.

netcal and betacal run in environments of their own and time themselves; one that is expected to
take longer than 8 s, by its time for a tenth of the samples, is not run.

    python -m benchmarks fit [--json] [--write]
"""

from dataclasses import dataclass, field

import numpy as np

from benchmarks.figures import Cell, Figure, Table
from benchmarks.parts import Part
from benchmarks.peers.baselines import fitted
from benchmarks.peers.calibrator import PeerCalibrator, PeerFailed
from benchmarks.peers.environments import NotInstalled
from benchmarks.timing import BUDGET_SECONDS, interleaved
from calibrators import Bins, SmoothedIsotonic
from calibrators.samples import Floats

SEED = 5
METHODS = {"netcal": ("isotonic", "bbq", "beta"), "betacal": ("beta",)}
MOST_SECONDS = 8.0


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    binned: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    raw: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    peers: tuple[str, ...] = tuple(METHODS)
    budget_seconds: float = BUDGET_SECONDS


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each size of window: from its bins, and then from its raw samples."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng(SEED)
    rows: Table = {}
    for size in sizes.binned:
        rows[f"from bins of {size:,}"] = _from_bins(*window(size, rng), sizes.budget_seconds)
    peers = [_Peer(name, method) for name in sizes.peers for method in METHODS[name]]
    for size in sizes.raw:
        scores, outcomes = window(size, rng)
        rows[f"from {size:,} raw samples"] = {
            **_from_samples(scores, outcomes, sizes.budget_seconds),
            **{peer.column: peer.measure(scores, outcomes) for peer in peers},
        }
    return rows


def window(size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Scores and outcomes of a campaign whose click rates are distorted in log-odds."""
    log_odds = rng.normal(-4.0, 0.8, size)
    truth = 1 / (1 + np.exp(-(0.3 + 0.8 * (log_odds + 4.0) - 4.0)))
    return 1 / (1 + np.exp(-log_odds)), (rng.random(size) < truth).astype(np.float64)


def _from_bins(scores: Floats, outcomes: Floats, budget: float) -> dict[str, Cell]:
    bins, calibrator = Bins.from_samples(scores, outcomes), SmoothedIsotonic()
    seconds = interleaved(
        {
            "sirocco": lambda: calibrator.fit_bins(bins),
            "scikit-learn, same bins": lambda: fitted(*bins.samples()),
            "scikit-learn, raw": lambda: fitted(scores, outcomes),
        },
        budget,
    )
    figures = {name: figure.times(1e6) for name, figure in seconds.items()}
    return {"cells": len(bins.cells), **figures}


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


@dataclass
class _Peer:
    """One method of a library that lives in another environment."""

    library: str
    method: str
    _expected: float = field(default=0.0, init=False)
    _size: int = field(default=1, init=False)
    _reason: str = field(default="", init=False)

    @property
    def column(self) -> str:
        return f"{self.library}, {self.method}"

    def measure(self, scores: Floats, outcomes: Floats) -> Cell:
        """Its figure, or why there is none."""
        if self._reason:
            return self._reason
        expected = self._expected * len(scores) / self._size
        if expected > MOST_SECONDS:
            return f"over {MOST_SECONDS:.0f} s"
        try:
            with PeerCalibrator(self.library) as peer:
                taken = [
                    peer.fit(self.method, scores, outcomes, 3 * MOST_SECONDS)
                    for _ in range(5 if expected < 0.5 else 2)
                ]
        except (NotInstalled, PeerFailed) as error:
            self._reason = str(error)
            return self._reason
        # The first one pays for what is imported late.
        self._expected, self._size = min(taken), len(scores)
        return Figure.of(taken[1:]).times(1e6)


PART = Part("fit", "Fit of one campaign, microseconds of CPU", __doc__, measure)
