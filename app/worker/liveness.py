"""Whether a worker gives signs of life: the health check of its containers, as it has no port.

`python -m app.worker.liveness` ends with 0 where one came within five minutes, or where Redis is
away or takes no writes, which is no fault of a worker; else with 1.
"""

import math
import sys
import time
from typing import Final

import redis

from app.settings import load_settings
from app.storage.errors import StorageUnavailable
from app.storage.lease import Heartbeat
from app.storage.redis.client import open_redis
from app.storage.store_watch import StoreWatch

SILENT_SECONDS: Final = 300.0


def silence(redis_url: str, timeout_seconds: float) -> str | None:
    """What is wrong, for people; None where nothing is. Of several workers one is enough: the
    others wait for it to fall silent."""
    try:
        with open_redis(redis_url, timeout_seconds) as client:
            state = Heartbeat(client, 0).read()
            age = math.inf if state is None else time.time() - state["at"]
            if age <= SILENT_SECONDS or not _takes_writes(client):
                return None
    except StorageUnavailable:
        return None
    if state is None:
        return "no worker has given a sign of life"
    return f"the worker has been silent for {age:.0f} s"


def _takes_writes(client: redis.Redis) -> bool:
    """A master that was demoted, or is full, takes no sign of life of the healthiest worker."""
    watch = StoreWatch(client)
    watch.look()
    return watch.writable


if __name__ == "__main__":
    settings = load_settings()
    sys.exit(silence(settings.redis_url or "", settings.redis_timeout_seconds))
