"""All that a server holds, to compare before and after."""

import redis

from app.storage import keys
from app.storage.bins import BinsStore


def contents(client: redis.Redis) -> dict[bytes, object]:
    """Every key and what it holds, without times to live."""
    return {key: _held(client, key) for key in sorted(client.scan_iter())}


def _held(client: redis.Redis, key: bytes) -> object:
    match client.type(key):
        case b"string":
            return client.get(key)
        case b"list":
            return client.lrange(key, 0, -1)
        case b"set":
            return client.smembers(key)
        case b"hash":
            return client.hgetall(key)
        case b"zset":
            return client.zrange(key, 0, -1, withscores=True)
    raise AssertionError(f"{key!r} is of no known type")


def damaged_blocks(store: BinsStore) -> int:
    """How many blocks were set aside."""
    return sum(store._client.llen(keys.damaged(shard)) for shard in range(keys.SHARDS))
