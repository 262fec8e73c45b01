"""Trainings on a real click log and real Redis: what is published, carried on and refused."""

from dataclasses import replace

import numpy as np
import pytest

from app.click_log.log import ClickLog
from app.storage.blocks import StoredConversion
from app.worker.relabelling import score
from app.worker.training import MaturedClicks, NothingToTrain, Trainer, TrainingTask
from evaluation import auc, log_loss, pcoc
from pccem import Features, TrainingRules, train
from tests.worker.delayed.click_world import (
    DAY,
    MIDNIGHT,
    NOW,
    TARGET,
    WINDOW,
    LoggedStream,
    delayed_settings,
)
from tests.worker.delayed.conftest import KEY


@pytest.fixture
def trainer(models, shelf):
    return Trainer(delayed_settings(), models, shelf, lambda: KEY)


@pytest.fixture
def run(trainer, log, lease):
    """Trains as of so many days after the first midnight."""

    def train_as_of(days, expected=()):
        order = TrainingTask(TARGET, WINDOW, MIDNIGHT + days * DAY, expected)
        return trainer.run(log, order, lease.token, lambda: NOW + days)

    return train_as_of


def test_the_model_is_that_of_the_offline_training(run, logged, stream, shelf):
    """The service and the science are one code: the same bytes of the same clicks."""

    report = run(4)

    past = stream.select(stream.between(MIDNIGHT, MIDNIGHT + 4 * DAY))
    known = past.attribution(window=WINDOW, as_of=MIDNIGHT + 4 * DAY)
    rules = TrainingRules(days=2, min_clicks=500, num_threads=1, post_click=3600.0)
    expected = train(past.clicks, known, as_of=MIDNIGHT + 4 * DAY, rules=rules)
    shelved = shelf.newest(TARGET, WINDOW, MIDNIGHT + 4 * DAY)
    assert shelved.model.to_bytes() == expected.model.to_bytes()
    assert report["training"] == {**expected.report, "refused": None}
    assert (report["version"], report["source"]) == (shelved.version, "model")


@pytest.mark.slow
def test_what_comes_after_the_moment_is_not_known(run, log, stream, models):
    logged = LoggedStream(log, stream)
    logged.write(MIDNIGHT, MIDNIGHT + 4 * DAY)
    first = run(4)
    logged.write(MIDNIGHT + 4 * DAY, MIDNIGHT + 5 * DAY)

    again = run(4)

    assert again["training"]["log_loss"] == first["training"]["log_loss"]
    assert again["delay_median"] == first["delay_median"]


def test_delays_of_young_clicks_count(training, stream):
    delays = stream.delay[~np.isnan(stream.delay)]
    assert training.report["delay_median"] == pytest.approx(np.median(delays), rel=0.1)


def test_the_model_in_force_is_judged_on_what_has_matured_since(
    run, logged, training, in_force, stream, shelf
):
    """Out of sample: yesterday's model has not seen the clicks that matured today."""
    before = shelf.newest(TARGET, WINDOW, MIDNIGHT + 4 * DAY).model

    matured = run(5)["matured"]

    day = stream.select(stream.between(MIDNIGHT + 3 * DAY, MIDNIGHT + 4 * DAY))
    asked = day.select(~(day.delay < 3600.0))
    scores, later = score(before, asked.clicks), asked.outcomes(WINDOW)
    outcomes = day.outcomes(WINDOW)
    assert training.report["matured"]["model"] is None
    assert matured["model"]["auc"] == pytest.approx(auc(scores, later), rel=1e-9)
    assert matured["model"]["log_loss"] == pytest.approx(log_loss(scores, later), rel=1e-9)
    assert matured["model"]["pcoc"] == pytest.approx(pcoc(scores, later), rel=1e-9)
    raw, served = matured["raw"], matured["calibrated"]
    assert raw["pcoc"] == pytest.approx(pcoc(day.clicks.scores, outcomes), rel=1e-6)
    assert served["pcoc"] == pytest.approx(raw["pcoc"] / 2, rel=1e-6)
    assert (matured["first"], matured["behind"]) == (MIDNIGHT + 3 * DAY, MIDNIGHT + 4 * DAY)


def test_the_report_of_a_missed_day_covers_all_that_matured_since(run, logged, stream):
    run(3)

    matured = run(5)["matured"]

    both = stream.select(stream.between(MIDNIGHT + 2 * DAY, MIDNIGHT + 4 * DAY))
    assert (matured["first"], matured["behind"]) == (MIDNIGHT + 2 * DAY, MIDNIGHT + 4 * DAY)
    assert matured["raw"]["n"] == len(both)
    assert matured["model"]["n"] == len(both) - (both.delay < 3600.0).sum()


@pytest.mark.slow
def test_a_second_training_as_of_one_moment_is_judged_by_the_day_before(run, logged, in_force):
    """The first model of the moment has learnt from the day."""
    once = run(5)["matured"]

    assert run(5)["matured"] == once


def test_expected_conversions_meet_those_observed(run, logged, stream):
    days = [
        {
            "first": MIDNIGHT + day * DAY,
            "behind": MIDNIGHT + (day + 1) * DAY,
            "as_of": 0.0,
            "clicks": 2400,
            "expected": 100.0 + day,
        }
        for day in range(5)
    ]

    found = run(5, days)["matured"]["days"]

    of_day = [stream.select(stream.between(d["first"], d["behind"])) for d in days]
    assert [(d["expected"], d["observed"]) for d in found] == [
        (102.0, of_day[2].outcomes(WINDOW).sum()),
        (103.0, of_day[3].outcomes(WINDOW).sum()),
    ]


def test_observed_conversions_of_a_sample_stand_for_all(trainer, logged, lease, stream):
    few = delayed_settings(training_clicks=1200)
    day = {"first": MIDNIGHT + 2 * DAY, "behind": MIDNIGHT + 3 * DAY, "expected": 1.0}
    order = TrainingTask(TARGET, WINDOW, MIDNIGHT + 4 * DAY, [day])
    sampled = Trainer(few, trainer.models, trainer.cache, trainer.key)

    (found,) = sampled.run(logged, order, lease.token, lambda: NOW)["matured"]["days"]

    truth = stream.select(stream.between(day["first"], day["behind"])).outcomes(WINDOW).sum()
    assert found["observed"] == pytest.approx(truth, rel=0.15)


def test_with_few_conversions_there_are_delays_only(trainer, logged, lease, models):
    many = delayed_settings(min_training_clicks=1_000_000)
    strict = Trainer(many, models, trainer.cache, trainer.key)

    report = strict.run(
        logged, TrainingTask(TARGET, WINDOW, MIDNIGHT + 4 * DAY), lease.token, lambda: NOW
    )

    shelved = trainer.cache.newest(TARGET, WINDOW, MIDNIGHT + 4 * DAY)
    assert (report["source"], shelved.model) == ("delays", None)
    assert shelved.delays.median() == report["delay_median"]
    assert "1000000" in report["training"]["refused"].replace(",", "")


def test_without_clicks_nothing_is_published(run, models, redis_client):
    with pytest.raises(NothingToTrain, match=r"mature clicks: training needs at least"):
        run(4)

    assert models.history(TARGET) == []


@pytest.mark.slow
def test_a_refused_training_leaves_the_model_in_force(logged, in_force, trainer, lease, models):
    """And its delay distribution is new all the same."""
    before = trainer.cache.newest(TARGET, WINDOW, MIDNIGHT + 4 * DAY)
    many = delayed_settings(min_training_clicks=1_000_000)
    strict = Trainer(many, models, trainer.cache, trainer.key)

    strict.run(
        logged, TrainingTask(TARGET, WINDOW, MIDNIGHT + 5 * DAY), lease.token, lambda: NOW + 5
    )

    after = trainer.cache.newest(TARGET, WINDOW, MIDNIGHT + 5 * DAY)
    assert after.version != before.version
    assert after.trained.model == before.trained.model
    assert after.trained.report["model"] == before.trained.report["model"]
    assert after.trained.report["model"]["trained_at"] == NOW
    assert after.trained.delays != before.trained.delays
    assert after.trained.report["training"]["refused"]


def test_when_the_clicks_are_gone_all_stays_in_force(in_force, trainer, tmp_path, lease):
    before = trainer.cache.newest(TARGET, WINDOW, MIDNIGHT + 4 * DAY).trained
    empty = ClickLog.open(str(tmp_path / "empty"))

    trainer.run(empty, TrainingTask(TARGET, WINDOW, MIDNIGHT + 5 * DAY), lease.token, lambda: NOW)

    after = trainer.cache.newest(TARGET, WINDOW, MIDNIGHT + 5 * DAY).trained
    assert (after.model, after.delays) == (before.model, before.delays)


@pytest.mark.slow
def test_strays_are_counted_once_over_all_trainings(run, logged, stream):
    """Each a day after it came, so that its click is closed by then."""
    click = float(stream.clicks.clicked_at[0])
    logged.write_conversions(
        [
            StoredConversion("nobody", TARGET, MIDNIGHT + 2.5 * DAY),
            StoredConversion("nobody", TARGET, MIDNIGHT + 3.5 * DAY),
            StoredConversion("nobody", TARGET, MIDNIGHT + 4.5 * DAY),
            StoredConversion("click-0", TARGET, click + 2.5 * DAY),
            StoredConversion("click-5600", TARGET, MIDNIGHT + 3.1 * DAY),
        ]
    )

    counts = [run(days)["strays"] for days in (4, 5, 5)]

    told = [(row["orphans"], row["late"], row["early"]) for row in counts]
    assert told == [(1, 1, 0), (2, 1, 1), (2, 1, 1)]


def test_a_model_that_cannot_read_the_days_features_has_no_quality(logged, in_force, shelf):
    """The day's clicks have another kind of feature than it was trained on."""
    model = shelf.newest(TARGET, WINDOW, MIDNIGHT + 4 * DAY)
    clicks, known = logged.known(
        TARGET, MIDNIGHT, MIDNIGHT + DAY, window=WINDOW, as_of=MIDNIGHT + 5 * DAY
    )
    text = clicks.clicks.features.columns["feature.device"]
    changed = replace(clicks.clicks, features=Features({"feature.age": text}, len(clicks)))

    matured = MaturedClicks(replace(clicks, clicks=changed), known)

    report = matured.report((MIDNIGHT, MIDNIGHT + DAY), model, 1)
    assert report["model"] is None
    assert report["raw"]["n"] == len(clicks)
    without = replace(model, model=None)
    assert matured.report((MIDNIGHT, MIDNIGHT + DAY), without, 1)["model"] is None
