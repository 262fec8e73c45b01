"""What a server that was killed amid a request left at the end of its file."""

from pathlib import Path

from app.storage.redis.client import open_redis
from app.storage.redis.server import EmbeddedRedis
from tests.storage.traffic import kill


def test_nothing_of_half_a_transaction_comes_back(redis_binary, tmp_path):
    """The server was killed while it wrote it down, and once more after it had served others."""
    with EmbeddedRedis(tmp_path, redis_binary) as server:
        store_all(server, "half", "a transaction", "cut short")
        kill(server)
    cut_off(tmp_path, b"cut short")
    with EmbeddedRedis(tmp_path, redis_binary) as server:
        store_all(server, "whole", "another")
        kill(server)

    with EmbeddedRedis(tmp_path, redis_binary) as server, open_redis(server.url) as client:
        assert sorted(client.keys()) == [b"another", b"whole"]


def store_all(server: EmbeddedRedis, *names: str) -> None:
    """In one script, as requests are."""
    with open_redis(server.url) as client:
        client.eval(
            "for _, key in ipairs(KEYS) do redis.call('SET', key, 1) end", len(names), *names
        )


def cut_off(data_dir: Path, words: bytes) -> None:
    """End the server's file in the middle of the last command with these words."""
    for path in data_dir.rglob("*.aof"):
        data = path.read_bytes()
        if words in data:
            path.write_bytes(data[: data.rindex(words) + 3])
