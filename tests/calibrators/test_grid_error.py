"""How far SIR from the cells of the grid is from SIR on the raw samples."""

import numpy as np
import pytest
from scipy.special import expit, logit

from calibrators import Bins, SmoothedIsotonic
from calibrators.bins.bins import GRID, WeightedSamples
from calibrators.methods.equal_frequency import (
    ScoreBins,
    bins_of_cells,
    equal_frequency_starts,
    running_sums,
)
from calibrators.samples import Floats

SIR = SmoothedIsotonic(1000, prior_strength=0)


def campaign(seed: int) -> tuple[Floats, Floats]:
    """Distinct scores and outcomes, at click rates of 0.5 to 8 %."""
    rng = np.random.default_rng(seed)
    size = int(np.exp(rng.uniform(np.log(5_000), np.log(100_000))))
    rates = expit(rng.normal(logit(rng.uniform(0.005, 0.08)), 0.8, size))
    noisy = logit(rates) * rng.uniform(0.8, 1.2) + rng.normal(0, 0.3) + rng.normal(0, 0.3, size)
    return np.unique(expit(noisy)), (rng.random(size) < rates).astype(np.float64)


def raw_bins(scores: Floats, outcomes: Floats) -> ScoreBins:
    data = WeightedSamples.from_samples(scores, outcomes)
    columns = (data.scores, data.scores, data.weights, data.scores, data.positives)
    return ScoreBins(*columns).pooled(equal_frequency_starts(data.weights, SIR.bin_size))


@pytest.mark.parametrize("seed", range(6))
def test_a_bin_differs_by_the_positives_of_its_cut_cells_and_one_cell_of_score(seed):
    scores, outcomes = campaign(seed)
    raw, bins = raw_bins(scores, outcomes), Bins.from_samples(scores, outcomes)
    ends = np.array([0, len(bins.cells)])
    cut = bins_of_cells(GRID, bins.cells, bins.samples(), ends, SIR.bin_size).bins
    assert cut.weights.tolist() == raw.weights.tolist()

    reached = running_sums(np.array([bins.counts / 1e9]), ends)[0]
    at_cut = np.searchsorted(reached, np.cumsum(raw.weights)[:-1])
    inside = np.concatenate(([0.0], bins.positives[at_cut] / 1e9, [0.0]))

    assert (np.abs(cut.positives - raw.positives) <= inside[:-1] + inside[1:] + 1e-6).all()
    assert np.abs(cut.mean_scores / raw.mean_scores - 1).max() <= 2.0**-7


def test_probabilities_differ_by_half_a_percent_in_the_median():
    """The figures of docs/calibration.md."""
    found = []
    for seed in range(20):
        scores, outcomes = campaign(seed)
        places = np.quantile(scores, np.linspace(0.01, 0.99, 99))
        raw = SIR.fit(scores, outcomes)(places)
        from_cells = SIR.fit_bins(Bins.from_samples(scores, outcomes))(places)
        found.append(np.abs(from_cells[raw > 0] / raw[raw > 0] - 1))

    errors = np.concatenate(found)
    assert np.median(errors) < 0.007
    assert np.quantile(errors, 0.99) < 0.1
