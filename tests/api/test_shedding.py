"""Under overload events and reads are refused first, calibrations later, health never."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from unittest.mock import Mock, patch

import httpx
import pytest

from app.api import shedding
from app.api.hot_path import HotPath
from app.api.shedding import LoadShedder
from app.settings import Settings
from tests.api.events import impression
from tests.api.problems import problem
from tests.api.raw_connection import QUESTION, post, raw
from tests.api.running_service import RunningService, eventually, serving

LAG = 1.0
"""Only a lag that a test feigns is as long."""
READS = ["/v1/campaigns", "/v1/maps/click/a", "/v1/admin/versions", "/nothing"]
HEALTH = ["/healthz", "/readyz", "/metrics"]


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"shed_lag_seconds": LAG})


def answers(service: RunningService) -> dict[str, httpx.Response]:
    http, found = service.http, {path: service.http.get(path) for path in [*READS, *HEALTH]}
    found["/v1/events"] = http.post("/v1/events", json=[impression(time.time())])
    found["/v1/calibrate"] = http.post("/v1/calibrate", content=QUESTION)
    return found


@contextmanager
def behind(service: RunningService, lag: float) -> Iterator[None]:
    """For longer than a tick."""
    shedder = service.app.state.resources.shedder
    with patch.object(LoadShedder, "lag", lambda *_: lag):
        eventually(lambda: shedder._before == shedder._earlier == lag)
        yield


@pytest.mark.parametrize("lag", [0.0, 1.5 * LAG, 5 * LAG])
def test_calibrations_are_refused_last_and_health_never(service, lag):
    with behind(service, lag):
        found = answers(service)
    shed = {path for path, answer in found.items() if answer.status_code == 503}

    assert {found[path].status_code for path in HEALTH} == {200}
    assert shed.issuperset([*READS, "/v1/events"]) == (lag > LAG)
    assert ("/v1/calibrate" in shed) == (lag > 4 * LAG)
    for path in shed:
        assert problem(found[path], 503, "overloaded")
        assert found[path].headers["Retry-After"] == "1"
    counted = service.metric("sirocco_shed_total", route="/v1/events") or 0
    assert counted == ("/v1/events" in shed)
    assert (service.store.dbsize() > 1) == ("/v1/events" not in shed)


def test_a_request_that_is_refused_leaves_its_connection_open(service):
    with raw(service) as connection:
        for path in ("/v1/events", "/v1/calibrate"):
            with behind(service, 5 * LAG):
                connection.send(post(path))
                assert connection.answer().status == 503
        eventually(lambda: service.app.state.resources.shedder._before < LAG)
        connection.send(post("/v1/calibrate"))
        assert connection.answer().status == 200


def test_to_refuse_takes_no_task(service):
    """It must be cheap. While nothing is refused many events are called as before."""
    called = Mock(side_effect=HotPath.__call__)
    with patch.object(HotPath, "__call__", lambda *given: called(*given)):
        with behind(service, 5 * LAG), raw(service) as connection:
            connection.send(post("/v1/events"))
            assert connection.answer().status == 503
        assert not called.called
        eventually(lambda: service.app.state.resources.shedder._before < LAG)
        many = [impression(time.time())] * 100
        assert service.http.post("/v1/events", json=many).status_code == 200
        assert called.called


def test_more_requests_than_may_wait_are_refused(settings, redis_url):
    """Two wait for a store that takes its time; calibrations go on."""
    few = settings.model_copy(update={"shed_requests": 2})
    with (
        ThreadPoolExecutor(2) as callers,
        serving(few, redis_url) as service,
        ExitStack() as paused,
    ):
        shedder = service.app.state.resources.shedder
        service.store.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        paused.callback(service.store.execute_command, "CLIENT", "UNPAUSE")
        events = [impression(time.time())]
        waiting = [
            callers.submit(httpx.post, f"{service.url}/v1/events", json=events, timeout=60)
            for _ in range(2)
        ]
        eventually(lambda: shedder.in_flight == 2 or any(one.done() for one in waiting))
        found = service.http.post("/v1/events", json=events)
        calibrated = service.http.post("/v1/calibrate", content=QUESTION)

        problem(found, 503, "overloaded")
        assert calibrated.status_code == 200
        paused.close()
        assert {one.result().status_code for one in waiting} == {200}
        assert service.http.post("/v1/events", json=events).status_code == 200


@pytest.mark.parametrize(
    ("late", "worked", "refused", "calibrations_too"),
    [
        (0.9, 9.0, False, False),
        (1.5, 9.0, True, False),
        (5.0, 9.0, True, True),
        # Others had the processor: there is no queue of our making.
        (5.0, 0.1, False, False),
        (5.0, 0.3, True, False),
    ],
)
def test_a_loop_is_behind_when_it_is_late_twice_by_its_own_work(
    late, worked, refused, calibrations_too
):
    """In units of the bound."""
    shedder, round_seconds = LoadShedder(Settings(shed_lag_seconds=LAG), Mock()), late * LAG
    for turn in range(3):
        now, used = 100.0 + turn * (shedding._TICK + round_seconds), 7.0 + turn * worked * LAG
        with (
            patch.object(shedding, "perf_counter", lambda now=now: now),
            patch.object(shedding, "thread_time", lambda used=used: used),
        ):
            assert not (turn < 2 and shedder.refuses("a", now)), "once is not enough"
            shedder.start(Mock())
            found = [shedder.refuses("a", now), shedder.refuses("a", now, patience=4)]
    assert found == [refused, calibrations_too]
