"""Fits for notebooks: the service's own refit of columns in memory, and a scikit-learn estimator.

Columns are whatever numpy can read: lists, arrays, and columns of pandas, Polars or pyarrow, none
of which is imported here. `CampaignCalibrator` needs scikit-learn 1.6 or newer.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import floor
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators import Atlas, History, Method, make_method
from calibrators.bins.model_versions import VERSION_RULE, is_version, named
from calibrators.samples import (
    Floats,
    all_obey,
    as_vector,
    check_equal_lengths,
    check_not_negative,
    check_unit_interval,
    expit,
    is_nan,
)
from evaluation.backtest.backtest import Refits, bins_by_hour
from evaluation.backtest.event_table import SECONDS_PER_HOUR, EventTable

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """Stands in where scikit-learn is not installed: `fit` below needs none of it."""

        def __new__(cls, *args: object, **settings: object) -> Self:
            """Raises ImportError, which says what to install."""
            raise ImportError(f"{cls.__name__} needs scikit-learn: pip install 'scikit-learn>=1.6'")

    class ClassifierMixin:  # type: ignore[no-redef]
        """Stands in for that of scikit-learn."""


_ONLY: Final = "all"
"""The campaign of rows that name none."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedCalibration:
    """What `fit` found: the maps of all campaigns, as the service publishes them."""

    atlas: Atlas

    def predict(
        self,
        scores: ArrayLike,
        campaigns: ArrayLike | None = None,
        model_versions: ArrayLike | None = None,
    ) -> Floats:
        """Calibrated probabilities of n scores in [0, 1], shape (n,).

        campaigns : (n,) strings or whole numbers; None as in `fit`. One that the fit has not seen
            gets its group's map, or the target's.
        model_versions : (n,) strings, as in `fit`. One that the fit has not seen gets the maps of
            impressions without a version.

        Raises ValueError that names the first offending value.
        """
        checked = check_unit_interval("scores", _numbers("scores", scores))
        names = _names(campaigns, len(checked))
        versions = _versions(model_versions, len(checked))
        return self.atlas([*map(named, names, versions)], checked)

    def to_bytes(self) -> bytes:
        """The bytes of the atlas, as docs/formats.md has them."""
        return self.atlas.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` wrote, or a service answered; ValueError on any other bytes."""
        return cls(Atlas.from_bytes(data))


def fit(
    scores: ArrayLike,
    outcomes: ArrayLike,
    campaigns: ArrayLike | None = None,
    times: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    model_versions: ArrayLike | None = None,
    method: str | Method = "pooled",
    as_of: float | None = None,
    guarded: bool = False,
) -> FittedCalibration:
    """The maps that the service and the backtest would fit from these n rows, to the last bit.

    scores : (n,) probabilities that the model predicted, in [0, 1].
    outcomes : (n,) in [0, 1]; a fraction is an expected conversion.
    campaigns : (n,) strings or whole numbers; None: all rows are of one campaign.
    times : (n,) epoch seconds or datetimes, UTC where they name no zone; None: all rows are of one
        hour, the last. Only the window of the method counts, before `as_of`: the service's 48 h
        of `pooled` and 24 h of the others, unless `make_method` gave it another.
    weights : (n,) how many impressions each row stands for, at least 0; None: each is one.
    model_versions : (n,) strings, the version of the model that made each score, "" or None where
        none is named: each has maps of its own. None: of no row.
    method : a name of `calibrators.METHODS`, with the service's defaults, or what `make_method`
        gives.
    as_of : moment of the fit in epoch seconds; rows from then on are left out. The end of the
        newest row's hour unless given.
    guarded : as the first refit of a service whose guard is on: the newest hour tells which maps
        are better than the scores, and `pooled` learns its shape from the hours before it.

    Raises ValueError that names the first offending value and the rule, and when no row is left.

    >>> found = fit([0.1, 0.1, 0.4, 0.4], [0, 0, 1, 0], ["a", "a", "b", "b"])
    >>> bool(0 < found.predict([0.1], ["a"])[0] < found.predict([0.4], ["b"])[0] < 1)
    True
    """
    table = _event_table(scores, outcomes, campaigns, times, weights, model_versions)
    if as_of is not None:
        table = table.select(table.times < as_of)
    if not len(table):
        raise ValueError("scores: no row is left to fit on")
    moment = floor(table.times.max() / SECONDS_PER_HOUR) + 1.0
    history = History(moment if as_of is None else as_of / SECONDS_PER_HOUR, [bins_by_hour(table)])
    made = make_method(method) if isinstance(method, str) else method
    return FittedCalibration(Refits(made, guarded).refit(history))


def _event_table(
    scores: ArrayLike,
    outcomes: ArrayLike,
    campaigns: ArrayLike | None,
    times: ArrayLike | None,
    weights: ArrayLike | None,
    model_versions: ArrayLike | None,
) -> EventTable:
    checked = _numbers("scores", scores)
    table = EventTable.from_columns(
        np.zeros(len(checked)) if times is None else _epoch_seconds(times),
        [*map(named, _names(campaigns, len(checked)), _versions(model_versions, len(checked)))],
        checked,
        _numbers("outcomes", outcomes),
    )
    if weights is None:
        return table
    counts = check_not_negative("weights", _numbers("weights", weights))
    check_equal_lengths(scores=checked, weights=counts)
    if not counts.any():
        raise ValueError("weights: all of them are zero")
    return replace(table.select(counts > 0.0), weights=counts[counts > 0.0])


def _numbers(name: str, values: ArrayLike) -> Floats:
    """A column as float64, (n,); those of data frames with missing values come as objects."""
    array = np.asarray(values)
    if array.dtype != np.object_:
        return as_vector(name, array)
    try:
        return as_vector(name, array.astype(np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, none of them missing") from error


def _names(campaigns: ArrayLike | None, rows: int) -> list[str]:
    if campaigns is None:
        return [_ONLY] * rows
    # As objects: of NaN beside texts numpy makes the text nan.
    array = np.asarray(campaigns, dtype=object)
    if array.ndim != 1:
        raise ValueError(f"campaigns must have one dimension, not {array.ndim}")
    values = array.tolist()
    names = {value: _name(value) for value in set(values)}
    for place, value in enumerate(values):
        if not names[value]:
            rule = "a campaign is a string that is not empty, or a whole number"
            raise ValueError(f"campaigns[{place}] = {value!r}: {rule}")
    return [names[value] for value in values]


def _versions(versions: ArrayLike | None, rows: int) -> list[str | None]:
    """Of each row the version of the model, None of one that names none."""
    if versions is None:
        return [None] * rows
    given = np.asarray(versions, dtype=object).tolist()
    values = [None if is_nan(value) else value or None for value in given]
    for place, value in enumerate(values):
        if value is not None and not (isinstance(value, str) and is_version(value)):
            raise ValueError(f"model_versions[{place}] = {value!r}: {VERSION_RULE}")
    check_equal_lengths(scores=np.empty(rows), model_versions=np.empty(len(values)))
    return values


def _name(campaign: object) -> str:
    """Empty for what names no campaign."""
    if isinstance(campaign, float) and campaign.is_integer():
        return str(int(campaign))
    is_name = isinstance(campaign, str | int | np.integer) and not isinstance(campaign, bool)
    return str(campaign) if is_name else ""


def _epoch_seconds(times: ArrayLike) -> Floats:
    array = np.asarray(times)
    if array.dtype == np.object_:
        return np.array([_seconds(row, value) for row, value in enumerate(array)], np.float64)
    if array.dtype.kind != "M":
        return as_vector("times", array)
    all_obey("times", array, ~np.isnat(array), "every row needs a time")
    return array.astype("datetime64[us]").astype(np.float64) / 1e6


def _seconds(row: int, value: Any) -> float:
    try:
        if not isinstance(value, datetime):
            return float(value)
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError) as error:
        rule = "must be epoch seconds or a datetime"
        raise ValueError(f"times[{row}] = {value!r}: {rule}") from error


class CampaignCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`fit` as a classifier of scikit-learn, with two classes, the second being the positive one.

    X is an array or a data frame with a row for each impression: the score in one column and, where
    they are named below, campaign and time in others. Other columns are of no effect.

    Parameters
    ----------
    score_column : column of X with the score, by place or, in a data frame, by name.
    campaign_column, time_column : those of campaign and time, as `fit` takes them; None: all rows
        are of one campaign, of one hour.
    method : a name of `calibrators.METHODS`, or what `make_method` gives.
    scale : what scores are: "probability", "log_odds" as decision functions give them, or "auto",
        by which they are probabilities if all that are fitted lie in [0, 1], else log odds.

    Attributes: classes_, (2,); calibration_, the `FittedCalibration`; scale_, n_features_in_ and,
    of data frames, feature_names_in_.
    """

    def __init__(
        self,
        score_column: int | str = 0,
        campaign_column: int | str | None = None,
        time_column: int | str | None = None,
        method: str | Method = "pooled",
        scale: str = "auto",
    ) -> None:
        self.score_column = score_column
        self.campaign_column = campaign_column
        self.time_column = time_column
        self.method = method
        self.scale = scale

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """The fitted estimator itself; y (n,) has two classes, sample_weight (n,) is at least 0.

        Raises ValueError on anything else, and on scores that are not of the scale.
        """
        if self.scale not in _SCALES:
            raise ValueError(f"scale = {self.scale!r}: must be one of {', '.join(_SCALES)}")
        X, y = self._checked(X, y=y)
        self.classes_, outcomes = _binary(column_or_1d(y))
        scores = self._scores(X)
        inside = ((scores >= 0.0) & (scores <= 1.0)).all()
        found = "probability" if inside else "log_odds"
        self.scale_ = found if self.scale == "auto" else self.scale
        self.calibration_ = fit(
            self._probabilities(X),
            outcomes,
            self._column(X, self.campaign_column),
            self._column(X, self.time_column),
            weights=sample_weight,
            method=self.method,
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated probabilities of both classes, (n, 2)."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        campaigns = self._column(X, self.campaign_column)
        positive = self.calibration_.predict(self._probabilities(X), campaigns)
        return np.column_stack((1.0 - positive, positive))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class of each row, (n,)."""
        positive = self.predict_proba(X)[:, 1]
        return np.asarray(self.classes_[(positive > 0.5).astype(np.int64)])

    def _checked(self, X: Any, **how: Any) -> Any:
        """The array, or the data frame itself where it has campaigns or times: numpy has no type
        for numbers and times together, and what is read of a frame is checked by itself."""
        numeric = self.campaign_column is None and self.time_column is None
        whole = not numeric and hasattr(X, "columns")
        dtype = "numeric" if numeric else None
        return validate_data(self, X, dtype=dtype, skip_check_array=whole, **how)

    def _place(self, column: int | str) -> int:
        if not isinstance(column, str):
            return column
        names = list(getattr(self, "feature_names_in_", ()))
        if column not in names:
            known = ", ".join(names) or "no names of columns"
            raise ValueError(f"column {column!r} is not in X, which has {known}")
        return names.index(column)

    def _column(self, X: Any, column: int | str | None) -> Any:
        if column is None:
            return None
        place = self._place(column)
        if isinstance(X, np.ndarray):
            return X[:, place]
        return X[getattr(X, "column_names", X.columns)[place]]

    def _scores(self, X: Any) -> Floats:
        scores = _numbers("scores", self._column(X, self.score_column))
        all_obey("scores", scores, np.isfinite(scores), "every score must be finite")
        return scores

    def _probabilities(self, X: Any) -> Floats:
        scores = self._scores(X)
        return expit(scores) if self.scale_ == "log_odds" else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # One column decides: the tests of scikit-learn put the classes apart in several.
        tags.classifier_tags.poor_score = True
        return tags


_SCALES: Final = ("auto", "probability", "log_odds")


def _binary(y: NDArray[Any]) -> tuple[NDArray[Any], Floats]:
    """The two classes, and the outcome of each row: whether it is of the second."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        rule = "Only binary classification is supported. The type of the target is"
        raise ValueError(f"{rule} {kind}.")
    classes, places = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y takes two classes, and has one class or none: {classes.tolist()}")
    return classes, places.astype(np.float64)
