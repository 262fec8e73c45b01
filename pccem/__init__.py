"""Conversions that arrive days late: attribution, the post-click model, delays and labels."""

from pccem.attribution import Attribution, attribute
from pccem.clicks import Clicks
from pccem.delays import DelayDistribution
from pccem.drift import corrected, drift_ratios
from pccem.expected import expected_conversions
from pccem.features import Categorical, Column, Features
from pccem.labels import LabelRules, conversions_due, label
from pccem.model import PostClickModel
from pccem.model_columns import FeatureMismatch
from pccem.model_seal import seal, unseal
from pccem.model_text import check_model_text
from pccem.training import Training, train
from pccem.training_rules import TrainingRules

__all__ = [
    "Attribution",
    "Categorical",
    "Clicks",
    "Column",
    "DelayDistribution",
    "FeatureMismatch",
    "Features",
    "LabelRules",
    "PostClickModel",
    "Training",
    "TrainingRules",
    "attribute",
    "check_model_text",
    "conversions_due",
    "corrected",
    "drift_ratios",
    "expected_conversions",
    "label",
    "seal",
    "train",
    "unseal",
]
