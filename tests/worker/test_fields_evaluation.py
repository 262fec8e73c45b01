"""What is reported of campaigns that have one value of a field each is what was served."""

import numpy as np
import pytest

from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import NO_TERMS, Terms
from app.storage.lease import Lease
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion, Steering
from app.worker.experiments import Canary, _Watch
from app.worker.refit import Refitter, Request
from calibrators import Atlas, CalibrationMap
from calibrators.arms import ARMS, CHALLENGER
from calibrators.fields.effects import EffectTable, FieldEffects
from tests.worker.conftest import HOUR

SECONDS = 3600
LOG_ODDS = {"": 0.0, "ios": 0.7, "tv": -0.7}


def batch_of(hour: int, terms: Terms = NO_TERMS) -> EventBatch:
    batch, rng = EventBatch(), np.random.default_rng(hour)
    for place in range(8000):
        device = ("ios", "tv")[place % 2]
        served = 1 / (1 + 9 * np.exp(-LOG_ODDS[device]))
        came = float(rng.random() < served)
        event = f"on {device}", 0.1, 1.0, came
        batch.add("click", hour, *event, terms=terms, fields={"device": device})
    return batch


def test_campaigns_are_evaluated_with_the_effects_that_served_them(redis_client, settings, append):
    settings = settings.model_copy(update={"fields": ("device",)})
    bins = BinsStore(redis_client, 24 * SECONDS, fields=DeclaredFields.of(settings))
    versions, lease = Versions(redis_client, 9), Lease(redis_client, "worker", "me", 60.0)
    assert lease.acquire()
    effects = FieldEffects({"device": EffectTable.of(LOG_ODDS, {})})
    atlas = Atlas.build({}, CalibrationMap.proportional(1.0)).with_effects(effects)
    versions.publish(lease.token, float(HOUR * SECONDS), 0.0, {"click": atlas.to_bytes()}, {})
    append(batch_of(HOUR))

    moment = float((HOUR + 1) * SECONDS)
    report = Refitter(settings, bins, versions).run(Request(moment), lease.token, lambda: moment)

    found = {row["campaign"]: row for row in report["targets"]["click"]["top"]}
    assert {name: row["pcoc_calibrated"] for name, row in found.items()} == {
        name: pytest.approx(1.0, abs=0.12) for name in ("on ios", "on tv")
    }
    assert min(abs(row["pcoc_raw"] - 1.0) for row in found.values()) > 0.3


def test_a_canary_compares_maps_with_the_effects_that_serve_them(redis_client, settings, append):
    """Both are right: one has a map of each campaign, the other the effects of the field."""
    settings = settings.model_copy(update={"fields": ("device",)})
    bins = BinsStore(redis_client, 24 * SECONDS, fields=DeclaredFields.of(settings))
    for hour in range(HOUR, HOUR + 3):
        append(batch_of(hour, NO_TERMS._replace(arm=ARMS.index(CHALLENGER))))
    effects = FieldEffects({"device": EffectTable.of(LOG_ODDS, {})})
    bins.fold()
    on_trial = Atlas.build({}, CalibrationMap.proportional(1.0)).with_effects(effects)
    odds = {name: np.exp(value) / 9 for name, value in LOG_ODDS.items()}
    champion = Atlas.build(
        {f"on {name}": CalibrationMap.proportional(10 * o / (1 + o)) for name, o in odds.items()}
    )
    versions = Versions(redis_client, 9)
    canary = Canary(settings, bins, versions, AtlasCache(versions))
    steering = Steering(challengers={"click": on_trial})
    served = CachedVersion(0.0, {"click": champion}, steering=steering)
    watch = _Watch.of({"watch": {}, "since": 0.0})

    for hour in range(HOUR, HOUR + 3):
        watch = canary._after(watch, "click", hour, served, {})

    assert watch.predicted > 0.0
    assert watch.predicted == pytest.approx(watch.predicted_by_champion, rel=0.01)
    assert watch.reason is None
