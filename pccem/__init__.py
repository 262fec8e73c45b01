"""Conversions that come days late: what a young click counts as. Pure: numpy, scipy, LightGBM.

`attribution.py` says which clicks have converted, `delays.py` how late conversions come. `model.py`
is the post-click model, of the columns in `features.py`; `training.py` trains and tests it,
`model_bytes.py` keeps it. `labels.py` labels clicks, `conversion_drift.py` corrects the labels by
campaign, `pace.py` by when conversions come, and `calendar.py` knows the hours of the week.
"""

from pccem.attribution import Attribution, attribute
from pccem.clicks import Clicks
from pccem.conversion_drift import corrected, drift_ratios
from pccem.delays import DelayDistribution
from pccem.features import Categorical, Column, FeatureMismatch, Features
from pccem.labels import LabelRules, conversions_due, expected_conversions, label
from pccem.model import PostClickModel
from pccem.model_bytes import seal, unseal
from pccem.pace import Cohorts
from pccem.training import Training, TrainingRules, train

__all__ = [
    "Attribution",
    "Categorical",
    "Clicks",
    "Cohorts",
    "Column",
    "DelayDistribution",
    "FeatureMismatch",
    "Features",
    "LabelRules",
    "PostClickModel",
    "Training",
    "TrainingRules",
    "attribute",
    "conversions_due",
    "corrected",
    "drift_ratios",
    "expected_conversions",
    "label",
    "seal",
    "train",
    "unseal",
]
