"""Walks over all keys and mends what no reader can: keys of wrong types are set aside, and what has
lost its place in a set, a queue or an order of closing gets it back.

It is run where damage was met, by the worker and, when a request met a wrong type, by the API. A
walk asks for a few hundred keys at a time, so that others have their turn.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import redis
from redis.client import Pipeline

from app.storage import keys
from app.storage.clicks import open_name
from app.storage.integrity.damage import Damage, Damaged
from app.storage.keys import TargetHour
from app.storage.redis.client import as_bytes, as_text, reaching_the_store, servers_of

_PAGE: Final = 500
_KEY: Final = re.compile(r"sirocco:\{(\d\d|maps)\}:([a-z_]+)(:.*)?", re.DOTALL)

_KINDS: Final = {
    b"list": "log: conversions: damaged audit history jobs:queued models:",
    b"set": "logs ids: ids_moved: seen: conversion_logs converted: jobs:running",
    b"zset": "hours open waiting",
    b"hash": "bins: click: clicked: features clicks damage overrides version: model: job: jobs:same"
    " ids_packed: ids_staged: api_keys frozen unit_days: loads: joint_refit:",
    b"string": "judged: evidence: request: current sequence held lease: fence: heartbeat click_log"
    " joint_refit audit:head probe models training: jobs:sequence freezes folding:",
}
_COUNTERS: Final = {"sequence", "fence:", "models", "training:", "jobs:sequence", "freezes"}
TYPES: Final = {kind: held for held, kinds in _KINDS.items() for kind in kinds.split()}
"""By kind of key, those with a name behind it with a colon; of others nothing is known."""


class _Found(NamedTuple):
    """A key: number of its shard, if it has one, its kind, and the name behind it."""

    key: str
    shard: int | None
    kind: str
    name: str


class Inspection:
    """Closing times are `post_click_seconds` after the click."""

    def __init__(self, client: redis.Redis, post_click_seconds: float) -> None:
        self._client = client
        self._post_click_seconds = post_click_seconds
        self._damage = Damage(client)

    @reaching_the_store()
    def run(self) -> int:
        """Walk once; returns how many keys were set aside."""
        aside = 0
        for page in self._pages():
            for kind, found in self._wrong(page):
                self._damage.set_key_aside(kind, found.key)
                aside += 1
        for page in self._pages():
            self._put_back(page)
        return aside

    def _pages(self) -> Iterator[list[_Found]]:
        for server in servers_of(self._client):
            cursor = None
            while cursor != 0:
                cursor, names = server.scan(cursor or 0, "sirocco:*", _PAGE)
                yield list(filter(None, (_found(as_bytes(name)) for name in names)))

    def _wrong(self, page: list[_Found]) -> Iterator[tuple[Damaged, _Found]]:
        kinds = self._each(page, lambda pipeline, found: pipeline.type(found.key))
        for found, kind in zip(page, kinds, strict=True):
            if kind not in (TYPES[found.kind], b"none"):
                yield Damaged.TYPE, found
        counters = [found for found in page if found.kind in _COUNTERS]
        texts = self._each(counters, lambda pipeline, found: pipeline.get(found.key))
        for found, text in zip(counters, texts, strict=True):
            if isinstance(text, bytes) and not text.isdigit():
                yield Damaged.COUNTER, found
        for found in page:
            if found.kind in ("clicks", "damage"):
                self._drop_junk(found.key)

    def _drop_junk(self, counters: str) -> None:
        """Counters that are no numbers, of a hash of them, begin anew."""
        for name, text in self._client.hgetall(counters).items():
            if not text.isdigit():
                self._client.hdel(counters, name)
                self._damage.count(Damaged.COUNTER)

    def _put_back(self, page: list[_Found]) -> None:
        """What is in its place already stays as it is."""
        clicks = [found for found in page if found.kind == "click:"]
        jobs = [found for found in page if found.kind == "job:"]
        opened = self._each(clicks, lambda pipe, one: pipe.hmget(one.key, "open", "at"))
        status = self._each(jobs, lambda pipe, one: pipe.hget(one.key, "status"))
        self._each(page, _name)
        self._each(zip(clicks, opened, strict=True), self._open)
        for job, found in zip(jobs, status, strict=True):
            self._queue(job.name, found)

    def _open(self, pipeline: Pipeline, click: tuple[_Found, list[bytes | None]]) -> None:
        found, (is_open, at) = click
        moment = _number(at)
        if is_open and moment is not None and found.shard is not None:
            score = {open_name(found.name): moment + self._post_click_seconds}
            pipeline.zadd(keys.open_clicks(found.shard), score, nx=True)

    def _queue(self, job: str, status: bytes | None) -> None:
        if status == b"running":
            self._client.sadd(keys.JOBS_RUNNING, job)
        elif status == b"queued" and self._client.lpos(keys.JOBS_QUEUED, job) is None:
            self._client.rpush(keys.JOBS_QUEUED, job)

    def _each(self, of: Iterable[Any], command: Any) -> list[Any]:
        """The replies, errors among them, to a command for each."""
        pipeline = self._client.pipeline(transaction=False)
        for one in of:
            command(pipeline, one)
        return pipeline.execute(raise_on_error=False)


def _found(name: bytes) -> _Found | None:
    """None of a key that we do not know."""
    parts = _KEY.fullmatch(name.decode(errors="replace"))
    if parts is None:
        return None
    slot, kind, rest = parts[1], parts[2], parts[3] or ""
    if kind + rest in TYPES:
        kind, rest = kind + rest, ":"
    elif rest:
        kind += ":"
    shard = None if slot == "maps" else int(slot)
    return _Found(as_text(name), shard, kind, rest[1:]) if kind in TYPES else None


def _name(pipeline: Pipeline, found: _Found) -> None:
    """Have a log stand in the set of those that hold something."""
    names = {"log:": keys.logs, "conversions:": keys.conversion_logs}.get(found.kind)
    hour, _, target = found.name.partition(":")
    if names is not None and found.shard is not None and hour.isdecimal():
        pipeline.sadd(names(found.shard), TargetHour(found.shard, target, int(hour)).member)


def _number(data: bytes | None) -> float | None:
    try:
        return None if data is None else float(data)
    except ValueError:
        return None
