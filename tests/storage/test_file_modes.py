"""Other users of the machine read nothing of ours."""

from contextlib import suppress
from pathlib import Path

from app.storage.redis.client import open_redis
from app.storage.redis.server import EmbeddedRedis


def modes(folder: Path) -> dict[str, int]:
    """Of the folder and all in it."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        # A server that rewrites its file renames another.
        with suppress(FileNotFoundError):
            if not path.is_socket():
                found[path.name] = path.stat().st_mode & 0o777
    return found


def check_private(folder: Path) -> None:
    """600 in 700."""
    found = modes(folder)
    folders = {path.name for path in (folder, *folder.rglob("*")) if path.is_dir()}
    assert found == {name: 0o700 if name in folders else 0o600 for name in found}


def test_the_files_of_the_embedded_redis(redis_binary, tmp_path):
    with (
        EmbeddedRedis(tmp_path / "data", redis_binary) as server,
        open_redis(server.url) as client,
    ):
        client.set("name", "text")
        assert client.bgrewriteaof()
        check_private(tmp_path / "data")
