"""What sirocco keeps in Redis."""

from app.storage.batch import Batch
from app.storage.bins_store import BinsStore
from app.storage.connection import open_async_redis, open_redis
from app.storage.embedded import EmbeddedRedis
from app.storage.errors import (
    CorruptBins,
    CorruptVersion,
    IdempotencyConflict,
    LeaseLost,
    QueueFull,
    StorageError,
    StorageUnavailable,
    TooManyOverrides,
    UnknownVersion,
)
from app.storage.event_log import Appended, EventLog
from app.storage.heartbeat import Heartbeat
from app.storage.jobs import Job, Jobs
from app.storage.lease import Lease, LeaseToken
from app.storage.overrides import Overrides
from app.storage.redis_binary import NoRedisBinary
from app.storage.redis_process import RedisNotStarted
from app.storage.versions import Published, Versions

__all__ = [
    "Appended",
    "Batch",
    "BinsStore",
    "CorruptBins",
    "CorruptVersion",
    "EmbeddedRedis",
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
    "TooManyOverrides",
    "UnknownVersion",
    "Versions",
    "open_async_redis",
    "open_redis",
]
