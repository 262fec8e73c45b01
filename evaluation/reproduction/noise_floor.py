"""What GC-N is for the truth itself, by chance alone."""

from dataclasses import replace

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.gc_n import CampaignRuns
from evaluation.predictions import Predictions


def gc_n_floor(
    p: Floats, campaigns: Integers, n: int, *, rng: np.random.Generator, draws: int = 20
) -> float:
    """Mean GC-N of the probabilities, shape (k,), over outcomes drawn from them.

    Two values of GC-N that differ by less cannot be told apart.

    Examples
    --------
    >>> p, campaigns = np.linspace(0.05, 0.15, 4_000), np.arange(4_000) % 2
    >>> 0.05 < gc_n_floor(p, campaigns, 2, rng=np.random.default_rng(0)) < 0.15
    True
    """
    runs = CampaignRuns.of(Predictions.check(p, p, None), campaigns)
    outcomes = ((rng.random(len(p)) < p).astype(np.float64) for _ in range(draws))
    drawn = (replace(runs, positives=runs.runs.sums(y)) for y in outcomes)
    return float(np.mean([each.grouped_cal_n(n).value for each in drawn]))
