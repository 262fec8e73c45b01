"""A model's trial on a day that was held out: is it calibrated, is it better than another?"""

from dataclasses import dataclass
from typing import Final

from scipy.special import expit

from pccem.arrays import Floats
from pccem.calibration_offset import deviation, log_loss, log_odds_offset
from pccem.clicks import Clicks
from pccem.model import PostClickModel

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
