"""Fits in notebooks: the maps of the backtest, from any kind of column, and by scikit-learn."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

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
from evaluation import Platform, backtest, log_loss
from evaluation.estimators import CampaignCalibrator, FittedCalibration, fit

HOUR = 3600.0


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
    return fit(*columns().values())


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

    found = fit(made["score"], made["outcome"], made["campaign"], made["time"])

    assert found.to_bytes() == fitted().to_bytes()
    assert np.array_equal(
        found.predict(made["score"], made["campaign"]),
        fitted().predict(columns()["score"], columns()["campaign"]),
    )


def test_the_bytes_bring_the_maps_back():
    again = FittedCalibration.from_bytes(fitted().to_bytes())

    scores = np.linspace(0, 1, 50)
    assert np.array_equal(again.predict(scores), fitted().predict(scores))
    assert np.array_equal(
        again.predict(scores, ["campaign-02"] * 50), fitted().predict(scores, ["campaign-02"] * 50)
    )


def test_weights_are_repetitions_and_a_row_of_weight_0_is_not_there():
    scores, outcomes = [0.1, 0.2, 0.3, 0.9], [0, 1, 1, 1]
    weighted = fit(scores, outcomes, weights=[3, 2, 1, 0])

    plain = fit([0.1] * 3 + [0.2] * 2 + [0.3], [0] * 3 + [1] * 3)

    assert weighted.to_bytes() == plain.to_bytes()
    assert weighted.to_bytes() != fit(scores, outcomes).to_bytes()


def test_campaigns_are_names_or_whole_numbers():
    by_number = fit([0.1, 0.2], [0, 1], [1.0, 2.0]).to_bytes()

    assert by_number == fit([0.1, 0.2], [0, 1], ["1", "2"]).to_bytes()
    assert by_number == fit([0.1, 0.2], [0, 1], np.array([1, 2])).to_bytes()


def test_only_rows_of_the_window_count():
    inside = fit([0.1] * 9, [0, 1, 0] * 3, times=[50 * HOUR] * 9).to_bytes()
    times = [HOUR, *[50 * HOUR] * 9, 60 * HOUR]

    found = fit([0.9, *[0.1] * 9, 0.9], [1, *[0, 1, 0] * 3, 1], times=times, as_of=51 * HOUR)

    assert found.to_bytes() == inside


def test_datetimes_are_utc_unless_they_name_a_zone():
    berlin = timezone(timedelta(hours=1))
    naive, utc = datetime(2026, 1, 5, 9), datetime(2026, 1, 5, 9, tzinfo=UTC)
    elsewhere = datetime(2026, 1, 5, 10, tzinfo=berlin)
    numbers = [utc.timestamp(), utc.timestamp() - 7200]

    expected = fit([0.1, 0.2], [0, 1], times=numbers, as_of=utc.timestamp() + 9).to_bytes()
    for moment in (naive, utc, elsewhere):
        times = [moment, moment - timedelta(hours=2)]
        found = fit([0.1, 0.2], [0, 1], times=times, as_of=utc.timestamp() + 9)
        assert found.to_bytes() == expected


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
    ],
)
def test_bad_columns_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        fit(*given)


def test_bad_weights_are_named():
    for weights, message in (([-1, 1], r"weights\[0\] = -1"), ([0, 0], "all of them are zero")):
        with pytest.raises(ValueError, match=message):
            fit([0.1, 0.2], [0, 1], weights=weights)


@pytest.mark.parametrize("name", ["pooled", "sir", "platt"])
def test_the_estimator_keeps_the_rules_of_scikit_learn(name):
    found = check_estimator(CampaignCalibrator(method=name), on_fail=None, on_skip=None)

    wrong = [check for check in found if check["status"] not in ("passed", "skipped")]
    assert len(found) > 40
    assert wrong == []


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_estimator_reads_frames_and_is_the_fit(kind):
    frame = kind(columns())
    estimator = CampaignCalibrator("score", "campaign", "time")

    estimator.fit(frame, frame["outcome"])

    assert estimator.calibration_.to_bytes() == fitted().to_bytes()
    expected = fitted().predict(columns()["score"], columns()["campaign"])
    assert np.array_equal(estimator.predict_proba(frame)[:, 1], expected)
    out_of_fold = cross_val_predict(
        estimator, frame, frame["outcome"], cv=3, method="predict_proba"
    )
    y, score = columns()["outcome"], columns()["score"]
    assert log_loss(out_of_fold[:, 1], y) < log_loss(score, y)


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


def test_decision_functions_are_log_odds():
    scores = columns()["score"]
    log_odds = np.log(scores / (1 - scores))[:, None]

    found = CampaignCalibrator().fit(log_odds, columns()["outcome"])

    assert (found.scale_, found.classes_.tolist()) == ("log_odds", [0.0, 1.0])
    by_scores = CampaignCalibrator(scale="probability").fit(scores[:, None], columns()["outcome"])
    expected = by_scores.predict_proba(scores[:, None])
    assert np.allclose(found.predict_proba(log_odds), expected, rtol=0.02)
    with pytest.raises(ValueError, match=r"every value must be in \[0, 1\]"):
        by_scores.predict_proba(log_odds)


def test_bad_settings_of_the_estimator_are_named():
    X = pd.DataFrame({"score": [0.1, 0.2]})
    with pytest.raises(ValueError, match="scale = 'odds': must be one of auto"):
        CampaignCalibrator(scale="odds").fit(X, [0, 1])
    with pytest.raises(ValueError, match="column 'ctr' is not in X, which has score"):
        CampaignCalibrator("ctr").fit(X, [0, 1])


def test_without_scikit_learn_only_the_estimator_is_missing():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from evaluation.estimators import CampaignCalibrator, fit\n"
        "fit([0.1, 0.2], [0, 1])\n"
        "try: CampaignCalibrator('score')\n"
        "except ImportError as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (found.stdout.strip(), found.stderr) == (
        "CampaignCalibrator needs scikit-learn: pip install 'scikit-learn>=1.6'",
        "",
    )
