"""How much a simulated metric changes, and how sure that is."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import ndtri

from calibrators.samples import Floats
from evaluation.auction.simulation import Simulation


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """A metric's change against the baseline's, as a share of it: 0.1 is 10 % more.

    Attributes
    ----------
    value : the change; nan where the baseline has 0.
    standard_error : of the change.
    lower, upper : its confidence interval.
    """

    value: float
    standard_error: float
    lower: float
    upper: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.lower > 0.0 or self.upper < 0.0


def relative_change(
    baseline: Simulation, candidate: Simulation, metric: str, *, confidence: float = 0.95
) -> RelativeChange:
    """Change of one metric from the baseline to the candidate, simulated on the same log.

    The interval is the delta method for a ratio of two means with pages as the units. A page
    enters with the slots it fills and with the clicks it logged, so the noise in the
    log's click rates is part of it, and what both simulations share cancels. The click curve is
    taken as known, and so is what level 3 assumes: the interval does not cover that bias.

    Parameters
    ----------
    baseline, candidate : simulations of one log.
    metric : a name of `Simulation.metrics`.
    confidence : coverage of the interval, between 0 and 1.

    Raises
    ------
    ValueError
        When the confidence is not between 0 and 1.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 6: changes relative to the baseline. The interval is
    ours.

    Examples
    --------
    >>> from evaluation.auction import SearchPlatform, simulate_auction
    >>> drawn = SearchPlatform(queries=50, pages=2_000, seed=1).draw()
    >>> before = simulate_auction(drawn.log, drawn.scores)
    >>> change = relative_change(before, simulate_auction(drawn.log, drawn.truth), "click_yield")
    >>> change.lower < change.value < change.upper
    True
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    before, after = baseline.metrics[metric], candidate.metrics[metric]
    if not before > 0.0:
        return RelativeChange(*(float("nan"),) * 4)
    ratio = after / before
    error = _standard_error(
        baseline.page_values[metric] - before, candidate.page_values[metric] - after, ratio, before
    )
    reach = float(ndtri(0.5 + confidence / 2.0)) * error
    change = ratio - 1.0
    return RelativeChange(change, error, change - reach, change + reach)


def _standard_error(before: Floats, after: Floats, ratio: float, mean: float) -> float:
    n = len(before)
    if n < 2:
        return float("nan")
    spread = float(np.std(after - ratio * before, ddof=1))
    return spread / (mean * sqrt(n))
