"""A model's trial on a day that was held out: is it calibrated, is it better than another?"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pccem.arrays import Floats
from pccem.clicks import Clicks
from pccem.model import PostClickModel


def log_odds_offset(log_odds: Floats, outcomes: Floats) -> float:
    """The offset c at which the probabilities of log-odds + c add up to the outcomes' sum.

    Parameters
    ----------
    log_odds : (n,) of the model, finite.
    outcomes : (n,) 0 or 1, both there.

    It minimises the log loss among all offsets. The sum rises with c, and the root lies between
    the offsets that bring the largest and the smallest log-odds to the observed rate.

    Source: Papers 000 and 003, section 3: the calibrated log loss, sum q = sum y.

    >>> round(log_odds_offset(np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])), 4)
    -1.0986
    """
    total = float(outcomes.sum())
    if not 0.0 < total < len(outcomes):
        raise ValueError(f"outcomes add up to {total} of {len(outcomes)}: must have both kinds")
    observed = float(logit(total / len(outcomes)))
    # Wider by a hair, so that rounding cannot put both ends on one side of the root.
    low, high = observed - log_odds.max() - 1e-6, observed - log_odds.min() + 1e-6
    return float(brentq(lambda offset: expit(log_odds + offset).sum() - total, low, high))


def log_loss(log_odds: Floats, outcomes: Floats) -> float:
    """Mean of -ln(probability of what happened), from log-odds, without clipping; ValueError
    without an outcome.

    >>> round(log_loss(np.array([0.0, 800.0]), np.array([1.0, 1.0])), 4)
    0.3466
    """
    if not len(outcomes):
        raise ValueError("outcomes: there are none, so they have no mean")
    return float(np.mean(np.logaddexp(0.0, log_odds) - outcomes * log_odds))


def deviation(probabilities: Floats, outcomes: Floats) -> float:
    """How many standard errors the outcomes' sum lies above that of the probabilities.

    >>> round(deviation(np.full(100, 0.5), np.ones(100)), 4)
    10.0
    """
    error = math.sqrt(float(np.sum(probabilities * (1.0 - probabilities))))
    excess = float(outcomes.sum() - probabilities.sum())
    return excess / error if error > 0.0 else math.copysign(math.inf, excess) if excess else 0.0


# Standard errors: beyond the first a deviation is corrected; beyond the second it is no chance
# even where there are too few conversions to correct it by, as when their feed is cut off.
_OFF: Final = 2.0
_BROKEN: Final = 4.0
_FEWEST: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A model's log-odds on clicks whose outcomes, 0 or 1, are known; both (k,)."""

    log_odds: Floats
    outcomes: Floats

    @classmethod
    def of(
        cls, model: PostClickModel, clicks: Clicks, outcomes: Floats, num_threads: int
    ) -> "Trial":
        """The trial on these clicks; FeatureMismatch where the model cannot score them."""
        return cls(model.log_odds(clicks.model_features(), num_threads), outcomes)

    @property
    def scores(self) -> Floats:
        """(k,) probabilities."""
        scores: Floats = expit(self.log_odds)
        return scores

    @property
    def conversions(self) -> int:
        """Observed ones."""
        return int(self.outcomes.sum())

    @property
    def expected(self) -> float:
        """The probabilities' sum."""
        return float(self.scores.sum())

    @property
    def pcoc(self) -> float | None:
        """Expected over observed conversions; None without any observed."""
        return self.expected / self.conversions if self.conversions else None

    @property
    def log_loss(self) -> float | None:
        """Mean log loss; None without clicks."""
        return log_loss(self.log_odds, self.outcomes) if len(self.outcomes) else None


def offset_of(trial: Trial) -> float:
    """The log-odds to add so that the model is calibrated; 0 unless it is off by more than 2
    standard errors and at least 20 clicks of either outcome say so."""
    fewest = min(trial.conversions, len(trial.outcomes) - trial.conversions)
    if abs(deviation(trial.scores, trial.outcomes)) <= _OFF or fewest < _FEWEST:
        return 0.0
    return log_odds_offset(trial.log_odds, trial.outcomes)


def refusal(trial: Trial, in_force: Trial | None) -> str | None:
    """Why the model of the trial must not be published, in words; None if it may.

    It is still off by more than 4 standard errors, because there were too few conversions to
    correct it by; or its log loss is greater than that of the model in force on the same clicks.
    """
    if abs(deviation(trial.scores, trial.outcomes)) > _BROKEN:
        return (
            f"it expects {trial.expected:.1f} conversions on the newest mature day, where "
            f"{trial.conversions} were observed, too few to correct it by"
        )
    if in_force is None or trial.log_loss is None or in_force.log_loss is None:
        return None
    if trial.log_loss > in_force.log_loss:
        return (
            f"its log loss on the newest mature day is {trial.log_loss:.6f}, that of the model in "
            f"force {in_force.log_loss:.6f}"
        )
    return None
