"""Fits in notebooks: the maps of the backtest, from any kind of column, and by scikit-learn."""

import sys
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import check_estimator

from calibrators import METHODS, make_method
from evaluation import Platform, backtest, estimators, field_rce, log_loss
from evaluation.estimators import CampaignCalibrator, FittedCalibration, fit

HOUR = 3600.0
QUICK = "platt"
"""Where it is of columns and not of the method."""


@cache
def log():
    return Platform(campaigns=4, impressions_per_hour=1_500, ctr=0.1, seed=7).hours(0, 5).events


def columns():
    events = log()
    names = np.array(events.campaigns)[events.rows]
    return {
        "score": events.scores, "outcome": events.outcomes, "campaign": names, "time": events.times
    }  # fmt: skip


@cache
def fitted():
    return fit(*columns().values(), method=QUICK)


@pytest.mark.parametrize(("hours", "guarded"), [(5, False), (2, True)])
@pytest.mark.parametrize("name", METHODS)
def test_a_fit_is_that_of_the_backtest_to_the_last_bit(name, hours, guarded):
    events = log().select(log().hours < log().hours.min() + hours)
    method = make_method(name, bin_size=200)
    found = backtest(events, {"it": method}, window_hours=hours - 1, guarded=guarded)

    as_of = float(events.hours.max()) * HOUR
    made = fit(*columns().values(), method=method, as_of=as_of, guarded=guarded)

    names = columns()["campaign"][found.rows]
    assert (events.times[found.rows] >= as_of).all()
    assert np.array_equal(made.predict(events.scores[found.rows], names), found.probabilities["it"])


def aware(frame):
    return frame.assign(time=pd.to_datetime(frame["time"], unit="s", utc=True))


@pytest.mark.parametrize(
    "frame",
    [
        lambda: {name: column.tolist() for name, column in columns().items()},
        lambda: pd.DataFrame(columns()),
        lambda: pd.DataFrame(columns()).convert_dtypes(),
        lambda: aware(pd.DataFrame(columns())),
        lambda: pd.DataFrame(columns()).astype({"campaign": "category"}),
        lambda: pl.DataFrame(columns()),
        lambda: pl.DataFrame(columns()).with_columns(
            pl.from_epoch(pl.col("time").cast(pl.Int64)).dt.replace_time_zone("UTC")
        ),
        lambda: pa.table(columns()),
    ],
)
def test_columns_of_any_kind_give_the_same_bytes(frame):
    made = frame()

    found = fit(made["score"], made["outcome"], made["campaign"], made["time"], method=QUICK)

    assert found.to_bytes() == fitted().to_bytes()
    again = FittedCalibration.from_bytes(found.to_bytes())
    expected = fitted().predict(columns()["score"], columns()["campaign"])
    assert np.array_equal(again.predict(made["score"], made["campaign"]), expected)


NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
AT_TEN_IN_BERLIN = datetime(2026, 1, 5, 10, tzinfo=timezone(timedelta(hours=1)))
PAIR = {"scores": [0.1, 0.2], "outcomes": [0, 1]}
TIMED = {**PAIR, "as_of": NINE.timestamp() + 9}
IN_THE_WINDOW = {"scores": [0.1] * 3, "outcomes": [0, 1, 0], "times": [50 * HOUR] * 3}


@cache
def of_pair():
    return fit(**PAIR, method=CampaignCalibrator().method).to_bytes()


def ago(moment):
    return {**TIMED, "times": [moment, moment - timedelta(hours=2)]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"scores": [0.1, 0.2, 0.3, 0.9], "outcomes": [0, 1, 1, 1], "weights": [3, 2, 1, 0]},
            {"scores": [0.1] * 3 + [0.2] * 2 + [0.3], "outcomes": [0] * 3 + [1] * 3},
        ),
        ({**PAIR, "campaigns": [1.0, 2.0]}, {**PAIR, "campaigns": ["1", "2"]}),
        ({**PAIR, "campaigns": np.array([1, 2])}, {**PAIR, "campaigns": ["1", "2"]}),
        (ago(NINE), {**TIMED, "times": [NINE.timestamp(), NINE.timestamp() - 7200]}),
        (ago(NINE), ago(AT_TEN_IN_BERLIN)),
        (ago(NINE), ago(NINE.replace(tzinfo=None))),
        (
            {
                "scores": [0.9, *[0.1] * 3, 0.9],
                "outcomes": [1, 0, 1, 0, 1],
                "times": [HOUR, *[50 * HOUR] * 3, 60 * HOUR],
                "as_of": 51 * HOUR,
            },
            IN_THE_WINDOW,
        ),
    ],
)
def test_rows_that_say_the_same_give_the_same_bytes(one, other):
    """Weights and repetitions, names and numbers, datetimes and seconds, rows out of the window."""
    assert fit(**one).to_bytes() == fit(**other).to_bytes() != of_pair()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([0.1, 1.5], [0, 1]), r"scores\[1\] = 1.5: every value must be in \[0, 1\]"),
        (
            (pd.Series([0.1, "x"], dtype=object), [0, 1]),
            "scores must be numbers, none of them missing",
        ),
        (([0.1], [0, 1]), "columns must have equal lengths"),
        (([0.1, 0.2], [0, 1], ["a", None]), r"campaigns\[1\] = None: a campaign is a string"),
        (([0.1, 0.2], [0, 1], [0.5, 1]), r"campaigns\[0\] = 0.5: a campaign is a string"),
        (([0.1, 0.2], [0, 1], [["a", "b"]]), "campaigns must have one dimension"),
        (([0.1, 0.2], [0, 1], None, ["today", "now"]), "times must be numbers, not <U5"),
        (([0.1, 0.2], [0, 1], None, [None, 1]), r"times\[0\] = None: must be epoch seconds or"),
        (([0.1], [0], None, np.array(["NaT"], "M8[s]")), r"times\[0\] = NaT: every row needs"),
        (([], []), "no row is left to fit on"),
        (([0.1, 0.2], [0, 1], None, None, [-1, 1]), r"weights\[0\] = -1"),
        (([0.1, 0.2], [0, 1], None, None, [0, 0]), "weights: all of them are zero"),
    ],
)
def test_bad_columns_are_named(given, message):
    *given, weights = (*given, None) if len(given) < 5 else given
    with pytest.raises(ValueError, match=message):
        fit(*given, weights=weights)


def test_the_default_is_the_services_method():
    assert CampaignCalibrator().method == "pooled"
    assert fit(**PAIR).to_bytes() == of_pair()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pooled", "sir"])
def test_the_estimator_keeps_the_rules_of_scikit_learn(name):
    found = check_estimator(CampaignCalibrator(method=name), on_fail=None, on_skip=None)

    wrong = [check for check in found if check["status"] not in ("passed", "skipped")]
    assert len(found) > 40
    assert wrong == []


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_estimator_reads_frames_and_is_the_fit(kind):
    frame = kind(columns())
    estimator = CampaignCalibrator("score", "campaign", "time", method=QUICK)

    estimator.fit(frame, frame["outcome"])

    assert estimator.calibration_.to_bytes() == fitted().to_bytes()
    expected = fitted().predict(columns()["score"], columns()["campaign"])
    assert np.array_equal(estimator.predict_proba(frame)[:, 1], expected)
    y, score = columns()["outcome"], columns()["score"]
    out_of_fold = cross_val_predict(estimator, frame, y, cv=3, method="predict_proba")
    assert log_loss(out_of_fold[:, 1], y) < log_loss(score, y)


@pytest.mark.parametrize("kind", ["int64", "Int64", "string", "category"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("polars", [False, True])
def test_the_estimator_reads_moments_beside_campaigns_of_any_kind(kind, zone, polars):
    """numpy has no type for both, nor have data frames for all of them together."""
    frame = pd.DataFrame(columns())
    codes = frame["campaign"].str[-2:].astype("int64")
    moments = pd.to_datetime(frame["time"], unit="s", utc=True).dt.tz_convert(zone)
    made = frame.assign(campaign=codes.astype(kind), time=moments)
    made = pl.from_pandas(made) if polars else made
    estimator = CampaignCalibrator("score", "campaign", "time", method=QUICK)
    estimator.fit(made, frame["outcome"])

    expected = fit(frame["score"], frame["outcome"], codes, frame["time"], method=QUICK)
    assert estimator.calibration_.to_bytes() == expected.to_bytes()
    assert np.array_equal(
        estimator.predict_proba(made)[:, 1], expected.predict(frame["score"], codes)
    )


def test_one_class_or_none_is_refused():
    frame = pd.DataFrame({"score": [0.1], "campaign": ["a"]})
    for rows, classes in ((0, r"\[\]"), (1, r"\[1\]")):
        with pytest.raises(ValueError, match=f"one class or none: {classes}"):
            CampaignCalibrator("score", "campaign").fit(frame[:rows], [1][:rows])


def test_the_estimator_calibrates_a_stack_of_models():
    """What CalibratedClassifierCV does, by campaign: fitted on scores out of their folds."""
    rng = np.random.default_rng(3)
    X = np.column_stack((rng.normal(size=(4_000, 2)), rng.integers(0, 3, 4_000)))
    y = rng.random(4_000) < 1 / (1 + np.exp(3 - X[:, 0] - X[:, 2]))
    model = LogisticRegression(class_weight="balanced")
    stack = StackingClassifier(
        [("model", model)], CampaignCalibrator(campaign_column=3), passthrough=True
    )

    calibrated = stack.fit(X[:2_000], y[:2_000]).predict_proba(X[2_000:])[:, 1]

    raw = model.fit(X[:2_000], y[:2_000]).predict_proba(X[2_000:])[:, 1]
    assert raw.sum() > 1.3 * y[2_000:].sum()
    assert calibrated.sum() == pytest.approx(y[2_000:].sum(), rel=0.1)
    assert stack.final_estimator_.calibration_.atlas.campaigns == ("0", "1", "2")


def test_decision_functions_are_log_odds_and_bad_settings_are_named():
    y, scores = columns()["outcome"], columns()["score"][:, None]
    log_odds = np.log(scores / (1 - scores))

    found = CampaignCalibrator().fit(log_odds, y)

    by_scores = CampaignCalibrator(scale="probability").fit(scores, y)
    expected = by_scores.predict_proba(scores)
    assert np.allclose(found.predict_proba(log_odds), expected, rtol=0.02)
    with pytest.raises(ValueError, match=r"every value must be in \[0, 1\]"):
        by_scores.predict_proba(log_odds)
    with pytest.raises(ValueError, match="scale = 'odds': must be one of auto"):
        CampaignCalibrator(scale="odds").fit(scores, y)
    with pytest.raises(ValueError, match="column 'ctr' is not in X, which has score"):
        CampaignCalibrator("ctr").fit(pd.DataFrame({"score": [0.1, 0.2]}), [0, 1])


def test_without_scikit_learn_only_the_estimator_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    alone = module_from_spec(spec_from_file_location("estimators_alone", estimators.__file__))
    monkeypatch.setitem(sys.modules, "estimators_alone", alone)
    alone.__spec__.loader.exec_module(alone)

    assert alone.fit(**PAIR).to_bytes() == of_pair()
    with pytest.raises(ImportError, match="CampaignCalibrator needs scikit-learn: pip install"):
        alone.CampaignCalibrator("score")


def test_each_version_of_a_model_has_maps_of_its_own():
    columns_of, half = columns(), np.arange(len(log())) % 2 == 0
    scores = np.where(half, columns_of["score"] / 2, columns_of["score"])
    versions = np.where(half, "v2", "")
    others = [columns_of[name] for name in ("outcome", "campaign", "time")]

    found = fit(scores, *others, model_versions=versions)
    blind = fit(scores, *others)

    names = columns_of["campaign"]
    losses = [
        log_loss(one, columns_of["outcome"])
        for one in (found.predict(scores, names, versions), blind.predict(scores, names))
    ]
    assert losses[0] < losses[1] - 0.001
    unknown = found.predict([0.1], [names[0]], ["v9"])
    assert unknown == found.predict([0.1], [names[0]]) == found.predict([0.1], [names[0]], [None])


@pytest.mark.parametrize("wrong", ["a\nb", 7, "x" * 65])
def test_a_version_that_cannot_be_is_named_with_its_row(wrong):
    with pytest.raises(ValueError, match=r"model_versions\[1\] = .*must have 1 to 64 bytes"):
        fit([0.1, 0.2], [0, 1], model_versions=["v1", wrong])
    with pytest.raises(ValueError, match="model_versions"):
        fit([0.1, 0.2], [0, 1], model_versions=["v1"])


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_what_is_missing_is_no_name(missing):
    """Of NaN beside texts numpy makes a campaign called nan; NA is neither equal nor unequal."""
    with pytest.raises(ValueError, match=r"campaigns\[2\] = .*: a campaign is a string"):
        fit([0.1] * 4, [0, 1, 0, 1], ["a", "a", missing, missing])
    versions = fit([0.1] * 4, [0, 1, 0, 1], model_versions=["a", "a", missing, missing])
    assert (
        versions.to_bytes()
        == fit([0.1] * 4, [0, 1] * 2, model_versions=["a", "a", "", ""]).to_bytes()
    )
    assert field_rce([0.2, 0.2, 0.5, 0.5], [0, 1, 0, 1], ["a", "a", missing, missing]) == 0.3


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("scale", ["auto", "log_odds"])
def test_infinite_scores_are_refused(wrong, scale):
    """They were taken for log odds, and all others with them."""
    frame = pd.DataFrame({"score": [0.1, 0.2, wrong], "campaign": ["a", "a", "b"]})
    made = CampaignCalibrator("score", "campaign", scale=scale)
    with pytest.raises(ValueError, match=r"scores\[2\] = -?(inf|nan): every score must be finite"):
        made.fit(frame, [0, 1, 0])
    fitted = made.fit(frame[:2], [0, 1])
    with pytest.raises(ValueError, match=r"scores\[2\] = -?(inf|nan): every score must be finite"):
        fitted.predict_proba(frame)
