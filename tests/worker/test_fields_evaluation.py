"""What is reported of campaigns that have one value of a field each is what was served."""

import numpy as np
import pytest
import redis

from app.settings import Settings
from app.storage import BinsStore, EventBatch, Lease, Versions
from app.storage.statistics.breakdowns import DeclaredFields
from app.worker.refit import Refitter, Request
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effect_table import EffectTable
from calibrators.fields.effects import FieldEffects
from tests.worker.conftest import HOUR, Append

SECONDS = 3600
LOG_ODDS = {"": 0.0, "ios": 0.7, "tv": -0.7}


def batch_of(hour: int) -> EventBatch:
    batch, rng = EventBatch(), np.random.default_rng(hour)
    for place in range(8000):
        device = ("ios", "tv")[place % 2]
        served = 1 / (1 + 9 * np.exp(-LOG_ODDS[device]))
        came = float(rng.random() < served)
        batch.add("click", hour, f"on {device}", 0.1, 1.0, came, fields={"device": device})
    return batch


def test_campaigns_are_evaluated_with_the_effects_that_served_them(
    redis_client: redis.Redis, settings: Settings, append: Append
) -> None:
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
