"""The atlas is never seen half: every answer belongs wholly to one published version."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import httpx
import numpy as np
import pytest

from app.storage.lease import Lease
from app.storage.versions import Versions
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import RunningService, eventually

pytestmark = pytest.mark.slow

VERSIONS = 20
READERS = 4
CAMPAIGNS = [f"c{number}" for number in range(300)]
SCORES = np.linspace(0.0, 1.0, len(CAMPAIGNS)).tolist()


def atlas_of(number: int) -> Atlas:
    """Every campaign's map is proportional, by the number of the version; so are all targets."""
    served = CalibrationMap.proportional((1 + number % VERSIONS) / VERSIONS)
    return Atlas.build(dict.fromkeys(CAMPAIGNS[::2], served), target_map=served)


def publish_all(service: RunningService) -> dict[str, float]:
    """The factor of every version, published one after the other."""
    lease = Lease(service.store, "worker", "test", 60)
    assert lease.acquire()
    versions = Versions(service.store, 3)
    factors = {"none": 1.0}
    for number in range(VERSIONS):
        packed = atlas_of(number).to_bytes()
        atlases = {"click": packed, "conversion": packed}
        version = versions.publish(lease.token, number, number, atlases, {})
        factors[version] = (1 + number) / VERSIONS
        eventually(lambda version=version: service.serving == version)
    return factors


def read_until(done: Event, url: str, ask: Callable[[httpx.Client], Any], found: list[Any]) -> None:
    with httpx.Client(base_url=url, timeout=60) as http:
        while not done.is_set():
            found.append(ask(http))


def ask_columns(http: httpx.Client) -> Any:
    asked = {"target": "click", "campaigns": CAMPAIGNS, "scores": SCORES}
    answer = http.post("/v1/calibrate", json=asked).json()
    return answer["version"], SCORES, answer["probabilities"]


def ask_rows(http: httpx.Client) -> Any:
    """Of two targets at once: both belong to one version."""
    targets = ("click", "conversion")
    rows = [{"target": target, "campaign": "c0", "score": 0.5} for target in targets]
    answer = http.post("/v1/calibrate", json={"rows": rows}).json()
    return answer["version"], [0.5, 0.5], answer["probabilities"]


def answered(http: httpx.Client, path: str) -> httpx.Response:
    # On a busy machine the service sheds what can be asked again.
    while (answer := http.get(path)).status_code == 503:
        pass
    return answer


def ask_map(http: httpx.Client) -> Any:
    shown = answered(http, "/v1/maps/click/c1").json()
    return shown["version"], shown["knots"], shown["values"]


def ask_atlas(http: httpx.Client) -> Any:
    answer = answered(http, "/v1/atlas/conversion")
    served = Atlas.from_bytes(answer.content).map_of("c0")
    return answer.headers["sirocco-version"], served.knots.tolist(), served.values.tolist()


def test_readers_get_answers_of_one_version_and_never_an_older_one(service):
    """While versions are published; each reader may see them at times of its own."""
    done = Event()
    seen = {ask: [] for ask in (ask_columns, ask_rows, ask_map, ask_atlas)}
    readers = [
        Thread(target=read_until, args=(done, service.url, ask, found))
        for ask, found in seen.items()
    ]
    for reader in readers:
        reader.start()

    try:
        factors = publish_all(service)
    finally:
        done.set()
        for reader in readers:
            reader.join()

    found = [answer for answers in seen.values() for answer in answers]
    assert len({version for version, _, _ in found}) > VERSIONS / 4
    for answers in seen.values():
        versions = [version for version, *_ in answers if version != "none"]
        assert versions == sorted(versions)
    for version, scores, probabilities in found:
        np.testing.assert_allclose(probabilities, factors[version] * np.array(scores), rtol=1e-12)
