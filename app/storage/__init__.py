"""What sirocco keeps in Redis; every key is in `keys.py`.

`event_log.py` stores the events of a request in one step, as the blocks of `batch.py` and
`blocks.py`; `lua/event_ids.lua` leaves out those that are there already, `ids.py` says how long
their ids are kept, and packs them; `bins.py` folds the blocks into tables of bins by hour.
`versions.py` publishes maps, `models.py` post-click models. `clicks.py` has open clicks,
`conversions.py` conversions that wait for the worker. `lease.py` lets one worker work, and others
refit with it; `jobs.py` queues what operators request, `overrides.py` has the calibrators of single
campaigns. `statistics/` has sums over time: breakdowns by arm, by unit and of money, and whether
campaigns are off. `redis/` opens connections and runs the embedded server.
"""

from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.errors import (
    CorruptVersion,
    IdempotencyConflict,
    LeaseLost,
    QueueFull,
    StorageError,
    StorageUnavailable,
    TooManyFrozen,
    TooManyOverrides,
    UnknownVersion,
)
from app.storage.event_log import Appended, EventLog
from app.storage.jobs import Job, Jobs
from app.storage.lease import Heartbeat, Lease, LeaseToken
from app.storage.overrides import Overrides
from app.storage.redis.client import open_async_redis, open_redis
from app.storage.redis.server import EmbeddedRedis, NoRedisBinary, RedisNotStarted
from app.storage.statistics.breakdowns import UnitDays
from app.storage.versions import Published, Versions

__all__ = [
    "Appended",
    "BinsStore",
    "CorruptVersion",
    "EmbeddedRedis",
    "EventBatch",
    "EventLog",
    "Heartbeat",
    "IdempotencyConflict",
    "Job",
    "Jobs",
    "Lease",
    "LeaseLost",
    "LeaseToken",
    "NoRedisBinary",
    "Overrides",
    "Published",
    "QueueFull",
    "RedisNotStarted",
    "StorageError",
    "StorageUnavailable",
    "TooManyFrozen",
    "TooManyOverrides",
    "UnitDays",
    "UnknownVersion",
    "Versions",
    "open_async_redis",
    "open_redis",
]
