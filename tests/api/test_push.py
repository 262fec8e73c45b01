"""A version is served soon after it was published: by its notice, or by polling without one."""

from collections.abc import Iterator

import pytest
import redis

from app.settings import Settings
from app.storage import keys
from app.storage.versions import Versions
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import RunningService, eventually, leased, serving

SELDOM = 30.0
"""Seconds between polls: longer than the tests wait, so that only a notice can be in time."""


@pytest.fixture
def pushed(settings: Settings, redis_url: str) -> Iterator[RunningService]:
    seldom = settings.model_copy(update={"refresh_seconds": SELDOM})
    with serving(seldom, redis_url) as running:
        eventually(lambda: listeners(running.store) == 1)
        yield running


def atlas(ratio: float) -> Atlas:
    return Atlas.build({"hats": CalibrationMap.proportional(ratio)})


def listeners(store: redis.Redis) -> int:
    return int(dict(store.pubsub_numsub(keys.PUBLISHED))[keys.PUBLISHED.encode()])


def probability(service: RunningService) -> float:
    asked = {"target": "click", "campaign": "hats", "scores": [0.5]}
    answer = service.http.post("/v1/calibrate", json=asked).json()
    return float(answer["probabilities"][0])


def test_a_notice_brings_each_version_long_before_the_next_poll(pushed):
    for ratio in (0.5, 0.25):
        pushed.publish({"click": atlas(ratio)})

        assert probability(pushed) == 0.5 * ratio


def test_a_service_that_lost_its_listener_polls_and_listens_again(service):
    eventually(lambda: listeners(service.store) == 1)
    service.store.client_kill_filter(_type="pubsub")

    service.publish({"click": atlas(0.5)})

    assert probability(service) == 0.25
    eventually(lambda: listeners(service.store) == 1)


def test_a_version_whose_notice_never_went_out_is_found_by_polling(service):
    """As after a change of what is in force by hand, or by a publisher that sends no notices."""
    first = service.publish({"click": atlas(0.5)})
    service.publish({"click": atlas(0.25)})

    service.store.set(keys.CURRENT, first)

    eventually(lambda: service.serving == first)
    assert probability(service) == 0.25


def test_a_notice_without_a_new_version_changes_nothing(pushed):
    version = pushed.publish({"click": atlas(0.5)})

    assert pushed.store.publish(keys.PUBLISHED, "000099-00000000") == 1
    assert pushed.publish({"click": atlas(0.25)}) != version


def test_a_version_that_cannot_be_read_does_not_stop_the_listening(pushed):
    with leased(pushed.store) as token:
        Versions(pushed.store, 3).publish(token, 1.0, 2.0, {"click": b"damaged"}, {})

    pushed.publish({"click": atlas(0.5)})

    assert probability(pushed) == 0.25
