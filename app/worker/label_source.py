"""What labels of young clicks come from: a model, the delay distribution alone, or nothing."""

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.settings import Settings
from app.worker.model_shelf import ShelvedModel
from pccem import Categorical, Clicks, Column, Features, LabelRules, PostClickModel

_log = logging.getLogger(__name__)

Source = Literal["model", "delays", "none"]
SOURCES: tuple[Source, ...] = ("model", "delays", "none")


@dataclass(frozen=True, slots=True, eq=False)
class LabelSource:
    """Probabilities of a conversion, (n,), where they come from, and how they become labels."""

    source: Source
    probabilities: NDArray[np.float64]
    rules: LabelRules


def label_source(shelved: ShelvedModel | None, clicks: Clicks, settings: Settings) -> LabelSource:
    """The best source that there is for these clicks.

    Before a first model the score itself stands in, corrected by the conversions seen so far,
    whatever the settings say; before a delay distribution there is none.
    """
    scored = _scored(shelved, clicks, settings.training_threads)
    delays = None if shelved is None else shelved.delays
    if shelved is None or scored is None:
        rules = LabelRules("posterior", drift_correction=True)
        return LabelSource("none" if delays is None else "delays", clicks.scores, rules)
    rules = LabelRules(settings.labels, settings.drift_correction, shelved.post_click)
    if delays is None:
        rules = LabelRules("paper", drift_correction=False, post_click=shelved.post_click)
    return LabelSource("model", scored, rules)


def score(model: PostClickModel, clicks: Clicks, num_threads: int = 0) -> NDArray[np.float64]:
    """The model's probabilities, (n,); a column that no click brought is missing in all of them,
    one that came up after the training is left out. FeatureMismatch if one has changed its kind."""
    features, kinds = clicks.model_features(), model.feature_kinds
    columns: dict[str, Column] = {
        name: features.columns.get(name, _missing(kind, len(clicks)))
        for name, kind in kinds.items()
    }
    return model.score(Features(columns, len(clicks)), num_threads)


def _scored(
    shelved: ShelvedModel | None, clicks: Clicks, num_threads: int
) -> NDArray[np.float64] | None:
    if shelved is None or shelved.model is None:
        return None
    try:
        return score(shelved.model, clicks, num_threads)
    except ValueError as error:
        _log.error("model %s cannot score the clicks: %s", shelved.version, error)
        return None


def _missing(kind: str, n: int) -> Column:
    if kind == "numeric":
        return np.full(n, np.nan)
    return Categorical(np.full(n, -1, np.int32), ())
