"""Other users of the machine read nothing of ours."""

from pathlib import Path

from app.storage import EmbeddedRedis, open_redis


def modes(folder: Path) -> dict[str, int]:
    """Of the folder and all in it."""
    return {
        path.name: path.stat().st_mode & 0o777
        for path in (folder, *folder.rglob("*"))
        if not path.is_socket()
    }


def check_private(folder: Path) -> None:
    """600 in 700."""
    found = modes(folder)
    folders = {path.name for path in (folder, *folder.rglob("*")) if path.is_dir()}
    assert found == {name: 0o700 if name in folders else 0o600 for name in found}


def test_the_files_of_the_embedded_redis(redis_binary: Path, tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path / "data", redis_binary) as server,
        open_redis(server.url) as client,
    ):
        client.set("name", "text")
        assert client.bgrewriteaof()
        check_private(tmp_path / "data")
