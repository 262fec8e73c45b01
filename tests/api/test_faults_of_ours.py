"""A fault inside is answered 500 without a word about it, logged, counted, and survived."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from calibrators import Atlas
from tests.api.problems import problem
from tests.api.running_service import RunningService, eventually

QUESTION = {"target": "click", "campaign": "a", "scores": [0.5]}
SECRET = "the words of the exception"


class Broken(Mapping[str, Atlas]):
    """Atlases that raise whenever they are looked at."""

    def __getitem__(self, target: str) -> Atlas:
        raise KeyError(SECRET)

    def __iter__(self) -> Iterator[str]:
        raise KeyError(SECRET)

    def __len__(self) -> int:
        raise KeyError(SECRET)


@contextmanager
def broken(service: RunningService) -> Iterator[None]:
    refresher = service.app.state.resources.refresher
    snapshot = refresher.current
    refresher.current = replace(snapshot, atlases=Broken())
    yield
    refresher.current = snapshot


@pytest.fixture
def server_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/calibrate"), ("GET", "/v1/campaigns")])
def test_a_fault_is_told_to_nobody(service, method, path, server_log):
    """On the hot routes and on the framework's."""
    with broken(service):
        answer = service.http.request(method, path, json=QUESTION)

    assert SECRET not in str(problem(answer, 500, "internal-error"))
    assert answer.headers["connection"] == "close"
    eventually(lambda: SECRET in server_log.text)
    assert service.metric("sirocco_requests_total", route=path, code="500") == 1
    assert service.http.post("/v1/calibrate", json=QUESTION).status_code == 200
