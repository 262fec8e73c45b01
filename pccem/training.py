"""Training: what a model learns from, and whether it may be published.

A model's trial on a day that was held out: is it calibrated, is it better than another?
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from pccem.arrays import Floats, Integers, check_equal_lengths
from pccem.attribution import Attribution
from pccem.calendar import DAY
from pccem.clicks import Clicks, canonical_order
from pccem.features import FeatureMismatch
from pccem.model import PostClickModel


def log_odds_offset(log_odds: Floats, outcomes: Floats) -> float:
    """The offset c at which the probabilities of log-odds + c add up to the outcomes' sum.

    log_odds : (n,) of the model, finite.
    outcomes : (n,) 0 or 1, both there.

    It minimises the log loss among all offsets. The sum rises with c, and the root lies between
    the offsets that bring the largest and the smallest log-odds to the observed rate.

    Source: Papers 000 and 003, section 3: the calibrated log loss, sum q = sum y.

    >>> round(log_odds_offset(np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])), 4)
    -1.0986
    """
    # Here, because most workers that start train nothing: it would be a sixth of their start.
    from scipy.optimize import brentq

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


@dataclass(frozen=True, slots=True)
class TrainingRules:
    """What a model is trained on, and how much there must be of it.

    days : mature days before the moment of training, at least 2: the newest is held out.
    min_clicks, min_conversions : in these days; with fewer there is no model.
    max_clicks : of more, a uniform sample of this many.
    seed : of the sample and of the model.
    num_threads : 0 for all cores; the model does not depend on it.
    post_click : seconds; clicks that converted sooner are left out. They are decided before the
        model is asked, so it learns the probability of a later conversion. See `LabelRules`.

    Raises ValueError, which names it, where a value is below the least that makes sense.
    """

    days: int = 14
    min_clicks: int = 1_000
    min_conversions: int = 100
    max_clicks: int = 2_000_000
    seed: int = 0
    num_threads: int = 0
    post_click: float = 0.0

    def __post_init__(self) -> None:
        least = {"days": 2, "min_clicks": 2, "min_conversions": 1, "max_clicks": 2}
        for field in fields(self):
            value, bound = getattr(self, field.name), least.get(field.name, 0)
            if not value >= bound:
                raise ValueError(f"{field.name} = {value}: must be at least {bound}")


class MatureDays:
    """Mature clicks of the last days in canonical order.

    indices : (m,) where they stood in the clicks given.
    clicks : m clicks.
    outcomes : (m,) 1.0 where the click converted, else 0.0.
    held_out : (m,) whether the click is of the newest day.
    days : number of days with clicks.
    """

    def __init__(
        self, clicks: Clicks, attribution: Attribution, as_of: float, rules: TrainingRules
    ) -> None:
        """The clicks in [as_of - window - days, as_of - window), or a sample if they are too many.

        Those that converted within the post-click window are left out.

        Raises ValueError where the clicks and their attribution differ in length, or `as_of` is not
        finite.
        """
        check_equal_lengths(clicks=len(clicks), attribution=len(attribution))
        if not math.isfinite(as_of):
            raise ValueError(f"as_of = {as_of}: must be finite")
        end = as_of - attribution.window
        first = end - rules.days * DAY
        inside = (clicks.clicked_at >= first) & (clicks.clicked_at < end) & attribution.mature
        inside &= ~(attribution.delay < rules.post_click)
        indices = _sampled(_in_order(clicks, attribution, np.flatnonzero(inside)), rules)
        self.indices, self.clicks = indices, clicks.select(indices)
        self.outcomes = attribution.converted[indices].astype(np.float64)
        self.held_out = self.clicks.clicked_at >= end - DAY
        self.days = len(np.unique(np.floor((end - self.clicks.clicked_at) / DAY)))

    def lack(self, rules: TrainingRules) -> str | None:
        """What there is too little of to train, in words; None if there is enough."""
        clicks, held_out = len(self.clicks), int(self.held_out.sum())
        conversions, learned = (
            int(self.outcomes[rows].sum()) for rows in (slice(None), ~self.held_out)
        )
        for name, found, least in (
            ("mature clicks", clicks, rules.min_clicks),
            ("mature conversions", conversions, rules.min_conversions),
            ("clicks of the newest mature day", held_out, 1),
            ("clicks before the newest mature day", clicks - held_out, 1),
            ("conversions before the newest mature day", learned, 1),
            ("clicks without conversion before it", clicks - held_out - learned, 1),
        ):
            if found < least:
                return f"{found} {name}: training needs at least {least}"
        return None

    def figures(self) -> dict[str, float | int | None]:
        """Sizes and times, for a report."""
        times = self.clicks.clicked_at
        return {
            "clicks": len(times),
            "conversions": int(self.outcomes.sum()),
            "days": self.days,
            "first_click": float(times[0]) if len(times) else None,
            "last_click": float(times[-1]) if len(times) else None,
            "held_out_clicks": int(self.held_out.sum()),
            "held_out_conversions": int(self.outcomes[self.held_out].sum()),
        }


def _in_order(clicks: Clicks, attribution: Attribution, inside: Integers) -> Integers:
    outcomes = attribution.converted[inside].astype(np.float64)
    return inside[canonical_order(clicks.select(inside), outcomes)]


def _sampled(indices: Integers, rules: TrainingRules) -> Integers:
    if len(indices) <= rules.max_clicks:
        return indices
    generator = np.random.default_rng(rules.seed)
    return indices[np.sort(generator.choice(len(indices), rules.max_clicks, replace=False))]


_TOP: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What came of a training.

    model : to be published; None if there is too little to learn from or the trial was lost.
    refused : why there is no model, in words; None if there is one.
    report : JSON-ready figures; None stands for what could not be computed. `clicks`,
        `conversions`, `days` (with clicks), `first_click`, `last_click`, `held_out_clicks`,
        `held_out_conversions`, `rounds`, `importances` (share of the gain, 20 foremost features);
        on the day held out `pcoc_before` and `pcoc` (expected over observed conversions, before
        and after the offset), `offset`, `log_loss`, `in_force_pcoc`, `in_force_log_loss`,
        `in_force_mismatch` (why the model in force could not score).
    held_out : (k,) indices of the clicks of the newest mature day, in canonical order.
    scores : (k,) the candidate's on them, also of one refused; (0,) without a candidate.
    in_force_scores : (k,) those of the model in force; None if there is none or it cannot score.
    """

    model: PostClickModel | None
    refused: str | None
    report: Mapping[str, Any]
    held_out: NDArray[np.int64]
    scores: Floats
    in_force_scores: Floats | None


def train(
    clicks: Clicks,
    attribution: Attribution,
    *,
    as_of: float,
    rules: TrainingRules,
    in_force: PostClickModel | None = None,
) -> Training:
    """Train on the last mature days, hold the newest of them out, and evaluate the model on it.

    Clicks count that are mature and lie in [as_of - window - days, as_of - window). The last 24 h
    of that are held out: they stop the boosting, correct the candidate where its probabilities are
    off, and refuse it where it is worse than the model in force (`pccem.training`). The result does
    not depend on the order of the clicks, of the features or on the number of threads.

    clicks : n clicks.
    attribution : what is known of them at `as_of`, in the same order.
    as_of : moment of the training, epoch seconds.
    rules : see `TrainingRules`.
    in_force : the model that the candidate must not be worse than.

    Raises ValueError where the clicks and their attribution differ in length, or `as_of` is not
    finite.

    Source: Deng et al. (paper 004), Algorithm 2: every period T, on clicks whose 7 days are over.
    """
    days = MatureDays(clicks, attribution, as_of, rules)
    rival, mismatch = _rival(in_force, days, rules)
    report = {**_candidate_figures(), **days.figures(), **_rival_figures(rival, mismatch)}
    held_out = days.indices[days.held_out]
    in_force_scores = None if rival is None else rival.scores
    if lack := days.lack(rules):
        return Training(None, lack, report, held_out, np.empty(0), in_force_scores)
    model, before, after = _candidate(days, rules)
    report |= _candidate_figures(model, before, after)
    refused = refusal(after, rival)
    published = None if refused else model
    return Training(published, refused, report, held_out, after.scores, in_force_scores)


def _candidate(days: MatureDays, rules: TrainingRules) -> tuple[PostClickModel, Trial, Trial]:
    """The model with its offset, and its trials without it and with it."""
    fitted = PostClickModel.fit(
        days.clicks.model_features(),
        days.outcomes,
        held_out=days.held_out,
        seed=rules.seed,
        num_threads=rules.num_threads,
    )
    before = _trial(fitted, days, rules)
    model = fitted.with_offset(offset_of(before))
    return model, before, Trial(before.log_odds + model.offset, before.outcomes)


def _rival(
    in_force: PostClickModel | None, days: MatureDays, rules: TrainingRules
) -> tuple[Trial | None, str | None]:
    """The trial of the model in force, or why it can have none."""
    if in_force is None:
        return None, None
    try:
        return _trial(in_force, days, rules), None
    except FeatureMismatch as mismatch:
        return None, str(mismatch)


def _trial(model: PostClickModel, days: MatureDays, rules: TrainingRules) -> Trial:
    """The trial on the newest day; FeatureMismatch where the model cannot score its clicks."""
    clicks = days.clicks.select(days.held_out)
    log_odds = model.log_odds(clicks.model_features(), rules.num_threads)
    return Trial(log_odds, days.outcomes[days.held_out])


def _candidate_figures(
    model: PostClickModel | None = None, before: Trial | None = None, after: Trial | None = None
) -> dict[str, Any]:
    return {
        "rounds": model and model.rounds,
        "offset": model and model.offset,
        "importances": dict(islice(model.importances().items(), _TOP)) if model else {},
        "pcoc_before": before and before.pcoc,
        "pcoc": after and after.pcoc,
        "log_loss": after and after.log_loss,
    }


def _rival_figures(rival: Trial | None, mismatch: str | None) -> dict[str, Any]:
    return {
        "in_force_pcoc": rival and rival.pcoc,
        "in_force_log_loss": rival and rival.log_loss,
        "in_force_mismatch": mismatch,
    }
