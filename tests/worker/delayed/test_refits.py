"""Refits of delayed targets: labels to the last bit, and what stays when things fail."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from app.storage.bins import BinsStore
from app.storage.models import Trained
from app.storage.versions import Versions
from app.worker.delayed_targets import DelayedTargets
from app.worker.refit import Refitter, Request
from app.worker.relabelling import KnownClicks, label_inputs, score
from calibrators import Atlas, BinsTable, CalibrationMap, Sufficiency, make_calibrator, refit
from evaluation.backtest.click_history import ClickWindows, PostClickHistory
from pccem import Features, LabelRules, TrainingRules
from tests.worker.delayed.click_world import (
    AS_OF,
    DAY,
    NOW,
    TARGET,
    WINDOW,
    LoggedStream,
    delayed_settings,
)

HOUR = 3600.0


class World:
    """A worker's parts on one store and one click log."""

    def __init__(self, settings, client, lease):
        self.settings = settings
        self.lease = lease
        self.versions = Versions(client, 8)
        bins = BinsStore(client, settings.ttl_seconds)
        self.refitter = Refitter(settings, bins, self.versions)
        self.delayed = DelayedTargets(settings, client, self.versions, self.refitter.cache)
        self.refitter.delayed = self.delayed
        # The trial in another process has tests of its own.
        self.delayed.cache._trial = lambda data: None

    def train(self, as_of):
        return self.delayed.train(TARGET, as_of, self.lease.token, lambda: NOW)

    def refit(self, as_of, target=None, campaigns=None):
        request = Request(as_of, target, campaigns)
        return self.refitter.run(request, self.lease.token, lambda: NOW)

    def atlas(self, report):
        packed = self.versions.load(report["version"]).atlases
        return Atlas.from_bytes(packed[TARGET]) if TARGET in packed else None


@pytest.fixture
def world(settings, redis_client, lease):
    return World(settings, redis_client, lease)


@pytest.fixture
def trained(world, logged, in_force):
    """With a model of the whole stream in force."""
    return world


def with_features(stream, columns):
    """The first fifty clicks with other features."""
    clicks = stream.clicks.select(slice(0, 50))
    return replace(clicks, features=Features(columns, 50))


def expected_atlas(settings, stream, labels, chosen):
    clicks = stream.clicks.select(chosen)
    rows = clicks.rows.astype(np.int64)
    counts = np.ones(len(clicks))
    window = BinsTable.from_columns(clicks.campaigns, rows, clicks.scores, counts, labels)
    sufficiency = Sufficiency(settings.min_samples, settings.min_positives)
    return refit(window, make_calibrator(settings.calibrator, settings.bin_size), sufficiency).atlas


def history_of(stream):
    windows = ClickWindows(hours=6, post_click=HOUR, attribution=WINDOW)
    rules = TrainingRules(days=2, min_clicks=500, num_threads=1)
    return PostClickHistory(stream, windows, rules)


@pytest.mark.parametrize("mode", ["posterior", "paper"])
def test_maps_are_those_of_the_offline_backtest(
    redis_client, lease, logged, stream, tmp_path, mode
):
    """The service and the science are one code: labels and maps to the last bit."""
    settings = delayed_settings(data_dir=tmp_path, labels=mode)
    world = World(settings, redis_client, lease)
    world.train(AS_OF)
    offline = history_of(stream)

    for hours in (0, 1, 9):
        report = world.refit(AS_OF + hours * HOUR)

        chosen, labels = offline.labels(AS_OF + hours * HOUR, LabelRules(mode, True))
        expected = expected_atlas(settings, stream, labels, chosen)
        assert world.atlas(report).to_bytes() == expected.to_bytes(), hours
        assert report["targets"][TARGET]["source"] == "model"


def test_delays_alone_are_a_source_before_a_first_model(
    redis_client, lease, logged, stream, tmp_path
):
    """The score itself, corrected by what has been seen, whatever mode is set."""
    settings = delayed_settings(data_dir=tmp_path, labels="paper", min_training_clicks=10**6)
    world = World(settings, redis_client, lease)
    world.train(AS_OF)

    report = world.refit(AS_OF)

    target = report["targets"][TARGET]
    assert (target["source"], target["labels"]["mode"]) == ("delays", "posterior")
    raw, labels = target["window"]["raw"], target["labels"]
    recent = stream.select(stream.between(AS_OF - 7 * HOUR, AS_OF - HOUR))
    assert labels["expected"] == pytest.approx(recent.outcomes(WINDOW).sum(), rel=0.25)
    assert raw["pcoc"] == pytest.approx(recent.clicks.scores.sum() / labels["expected"], rel=1e-6)


def test_the_report_says_how_scores_and_served_probabilities_meet_the_labels(world, logged, stream):
    trained = world.train(AS_OF)

    target = world.refit(AS_OF)["targets"][TARGET]

    assert target["labels"]["clicks"] == target["window"]["raw"]["n"]
    known = stream.select(stream.between(AS_OF - 7 * HOUR, AS_OF - HOUR))
    seen = known.attribution(window=WINDOW, as_of=AS_OF).converted.sum()
    assert target["labels"]["seen"] == seen
    for span in ("hour", "window"):
        raw, served = target[span]["raw"], target[span]["calibrated"]
        assert served["pcoc"] == pytest.approx(raw["pcoc"] / 2, rel=1e-6)
    newest = stream.between(AS_OF - 2 * HOUR, AS_OF - HOUR)
    assert target["hour"]["raw"]["n"] == newest.stop - newest.start
    assert target["judged_until"] == AS_OF - HOUR
    assert target["fitted_as_of"] == AS_OF
    assert target["model"]["version"] == trained["version"]
    assert target["model"]["trained_at"] == NOW
    assert target["matured"] == trained["matured"]
    assert target["labels"]["ratio"] == pytest.approx(
        target["labels"]["seen"] / target["labels"]["due"]
    )


def test_clicks_of_which_nobody_knows_what_served_them_are_judged_raw_only(
    world, in_force, log, stream
):
    LoggedStream(log, stream).write(AS_OF - 8 * HOUR, AS_OF, served=None)

    target = world.refit(AS_OF)["targets"][TARGET]

    assert target["window"]["raw"]["n"] > 0
    assert target["window"]["calibrated"]["n"] == 0


def test_without_a_source_the_maps_in_force_stay(world, logged):
    before = world.refit(AS_OF)
    in_force = Atlas.build({"big": CalibrationMap.proportional(0.25)})
    packed = {TARGET: in_force.to_bytes()}
    report = {"as_of": AS_OF, "targets": {TARGET: {"fitted": 1, "fitted_as_of": AS_OF + 60}}}
    world.versions.publish(world.lease.token, AS_OF + 60, NOW, packed, report)

    after = world.refit(AS_OF + 1)

    assert world.atlas(before) is None
    assert before["targets"][TARGET] == {"source": "none"}
    assert world.atlas(after).to_bytes() == in_force.to_bytes()
    assert after["targets"][TARGET] == {"fitted": 1, "fitted_as_of": AS_OF + 60, "source": "none"}
    assert after["as_of"] == AS_OF + 60


def test_a_model_of_the_future_is_no_source(trained):
    """Labels as of a moment come from what was known then."""
    assert trained.refit(AS_OF - HOUR)["targets"][TARGET] == {"source": "none"}


def test_a_model_of_another_window_is_no_source(trained, redis_client, lease, tmp_path):
    other = delayed_settings(data_dir=tmp_path, attribution_hours={TARGET: 23})

    report = World(other, redis_client, lease).refit(AS_OF)

    assert report["targets"][TARGET]["source"] == "none"


@pytest.mark.slow
def test_a_refit_of_one_target_leaves_the_others(trained):
    first = trained.refit(AS_OF)

    clicks = trained.refit(AS_OF + HOUR, target="click")
    conversions = trained.refit(AS_OF + HOUR, target=TARGET)

    assert trained.atlas(clicks).to_bytes() == trained.atlas(first).to_bytes()
    assert trained.atlas(conversions).to_bytes() != trained.atlas(first).to_bytes()
    assert conversions["targets"]["click"]["fitted_as_of"] == AS_OF + HOUR
    assert clicks["targets"][TARGET] == first["targets"][TARGET]


def test_a_refit_of_one_campaign_leaves_the_others(trained):
    first = trained.refit(AS_OF)

    second = trained.refit(AS_OF + 5 * HOUR, TARGET, ["small"])

    before, after = trained.atlas(first), trained.atlas(second)
    assert after.map_of("small") != before.map_of("small")
    assert after.map_of("big") == before.map_of("big")
    assert second["targets"][TARGET]["fitted_as_of"] == AS_OF


def test_a_feature_that_nobody_sends_any_more_is_missing(trained, stream):
    """And one that is new is left out, until the next training."""
    model = trained.delayed.cache.newest(TARGET, WINDOW, AS_OF).model
    columns = stream.clicks.features.columns
    kept = {name: columns[name][:50] for name in ("behaviour.page_views",)}
    changed = with_features(stream, {**kept, "feature.new": columns["feature.age"][:50]})

    scores = score(model, changed)

    assert scores.shape == (50,)
    assert ((scores > 0) & (scores < 1)).all()


def test_a_feature_that_changed_its_kind_leaves_the_delays(trained, stream):
    shelved = trained.delayed.cache.newest(TARGET, WINDOW, AS_OF)
    text = stream.clicks.features.columns["feature.device"].select(slice(0, 50))
    changed = with_features(stream, {"feature.age": text})

    source = label_inputs(shelved, changed, trained.settings)

    assert source.source == "delays"
    assert source.rules == LabelRules("posterior", True)
    assert (source.probabilities == changed.scores).all()


def test_a_model_without_delays_labels_as_the_paper_does(trained, stream):
    shelved = replace(trained.delayed.cache.newest(TARGET, WINDOW, AS_OF), delays=None)

    source = label_inputs(shelved, stream.clicks, trained.settings)

    assert (source.source, source.rules) == ("model", LabelRules("paper", False, 3600.0))


@pytest.mark.slow
def test_days_are_kept_until_their_outcomes_are_known(trained, stream):
    """Expected conversions are those of the refit that saw most of the day."""
    for hours in range(0, 30, 3):
        report = trained.refit(AS_OF + hours * HOUR)
    day = [d for d in report["targets"][TARGET]["days"] if d["first"] >= AS_OF]

    trained.train(AS_OF + DAY)
    found = trained.delayed.train(TARGET, AS_OF + 2 * DAY, trained.lease.token, lambda: NOW)

    (record,) = found["matured"]["days"][-1:]
    span = stream.select(stream.between(record["first"], record["behind"]))
    assert record["first"] in [d["first"] for d in day]
    assert record["behind"] - record["first"] == 6 * HOUR
    assert record["observed"] == span.outcomes(WINDOW).sum()
    assert record["expected"] == pytest.approx(record["observed"], rel=0.35)


def test_a_damaged_part_is_put_aside_and_the_rest_goes_on(trained, settings, stream):
    hour = datetime.fromtimestamp(AS_OF - 3 * HOUR, UTC)
    folder = settings.data_dir / "click-log/clicks" / f"{hour:date=%Y-%m-%d/hour=%H}"
    (part,) = folder.glob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))

    target = trained.refit(AS_OF)["targets"][TARGET]

    lost = stream.between(AS_OF - 3 * HOUR, AS_OF - 2 * HOUR)
    recent = stream.between(AS_OF - 7 * HOUR, AS_OF - HOUR)
    assert target["source"] == "model"
    assert target["labels"]["clicks"] == recent.stop - recent.start - (lost.stop - lost.start)
    assert trained.delayed.state()["damaged_parts"] == 1


def test_a_click_log_that_is_away_leaves_the_maps_and_the_other_targets(
    trained, redis_client, lease, tmp_path
):
    first = trained.refit(AS_OF)
    away = delayed_settings(data_dir=tmp_path, click_log_url="s3://at-all?nowhere=1")
    blind = World(away, redis_client, lease)

    report = blind.refit(AS_OF + HOUR)

    assert blind.refitter.left_alone == 1
    assert trained.atlas(report).to_bytes() == trained.atlas(first).to_bytes()
    assert report["targets"]["click"]["fitted_as_of"] == AS_OF + HOUR
    assert report["targets"][TARGET] == first["targets"][TARGET]


def test_without_recent_clicks_the_maps_in_force_stay(trained):
    first = trained.refit(AS_OF)

    silent = trained.refit(AS_OF + 3 * DAY)

    assert trained.atlas(silent).to_bytes() == trained.atlas(first).to_bytes()
    assert silent["targets"][TARGET]["source"] == "none"
    assert silent["targets"][TARGET]["fitted_as_of"] == AS_OF


def test_what_one_delayed_target_breaks_on_leaves_it_alone(
    redis_client, lease, logged, in_force, tmp_path
):
    settings = delayed_settings(
        data_dir=tmp_path,
        delayed_targets=("install", TARGET),
        attribution_hours={TARGET: 24, "install": 24},
    )
    world = World(settings, redis_client, lease)
    models = world.delayed.models
    broken = Trained("install", WINDOW, AS_OF, NOW, "delays", {}, {"schema_version": 9})
    models.publish(lease.token, broken)
    odd = Trained("install", WINDOW, AS_OF - 1, NOW, "delays", {}, None)
    models.publish(lease.token, odd)

    report = world.refit(AS_OF)

    assert report["targets"]["install"] == {"source": "none"}
    assert report["targets"][TARGET]["source"] == "model"
    assert world.delayed.cache.refused == 1


def test_without_delays_nobody_knows_what_is_due(trained, logged, settings):
    shelved = replace(trained.delayed.cache.newest(TARGET, WINDOW, AS_OF), delays=None)

    recent = KnownClicks(logged, shelved, TARGET, AS_OF, settings).relabelled()

    labels = recent.report(settings)["labels"]
    assert (labels["due"], labels["ratio"], labels["mode"]) == (None, None, "paper")
    assert labels["expected"] == pytest.approx(recent.labels.sum())
