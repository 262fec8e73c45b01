"""Events with ids over hours, against a model: each is accepted once, however often and whenever it
is sent, and refused when its hour is closed."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from unittest.mock import patch

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.events.admission import Admission
from app.events.reading import Parsed
from app.events.rejections import OpenTimes
from app.events.schema import Impression
from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.ids import IdLife, IdPacker
from app.storage.keys import shard_of
from app.storage.redis.client import open_async_redis, open_redis
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.interrupted_redis import Died, InterruptedRedis, Moment, die

SETTINGS = Settings(window_hours=2, future_seconds=0.0)

sent = st.tuples(st.integers(-3, 0), st.sampled_from("abc"), st.integers(0, 7))
"""Hours before now, campaign, id: few, so that most are repeats."""
steps = st.lists(
    st.one_of(
        st.lists(sent, min_size=1, max_size=12),
        st.sampled_from([900, 3600, 3 * 3600]),
        st.sampled_from(["repeat", "pack", "race", "restart"]),
        st.tuples(
            st.sampled_from(["before", "after"]),
            st.sampled_from(["move_ids", "HSET", "finish_packing"]),
        ),
    ),
    max_size=24,
)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps)
def test_every_event_is_accepted_once(runner, redis_url, steps):
    with patch("app.storage.ids.UNFILTERED", 1):
        history = History(runner, redis_url)
        for step in steps:
            history.perform(step)
        history.end()


class History:
    """What one example did so far; times pass in Redis as they do here."""

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self._runner = runner
        self._url = url
        self._now = HOUR * 3600.0
        self._accepted: set[tuple[int, int, str]] = set()
        self._sent: list[Impression] = []
        self._client = open_redis(url)
        self._client.flushall()
        # One process of the API sends all, so that it knows filters of all ages.
        self._sending = open_async_redis(url)
        life = IdLife(0, SETTINGS.window_hours, SETTINGS.future_seconds)
        self._log = EventLog(self._sending, TTL_SECONDS, id_life=life, clock=lambda: self._now)

    def perform(self, step: object) -> None:
        match step:
            case list():
                self._send([self._impression(*each) for each in step])
            case int():
                self._pass(step)
            case "repeat":
                self._send(self._sent)
            case "pack":
                self._pack(self._client)
            case "race":
                self._die("finish_packing", before=self._overtake)
            case "restart":
                self._client.script_flush()
            case (moment, name):
                self._die(str(name), **{str(moment): die})

    def end(self) -> None:
        self._send(self._sent)
        self._runner.run(self._sending.aclose())
        with self._client:
            assert BinsStore(self._client, TTL_SECONDS).fold() == len(self._accepted)

    def _impression(self, before: int, campaign: str, number: int) -> Impression:
        hour = self._now // 3600 + before
        return Impression(campaign, hour * 3600, {"click": 0.5}, f"e{number}")

    def _send(self, impressions: list[Impression]) -> None:
        self._sent = (impressions + self._sent)[:50]
        admission = Admission(SETTINGS, OpenTimes.at(self._now, SETTINGS))
        deque(admission.admit_all(Parsed(range(len(impressions)), impressions)), 0)
        rejected = admission.rejections
        first = self._now // 3600 - SETTINGS.window_hours
        open_ones = [each for each in impressions if float(each.occurred_at) // 3600 >= first]
        identities = {self._identity(each) for each in open_ones}
        new = identities - self._accepted
        answer = self._runner.run(self._log.append(admission.batch))
        assert len(rejected) == len(impressions) - len(open_ones)
        assert (answer.accepted, answer.duplicates) == (len(new), len(open_ones) - len(new))
        self._accepted |= new

    @staticmethod
    def _identity(event: Impression) -> tuple[int, int, str]:
        hour = int(float(event.occurred_at) // 3600)
        return shard_of(event.campaign), hour, str(event.id)

    def _pass(self, seconds: int) -> None:
        self._now += seconds
        for key in self._client.scan_iter("*:ids*"):
            self._client.pexpire(key, self._client.pttl(key) - seconds * 1000)

    def _pack(self, client: redis.Redis) -> None:
        IdPacker(client, fewest=1).pack()

    def _die(self, step: str, **moments: Moment) -> None:
        with suppress(Died), InterruptedRedis(self._url, step, **moments) as client:
            self._pack(client)

    def _overtake(self) -> None:
        self._send(self._sent)
        self._pack(self._client)
        self._send(self._sent)
