"""kill -9 of the server amid click events and their closing: all that was acknowledged, once."""

import asyncio

import pytest
import redis

from app.storage.batch import EventBatch
from app.storage.clicks import OpenClick, OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.redis.client import open_redis
from app.storage.redis.server import EmbeddedRedis
from tests.storage.clicks import AT, behaviour, click, conversion, did, of
from tests.storage.traffic import Traffic, kill_at_work

KILLS = 2
LATER = AT + 7200


def request(number: int) -> EventBatch:
    """Clicks of many shards; half of the behaviours come before their click."""
    name = f"{number}"
    return of(
        click(f"{name}/a"),
        did(AT + 5, f"{name}/a"),
        did(AT + 5, f"{number + 1}/b"),
        click(f"{name}/b"),
        conversion(LATER, f"{name}/a"),
    )


def numbers(ids: set[str]) -> set[int]:
    return {int(click_id.partition("/")[0]) for click_id in ids}


class Written:
    """What the worker wrote down; a repeat of a click must be the same click."""

    def __init__(self) -> None:
        self.clicks: dict[str, OpenClick] = {}
        self.conversions: set[str] = set()

    def close(self, client: redis.Redis, at_once: int = 1000) -> None:
        clicks, log = OpenClicks(client), ConversionLog(client)
        while due := clicks.begin_close(1e10, at_once):
            for one in due:
                assert self.clicks.setdefault(one.click_id, one) == one
            clicks.finish_close(due)
        for place in log.pending():
            mark, conversions = log.read(place)
            self.conversions |= {one.click_id for one in conversions}
            log.drop(place, mark)


def test_acknowledged_click_events_survive_kills(redis_binary, tmp_path):
    traffic, written = Traffic(request), Written()
    for round_ in range(KILLS):
        with EmbeddedRedis(tmp_path, redis_binary) as server:
            asyncio.run(traffic.run(server, kill_after=20 + 17 * round_))
    with EmbeddedRedis(tmp_path, redis_binary) as server:
        asyncio.run(traffic.send_again(server))
        with open_redis(server.url) as client:
            written.close(client)
            counts = OpenClicks(client).counts()

    assert numbers(set(written.clicks)) == traffic.sent
    assert numbers(written.conversions) == traffic.sent
    assert counts["closed"] == len(written.clicks) == 2 * len(traffic.sent)
    gathered = {name: one.behaviours for name, one in written.clicks.items()}
    assert all(gathered[f"{number}/a"] == [behaviour(AT + 5)] for number in traffic.sent)
    waited = {number + 1 for number in traffic.sent} & traffic.sent
    assert all(gathered[f"{number}/b"] == [behaviour(AT + 5)] for number in waited)


@pytest.mark.parametrize("milliseconds", [1, 5, 15])
def test_a_kill_in_the_midst_of_closing_neither_loses_nor_doubles(
    milliseconds, redis_binary, tmp_path
):
    traffic, written = Traffic(request), Written()
    traffic.acknowledged |= set(range(60))
    with EmbeddedRedis(tmp_path, redis_binary) as server:
        asyncio.run(traffic.send_again(server))
        kill_at_work(server, milliseconds, lambda client: written.close(client, at_once=7))

    with EmbeddedRedis(tmp_path, redis_binary) as server, open_redis(server.url) as client:
        written.close(client)
        assert OpenClicks(client).counts()["closed"] == len(written.clicks) == 120
        asyncio.run(traffic.send_again(server))
        assert OpenClicks(client).begin_close(1e10, 10) == [], "all of them are duplicates"

    assert numbers(written.conversions) == traffic.sent
