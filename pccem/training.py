"""Training with its own checks: what a model learns from, and whether it may be published."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import Floats
from pccem.attribution import Attribution
from pccem.clicks import Clicks
from pccem.mature_days import MatureDays
from pccem.model import PostClickModel
from pccem.model_columns import FeatureMismatch
from pccem.training_rules import TrainingRules
from pccem.trial import Trial, offset_of, refusal

_TOP: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What came of a training.

    Attributes
    ----------
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
    """Train on the last mature days, hold the newest of them out, and judge the model on it.

    Clicks count that are mature and lie in [as_of - window - days, as_of - window). The last 24 h
    of that are held out: they stop the boosting, correct the candidate where its probabilities are
    off, and refuse it where it is worse than the model in force (`pccem.trial`). The result does
    not depend on the order of the clicks, of the features or on the number of threads.

    Parameters
    ----------
    clicks : n clicks.
    attribution : what is known of them at `as_of`, in the same order.
    as_of : moment of the training, epoch seconds.
    rules : see `TrainingRules`.
    in_force : the model that the candidate must not be worse than.

    Raises
    ------
    ValueError
        The clicks and their attribution differ in length, or `as_of` is not finite.

    References
    ----------
    Deng et al. (paper 004), Algorithm 2: every period T, on clicks whose 7 days are over.
    """
    days = MatureDays.of(clicks, attribution, as_of, rules)
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
    return Trial.of(model, days.newest(), days.outcomes[days.held_out], rules.num_threads)


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
