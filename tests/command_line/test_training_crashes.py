"""kill -9 amid a training or a refit: what was in force stays, and the next worker finishes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import pytest

from app.click_log.log import ClickLog
from app.storage.models import Models
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from tests.command_line.doomed_store import Doom, around, script
from tests.command_line.mortal_service import MortalService, mortal_service
from tests.command_line.test_up import wait_until
from tests.loopback import LOOPBACK
from tests.worker.delayed.click_world import (
    DAY,
    MIDNIGHT,
    TARGET,
    LoggedStream,
    delayed_settings,
    drawn_stream,
)

pytestmark = pytest.mark.slow

HOURS = 4 * 24
SCORES = [0.1, 0.3, 0.5]

MODELS_READ = b"{maps}:models:" + TARGET.encode()
MODEL_COUNTED = b"{maps}:models\r\n"
VERSION_COUNTED = b"{maps}:sequence\r\n"

AT_WORK = script("renew_lease")
"""The worker holds on to its lease while it computes."""


@dataclass
class Platform:
    """A service on four days of clicks; `moments` are those to work as of, one after the other."""

    service: MortalService
    models: Models
    versions: Versions
    moments: Iterator[float]

    def ask(self, path: str, as_of: float) -> str:
        """Queue a job; returns its id."""
        answer = httpx.post(f"{self._admin}/{path}", json={"as_of": as_of}, **LOOPBACK)
        return str(answer.json()["id"])

    def result(self, job: str) -> dict[str, Any]:
        """What came of a job, once it is done."""
        wait_until(lambda: self._job(job).get("status") in ("done", "failed"), f"job {job} is done")
        assert self._job(job)["status"] == "done", self._job(job)["error"]
        return dict(self._job(job)["result"])

    def serves(self) -> tuple[str, list[float]]:
        """The version that the API serves, and what it makes of some scores."""
        body = {"target": TARGET, "campaign": "big", "scores": SCORES}
        answer = httpx.post(f"{self.service.url}/v1/calibrate", json=body, **LOOPBACK).json()
        return answer["version"], answer["probabilities"]

    def in_force(self) -> tuple[str, str]:
        """The newest model, and the version of all maps."""
        return self.models.history(TARGET)[0]["version"], str(self.versions.current())

    def _job(self, job: str) -> dict[str, Any]:
        answer = httpx.get(f"{self._admin}/jobs/{job}", **LOOPBACK)
        return dict(answer.json()) if answer.is_success else {}

    @property
    def _admin(self) -> str:
        return f"{self.service.url}/v1/admin"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One that has trained and refitted once."""
    settings = delayed_settings(clock="event", lease_seconds=1).model_dump(exclude_unset=True)
    with (
        mortal_service(tmp_path_factory.mktemp("logs"), 1, **settings) as service,
        open_redis(service.redis_url) as store,
    ):
        log = ClickLog.open(service.settings.click_log)
        LoggedStream(log, drawn_stream(HOURS)).write(MIDNIGHT, MIDNIGHT + 4 * DAY)
        versions = Versions(store, service.settings.versions_kept)
        moments = (MIDNIGHT + 3 * DAY + hours * 3600.0 for hours in count())
        platform = Platform(service, Models(store), versions, moments)
        as_of = next(moments)
        platform.result(platform.ask("pccem/train", as_of))
        version = platform.result(platform.ask("retrain", as_of))["version"]
        wait_until(lambda: platform.serves()[0] == version, "the first maps serve")
        yield platform
        assert service.complaints == ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "doom",
    [
        # Behind the last line it would be over: a fast one dies there.
        Doom("caller", "before", (AT_WORK, MODEL_COUNTED), since=MODELS_READ),
        around("caller", "before", "publish_model"),
        around("Redis", "before", "publish_model"),
    ],
    ids=["at work", "all but published", "without Redis"],
)
def test_a_training_that_is_cut_off_leaves_the_old_model_in_force(platform, doom):
    as_of, before, served = next(platform.moments), platform.in_force(), platform.serves()
    platform.service.doom(doom)
    job = platform.ask("pccem/train", as_of)
    wait_until(lambda: platform.service.is_struck, str(doom))

    assert platform.serves() == served
    if doom.victim == "caller":
        assert platform.in_force() == before
    platform.service.revive()
    result = platform.result(job)["targets"][TARGET]

    newest = platform.models.history(TARGET)[0]
    assert (newest["version"], newest["as_of"]) == (result["version"], as_of)
    assert platform.models.load(TARGET, newest["version"]).source == "model"
    assert platform.in_force()[1] == before[1]
    assert platform.serves() == served


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "doom",
    [
        Doom("caller", "before", (AT_WORK, VERSION_COUNTED), since=MODELS_READ),
        around("caller", "before", "publish_version"),
        around("Redis", "before", "publish_version"),
    ],
    ids=["at work", "all but published", "without Redis"],
)
def test_a_refit_that_is_cut_off_leaves_the_old_maps_in_force(platform, doom):
    as_of, before, served = next(platform.moments), platform.in_force(), platform.serves()
    platform.service.doom(doom)
    job = platform.ask("retrain", as_of)
    wait_until(lambda: platform.service.is_struck, str(doom))

    assert platform.serves() == served
    if doom.victim == "caller":
        assert platform.in_force() == before
    platform.service.revive()
    result = platform.result(job)

    assert platform.in_force() == (before[0], result["version"])
    assert (result["as_of"], result["targets"][TARGET]["source"]) == (as_of, "model")
    wait_until(lambda: platform.serves()[0] == result["version"], "the new maps serve")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("path", "step"), [("pccem/train", "publish_model"), ("retrain", "publish_version")]
)
def test_what_was_published_and_not_told_is_done_again(platform, path, step):
    as_of, before = next(platform.moments), platform.in_force()
    platform.service.doom(around("caller", "after", step))
    job = platform.ask(path, as_of)
    wait_until(lambda: platform.service.is_struck, step)

    published = platform.in_force()
    platform.service.revive()
    platform.result(job)

    again = platform.in_force()
    changed = [x != y != z for x, y, z in zip(before, published, again, strict=True)]
    assert changed == [path == "pccem/train", path == "retrain"]
