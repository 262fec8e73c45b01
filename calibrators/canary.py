"""Whether maps on trial are wrong, from the events of the units that they serve, with few false
alarms however often one looks.

Against "the challenger's probabilities are right" stand three alternatives: odds of 1 / RATE and of
RATE times its own (it predicts too much, or too little, as PCOC tells), and the champion's
probabilities (its log loss is lower). The likelihood ratio of each, and so their weighted mean, is
a test martingale if the challenger is right: it exceeds a bound B with a probability of 1 / B at
most, ever (Ville's inequality). For faults that begin later a small part of the weight joins every
hour. RATE is below 1.2 because of all lines of evidence this one reaches the bound most surely
within 1,000 clicks of maps that are off by 20 %. What that finds:
docs/decisions/0019-canary.md. Source: Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics
and safe anytime-valid inference", Statistical Science 38, 2023.
"""

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from calibrators.samples import Floats

RATE: Final = 1.12
BOUND: Final = log(100.0)
"""ln of the evidence beyond which the challenger is stopped."""

PCOC, LOG_LOSS, MISSING = "pcoc", "log-loss", "missing-metric"
REASONS: Final = (PCOC, LOG_LOSS, MISSING)
"""Why it was stopped; the last where there is nothing to tell by."""

# Too much, too little, the champion: the first is the hardest to see, for it brings fewer clicks.
_WEIGHTS: Final = np.log([0.5, 0.36, 0.14])
_FIRST: Final = log(0.95)
_LATER: Final = log(0.05 / (30 * 24 - 1))
# A probability of 0 or 1 that came false once would be all the evidence there is.
_LEAST: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class CanaryEvidence:
    """What `hours` with traffic said: ln of the evidence for each alternative, (..., 3), with one
    row for each of several experiments."""

    hours: int
    logs: Floats

    @classmethod
    def none(cls) -> "CanaryEvidence":
        """Of one experiment, before its first hour."""
        return cls(0, np.full(len(_WEIGHTS), -np.inf))

    def after(self, ratios: Floats) -> "CanaryEvidence":
        """With one more hour, whose `log_ratios` these are."""
        joining = _WEIGHTS + (_LATER if self.hours else _FIRST)
        return CanaryEvidence(self.hours + 1, np.logaddexp(self.logs, joining) + ratios)

    @property
    def total(self) -> Floats:
        """ln of all evidence, (...), to compare with BOUND."""
        return np.asarray(np.logaddexp.reduce(self.logs, axis=-1))

    @property
    def reason(self) -> str | None:
        """Why one experiment has to stop: what most of the evidence is; None while it may go on."""
        if self.total < BOUND:
            return None
        *rates, champion = self.logs.tolist()
        return PCOC if np.logaddexp(*rates) >= champion else LOG_LOSS


def log_ratios(challenger: Floats, champion: Floats, counts: Floats, positives: Floats) -> Floats:
    """ln of the likelihood ratios of each alternative, (..., 3), of an hour's events in k cells:
    the probability by either map, (k,), how many, (k,), and their positives, (..., k)."""
    predicted, instead = (np.clip(p, _LEAST, 1.0 - _LEAST) for p in (challenger, champion))
    odds = np.log(instead / predicted) - np.log((1.0 - instead) / (1.0 - predicted))
    gains = np.stack((np.full_like(odds, -log(RATE)), np.full_like(odds, log(RATE)), odds), axis=-1)
    # What multiplies odds by exp(gain) divides the probability of no positive by this.
    losses = np.log1p(np.expm1(gains) * predicted[:, np.newaxis])
    return np.asarray(positives @ gains - counts @ losses)
