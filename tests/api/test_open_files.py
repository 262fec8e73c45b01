"""Room for connections under the limits that the process was given."""

import logging
import resource
from collections.abc import Iterator

import pytest

from app.api.server import connections
from app.api.server.connections import OTHER_FILES, connections_that_fit

FILES = resource.RLIMIT_NOFILE


@pytest.fixture
def soft_limit() -> Iterator[int]:
    """A soft limit below the hard one; afterwards all is as before."""
    before = resource.getrlimit(FILES)
    soft = before[1] // 2
    resource.setrlimit(FILES, (soft, before[1]))
    yield soft
    resource.setrlimit(FILES, before)


def test_the_soft_limit_is_raised_to_the_hard_one(soft_limit, caplog):
    assert connections_that_fit(10) == 10

    soft, hard = resource.getrlimit(FILES)
    assert soft == hard > soft_limit
    assert caplog.records == []


def test_what_does_not_fit_is_said_and_bounded(soft_limit, caplog):
    hard = resource.getrlimit(FILES)[1]

    fit = connections_that_fit(hard)

    assert fit == hard - OTHER_FILES
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"SIROCCO_MAX_CONNECTIONS = {hard}: only {fit} connections fit, because this process may "
        f"have {hard} open files at most; raise the hard limit (ulimit -Hn, LimitNOFILE) or lower "
        "the setting"
    )


def test_a_limit_that_cannot_be_raised_is_kept(soft_limit, monkeypatch):
    """Some systems say that files are unlimited, and refuse to grant that."""

    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(connections.resource, "setrlimit", refuse)

    assert connections_that_fit(soft_limit) == soft_limit - OTHER_FILES
    monkeypatch.undo()


def test_without_a_limit_everything_fits(monkeypatch):
    endless = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(connections.resource, "getrlimit", lambda kind: endless)

    assert connections_that_fit(1_000_000) == 1_000_000
