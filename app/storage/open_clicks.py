"""Open clicks: they gather behaviours for a while, then the worker closes them, exactly once.

To close is three steps: `begin_close` marks what is due and hands it out, the caller writes it
down, `finish_close` removes it. From its mark on a click changes no more, so a step that is
repeated after a death hands out, writes and removes the same. A full store lets all three pass,
for they free memory.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

import redis

from app.storage import keys
from app.storage.errors import reaching_the_store
from app.storage.open_click import OpenClick, click_of
from app.storage.replies import as_text
from app.storage.scripts import lua

__all__ = ["OpenClick", "OpenClicks"]

CLICKS_AT_ONCE = 1000
"""Clicks that one script reads: a longer one would keep requests waiting."""

_KINDS = {"n": "numeric", "s": "categorical"}
_COUNTERS = ("closed", "damaged", "expired", "orphans", "early_behaviours", "late_behaviours")

_log = logging.getLogger(__name__)


class OpenClicks:
    """What the worker closes, expires and counts."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._begin_close = client.register_script(lua("begin_close"))
        self._set_aside_click = client.register_script(lua("set_aside_click"))
        self._finish_close = client.register_script(lua("finish_close"))
        self._expire_waiting = client.register_script(lua("expire_waiting"))

    @reaching_the_store()
    def begin_close(self, before: float, limit: int) -> list[OpenClick]:
        """At most `limit` clicks that are due at `before` (epoch seconds) or earlier.

        From now on no behaviour is added to them. Asked again, it hands out the same clicks until
        `finish_close`. A click that cannot be read is set aside, logged and counted as damaged.
        """
        clicks: dict[str, OpenClick] = {}
        for shard in range(keys.SHARDS):
            for click in self._due(shard, before, limit - len(clicks)):
                clicks[click.click_id] = click
        return list(clicks.values())

    def _due(self, shard: int, before: float, limit: int) -> Iterator[OpenClick]:
        names = [keys.open_clicks(shard), keys.CLICK_COUNTERS]
        handed_out = 0
        while handed_out < limit:
            page = min(limit - handed_out, CLICKS_AT_ONCE)
            arguments = (keys.click(shard, ""), repr(before), handed_out, page)
            found = self._begin_close(keys=names, args=arguments)
            yield from self._readable(found)
            handed_out += page
            if len(found) < page:
                return

    def _readable(self, found: list[tuple[bytes, list[bytes]]]) -> Iterator[OpenClick]:
        for click_id, flat in found:
            if not flat:
                _log.error("open click %r expired before it was closed", click_id)
                continue
            try:
                yield click_of(as_text(click_id), flat)
            except ValueError as error:
                _log.error("open click %r set aside: %s", click_id, error)
                self._set_aside(click_id)

    def _set_aside(self, click_id: bytes) -> None:
        names = [keys.open_clicks(keys.shard_of(as_text(click_id))), keys.CLICK_COUNTERS]
        self._set_aside_click(keys=names, args=[click_id])

    @reaching_the_store()
    def finish_close(self, clicks: Sequence[OpenClick], counts: Mapping[str, int]) -> int:
        """Remove closed clicks; returns how many of them were still there.

        Adds `counts` to the counters of those names in the same step, unless none was there: a
        repeat counts nothing. The counter `closed` it keeps itself.
        """
        if not clicks:
            return 0
        names = [keys.CLICK_COUNTERS]
        arguments: list[str | int] = [len(counts), *(x for pair in counts.items() for x in pair)]
        for click in clicks:
            shard = keys.shard_of(click.click_id)
            names += (keys.click(shard, click.click_id), keys.open_clicks(shard))
            arguments.append(click.click_id)
        return int(self._finish_close(keys=names, args=arguments))

    @reaching_the_store()
    def expire_waiting(self, now: float) -> int:
        """Forget behaviours whose click never came; returns how many, counted once as orphans."""
        orphans = 0
        for shard in range(keys.SHARDS):
            names = [keys.waiting(shard), keys.CLICK_COUNTERS]
            arguments = (keys.click(shard, ""), repr(now), CLICKS_AT_ONCE)
            expired = CLICKS_AT_ONCE
            while expired == CLICKS_AT_ONCE:
                expired, behaviours = self._expire_waiting(keys=names, args=arguments)
                orphans += behaviours
        return orphans

    @reaching_the_store()
    def counts(self) -> dict[str, int]:
        """Clicks `open` and `waiting` (for which behaviours wait) now, and counters since ever.

        `closed`, `damaged` and `expired` count clicks; `orphans` behaviours whose click never
        came; `early_behaviours` and `late_behaviours` those that waited for a click and turned out
        to be before it or after its post-click window.
        """
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zcard(keys.open_clicks(shard))
            pipeline.zcard(keys.waiting(shard))
        pipeline.hgetall(keys.CLICK_COUNTERS)
        *numbers, counted = pipeline.execute()
        counters = {as_text(name): int(number) for name, number in counted.items()}
        return {
            "open": sum(numbers[::2]),
            "waiting": sum(numbers[1::2]),
            **dict.fromkeys(_COUNTERS, 0),
            **counters,
        }

    @reaching_the_store()
    def feature_kinds(self) -> dict[str, str]:
        """Whether each known pre-click feature is `numeric` or `categorical`, by name."""
        kinds = self._client.hgetall(keys.FEATURES)
        return {as_text(name): _KINDS[as_text(kind)] for name, kind in sorted(kinds.items())}
