"""A client of the real server that stops for a moment around one of its steps."""

from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from typing import Any

import redis

import app.storage
from app.storage.redis.client import lua, open_redis

SCRIPTS = {
    sha1(lua(file.stem).encode()).hexdigest(): file.stem
    for file in (Path(app.storage.__file__).parent / "lua").glob("*.lua")
}

Moment = Callable[[], None]


class Died(BaseException):
    """The process ended here, as after a kill -9: no handler of the code under test may run."""


def die() -> None:
    """The moment that ends the process."""
    raise Died


class InterruptedRedis(redis.Redis):
    """Calls `before` when a step is about to run, and `after` once it ran, each once.

    A step is the name of one of our scripts, or of a command of Redis.
    """

    def __init__(
        self, url: str, step: str, before: Moment | None = None, after: Moment | None = None
    ) -> None:
        super().__init__(connection_pool=open_redis(url).connection_pool)
        self._step = step
        self._before = before
        self._after = after

    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        runs = self._step == (SCRIPTS[arguments[1]] if arguments[0] == "EVALSHA" else arguments[0])
        if runs and (before := self._before):
            self._before = None
            before()
        reply = super().execute_command(*arguments, **options)
        if runs and (after := self._after):
            self._after = None
            after()
        return reply
