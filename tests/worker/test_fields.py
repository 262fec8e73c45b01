"""A worker with declared fields: sums by the maps in force, what a refit is given of them, and that
what is reported of campaigns that have one value of a field each is what was served."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.click_log.log import ClickLog
from app.click_log.rows import ClosedClick
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import NO_TERMS, Terms
from app.storage.overrides import FrozenTargets
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion, Steering
from app.worker.experiments import Canary, _Watch
from app.worker.fitting import Methods
from app.worker.refit import Refitter, Request
from app.worker.relabelling import RelabelledClicks
from calibrators import Atlas, CalibrationMap
from calibrators.arms import ARMS, CHALLENGER
from calibrators.bins.codecs import SCALE
from calibrators.bins.table import History
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.sums import SEPARATOR
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import FieldGroups, GroupMaps
from tests.click_log.rows import START, WINDOW, click, clicks_in
from tests.worker.conftest import HOUR

SECONDS = 3600
VALUES = ("", "ios", "android")
THIRD = CalibrationMap.proportional(1 / 3)
LOG_ODDS = {"": 0.0, "ios": 0.7, "tv": -0.7}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"fields": ("device",)})


@pytest.fixture
def bins(redis_client, settings) -> BinsStore:
    return BinsStore(redis_client, 24 * SECONDS, fields=DeclaredFields.of(settings))


@pytest.fixture
def versions(redis_client) -> Versions:
    return Versions(redis_client, 9)


def batch_of(hour: int) -> EventBatch:
    batch, rng = EventBatch(), np.random.default_rng(hour)
    for place in range(600):
        said = {"device": VALUES[place % 3]} if place % 3 else None
        score = float(rng.beta(2, 30))
        came = float(rng.random() < 2 * score)
        batch.add("click", hour, "ab"[place % 2], score, 1.0, came, fields=said)
    return batch


def test_an_approval_keeps_what_a_fields_group_gives_a_frozen_campaign(
    redis_client, settings, bins, versions, lease, append
):
    """Atlases that are read from bytes do not say of which group it is."""
    frozen = FrozenTargets(redis_client)
    grouped = settings.model_copy(update={"group_field": "device"})
    refitter = Refitter(grouped, bins, versions, frozen=frozen)
    append(batch_of(HOUR))
    bins.fold()
    theirs, target, new = map(CalibrationMap.proportional, (0.3, 0.9, 0.5))
    both = MapColumns.of_maps([theirs, theirs])
    groups = GroupMaps(FieldGroups("device"), ("android", "ios"), both)
    in_force, waiting = Atlas.build({}, target, groups), Atlas.build({"a": new, "other": new})
    moment = float((HOUR + 1) * SECONDS)
    versions.publish(lease.token, moment, 1.0, {"click": in_force.to_bytes()}, {})
    held = {"click": waiting.to_bytes()}, {"targets": {"click": {}}}, {"reasons": {}}
    version = versions.hold(lease.token, moment, 1.0, *held)
    frozen.freeze(["click:a", "click:other"], 1.0)

    report = refitter.approve(version, lease.token, 2.0)

    atlas = Atlas.from_bytes(versions.load(report["version"]).atlases["click"])
    assert (atlas.map_of("a"), atlas.map_of("other")) == (theirs, target)


def test_sums_are_those_of_the_maps_in_force_and_a_refit_gets_them(
    settings, bins, versions, lease, append, monkeypatch
):
    refitter, given = Refitter(settings, bins, versions), []
    refit: Callable[..., Any] = Methods.refit

    def noted(methods: Methods, name: str, target: str, history: History, trial: bool) -> Any:
        given.append([history.fields(hour) for hour in (HOUR, HOUR + 1)])
        return refit(methods, name, target, history, trial)

    monkeypatch.setattr(Methods, "refit", noted)
    for hour in (HOUR, HOUR + 1):
        append(batch_of(hour))
        refitter.run(Request(float((hour + 1) * SECONDS)), lease.token, lambda: 0.0)
    (first, _), (again, second) = given
    maps = refitter.cache.take(versions.history()[1]["version"])

    assert first.fields["device"].campaigns == ("", "android", "ios")
    assert first.fields["device"].total() == bins.hour("click", HOUR).total()
    assert again.fields == first.fields
    predicted = maps.atlases["click"].calibrated(bins.hour("click", HOUR + 1)).total()
    found = second.fields["device"].total()
    assert found.score_sums.sum() == pytest.approx(predicted.score_sums.sum(), rel=1e-3)
    assert found.score_sums.sum() > 1.5 * bins.hour("click", HOUR + 1).total().score_sums.sum()
    assert {name.partition(SEPARATOR)[0] for name in second.campaigns["device"].campaigns} == {
        *"ab"
    }


def test_sums_are_those_of_the_group_maps_that_served(settings, bins, versions, lease, append):
    groups = GroupMaps(FieldGroups("device"), ("ios",), MapColumns.of_maps([THIRD]))
    atlas = Atlas.build({}, CalibrationMap.proportional(1.0), groups)
    versions.publish(lease.token, float(HOUR * SECONDS), 0.0, {"click": atlas.to_bytes()}, {})
    append(served_batch(HOUR))

    grouped = settings.model_copy(update={"group_field": "device"})
    moment = float((HOUR + 1) * SECONDS)
    Refitter(grouped, bins, versions).run(Request(moment), lease.token, lambda: moment)

    found = bins.field_tables("click", HOUR).fields["device"]
    sums = {name: found.bins(name).score_sums.sum() / SCALE for name in ("ios", "tv")}
    assert sums == pytest.approx({"ios": 4000 * 0.1 / 3, "tv": 4000 * 0.1})


def clicks_with_fields() -> list[ClosedClick]:
    """An hour of clicks without fields, as it was before there were any, and two with."""
    said: list[dict[str, str]] = [{}, {"device": "ios"}, {"placement": "top", "device": "web"}]
    return [
        click(f"{place}", place * 60.0, fields=said[place % 3] if place >= 60 else {})
        for place in range(180)
    ]


def test_clicks_keep_their_fields_and_labels_are_summed_by_them(tmp_path):
    log = ClickLog.open(str(tmp_path))
    clicks = clicks_with_fields()
    for part in (clicks[:100], clicks[90:]):
        log.write_clicks(part)
    log.compact(START + 3 * SECONDS)
    log.finalise({"conversion": WINDOW}, START + 2 * WINDOW)
    logged = clicks_in(log, "conversion", START, START + 3 * SECONDS)
    device, placement = (logged.fields[name] for name in ("device", "placement"))
    labels = np.linspace(0.0, 1.0, 180)
    none: Any = None
    relabelled = RelabelledClicks((START, START + 3 * SECONDS), logged, none, none, none, labels)
    declared = DeclaredFields(("device", "colour"), ("device*colour",))
    halves = Atlas.build({"shoes": CalibrationMap.proportional(0.5)})
    tables = relabelled.fields_by_hour(HOUR, declared, halves)

    assert [device.names[code] for code in device.codes] == [
        one.fields.get("device", "") for one in clicks
    ]
    assert sorted({placement.names[code] for code in placement.codes}) == ["", "top"]
    assert sorted(tables) == [HOUR - 2, HOUR - 1, HOUR]
    groups = GroupMaps(FieldGroups("device"), ("ios",), MapColumns.of_maps([THIRD]))
    grouped = relabelled.fields_by_hour(HOUR, declared, Atlas.build({}, groups=groups))
    by_group = grouped[HOUR].fields["device"]
    assert by_group.bins("ios").score_sums.sum() == pytest.approx(20 * 0.25 / 3 * SCALE)
    assert by_group.bins("web").score_sums.sum() == pytest.approx(20 * 0.25 * SCALE)
    ios = np.array([one.fields.get("device") == "ios" for one in clicks])[120:]
    found = tables[HOUR].fields["device"].bins("ios")
    assert found.total_count == 20
    assert found.score_sums.sum() == pytest.approx(20 * 0.125 * SCALE)
    assert found.positives.sum() == pytest.approx(labels[120:][ios].sum() * SCALE)
    assert tables[HOUR].fields["colour"].campaigns == ("",)


def served_batch(hour: int, terms: Terms = NO_TERMS) -> EventBatch:
    """Half of the impressions are of each device, and are served what is right for it."""
    batch, rng = EventBatch(), np.random.default_rng(hour)
    for place in range(8000):
        device = ("ios", "tv")[place % 2]
        served = 1 / (1 + 9 * np.exp(-LOG_ODDS[device]))
        came = float(rng.random() < served)
        event = f"on {device}", 0.1, 1.0, came
        batch.add("click", hour, *event, terms=terms, fields={"device": device})
    return batch


def test_campaigns_are_evaluated_with_the_effects_that_served_them(
    settings, bins, versions, lease, append
):
    effects = FieldEffects({"device": EffectTable.of(LOG_ODDS, {})})
    atlas = Atlas.build({}, CalibrationMap.proportional(1.0)).with_effects(effects)
    versions.publish(lease.token, float(HOUR * SECONDS), 0.0, {"click": atlas.to_bytes()}, {})
    append(served_batch(HOUR))

    moment = float((HOUR + 1) * SECONDS)
    report = Refitter(settings, bins, versions).run(Request(moment), lease.token, lambda: moment)

    found = {row["campaign"]: row for row in report["targets"]["click"]["top"]}
    assert {name: row["pcoc_calibrated"] for name, row in found.items()} == {
        name: pytest.approx(1.0, abs=0.12) for name in ("on ios", "on tv")
    }
    assert min(abs(row["pcoc_raw"] - 1.0) for row in found.values()) > 0.3


def test_a_canary_compares_maps_with_the_effects_that_serve_them(settings, bins, versions, append):
    """Both are right: one has a map of each campaign, the other the effects of the field."""
    for hour in range(HOUR, HOUR + 3):
        append(served_batch(hour, NO_TERMS._replace(arm=ARMS.index(CHALLENGER))))
    effects = FieldEffects({"device": EffectTable.of(LOG_ODDS, {})})
    bins.fold()
    on_trial = Atlas.build({}, CalibrationMap.proportional(1.0)).with_effects(effects)
    odds = {name: np.exp(value) / 9 for name, value in LOG_ODDS.items()}
    champion = Atlas.build(
        {f"on {name}": CalibrationMap.proportional(10 * o / (1 + o)) for name, o in odds.items()}
    )
    canary = Canary(settings, bins, versions, AtlasCache(versions))
    steering = Steering(challengers={"click": on_trial})
    served = CachedVersion(0.0, {"click": champion}, steering=steering)
    watch = _Watch.of({"watch": {}, "since": 0.0})

    for hour in range(HOUR, HOUR + 3):
        watch = canary._after(watch, "click", hour, served, {})

    assert watch.predicted > 0.0
    assert watch.predicted == pytest.approx(watch.predicted_by_champion, rel=0.01)
    assert watch.reason is None
