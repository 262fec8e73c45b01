"""`sirocco backup`, `sirocco restore` and `sirocco drill`: a copy of the state, and back.

Redis comes first and the click log after it: what the worker moved from one to the other in between
is in both then, and counts once.
"""

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import unquote, urlsplit

import msgspec
import orjson
import typer

from app.cli import options
from app.cli.console import note, print_json, print_line
from app.errors import FAILED, CommandError

if TYPE_CHECKING:
    from app.settings import Settings

REDIS, CLICK_LOG, KEY, MANIFEST = "redis.rdb", "click-log", "signing.key", "manifest.json"
_APPEND_ONLY: Final = "appendonly.aof"
"""An append-only file may begin with a snapshot: a snapshot alone is one, for Redis 6 and later."""
_UNFINISHED: Final = ".restore-"
_LONGEST_SECONDS: Final = 3600.0
_OPTIONS_OF_TLS: Final = {
    "ssl_ca_certs": "--cacert",
    "ssl_ca_path": "--cacertdir",
    "ssl_certfile": "--cert",
    "ssl_keyfile": "--key",
}
"""Words of redis-cli that say what options of an address do."""

_Folder = Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)]


@options.grouped
def backup(folder: _Folder, store: options.StoreOptions, json: options.Json = False) -> None:
    """Copy the state of a service, which may run, into a new folder.

    A snapshot of Redis, the click log where it is a folder, and the signing key.

    [bold]Examples[/bold]

      sirocco backup backups/monday
      sirocco backup backups/monday --redis-url redis://cache:6379/0
    """
    from app.cli.serving.settings import settings_with

    _show(back_up(settings_with(asdict(store)), folder), as_json=json)


@options.grouped
def restore(folder: _Folder, store: options.StoreOptions, json: options.Json = False) -> None:
    """Put a backup into a data directory that has no state yet; then start the service.

    Where the settings name your own Redis, give it the file redis.rdb yourself.

    [bold]Examples[/bold]

      sirocco restore backups/monday --data-dir sirocco-data
    """
    from app.cli.serving.settings import settings_with

    _show(put_back(folder, settings_with(asdict(store))), as_json=json)


@options.grouped
def drill(store: options.StoreOptions, json: options.Json = False) -> None:
    """Try a backup: make one, restore it beside the service, and read all of it with a new Redis.

    The service goes on meanwhile. Ends with exit code 1 if anything is missing.

    [bold]Examples[/bold]

      sirocco drill
      sirocco drill --redis-url redis://cache:6379/0 --json
    """
    from app.cli.serving.settings import settings_with

    settings = settings_with(asdict(store))
    with TemporaryDirectory(prefix="sirocco-drill-") as scratch:
        copy, beside = Path(scratch) / "backup", Path(scratch) / "data"
        made = back_up(settings, copy)
        restored = settings_with({"data_dir": beside}).model_copy(
            update={"redis_url": None, "click_log_url": None}
        )
        back = put_back(copy, restored)
        seconds = {"backup": made["seconds"], "restore": back["seconds"]}
        found = _read(restored, _database(settings.redis_url))
        _show({**seconds, **found, "bytes": made["bytes"]}, as_json=json)


def back_up(settings: "Settings", folder: Path) -> dict[str, float]:
    """Write the backup; its bytes, files, and the seconds it took."""
    from app.cli.serving.store import opened_store

    began = perf_counter()
    if not settings.redis_url and not (settings.data_dir / "redis.address").exists():
        raise CommandError(f"{settings.data_dir}: no service has kept its data there")
    if _files(folder):
        raise CommandError(f"{folder} holds files: give the name of a new folder")
    folder.mkdir(0o700, parents=True, exist_ok=True)
    try:
        with opened_store(settings) as url:
            _snapshot(url, folder / REDIS)
        _copy_files(settings, folder)
    except BaseException:
        # Nobody is to take it for a backup, and the next try is to find no files; what else is
        # there, such as other folders, stays.
        for name in (REDIS, KEY, MANIFEST):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / CLICK_LOG, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()
        raise
    return _summary(folder, began)


def _copy_files(settings: "Settings", folder: Path) -> None:
    """Copy what is not in Redis, and last write what the backup holds."""
    log = _log_folder(settings)
    if log is None:
        note("the click log is in an object store and not copied: keep its versions there")
    elif log.exists():
        _copy_parts(log, folder / CLICK_LOG)
    elif settings.delayed_targets:
        note(f"{log}: there is no click log to copy")
    if database := _database(settings.redis_url):
        note(f"it is of database {database}: an embedded Redis would begin with database 0")
    if (settings.data_dir / KEY).exists():
        shutil.copy2(settings.data_dir / KEY, folder / KEY)
    digests = {name: _digest(folder / name) for name in _files(folder)}
    (folder / MANIFEST).write_bytes(orjson.dumps(digests))


def _log_folder(settings: "Settings") -> Path | None:
    """Where the click log is on this machine, as the service finds it; None where it is not."""
    place = settings.click_log
    if "://" not in place:
        return Path(place).expanduser()
    found = urlsplit(place)
    return Path(unquote(found.path)) if found.scheme == "file" else None


def _database(url: str | None) -> int:
    """Which of a server's an address names; an embedded server has one."""
    return int(_server(url).get("db") or 0) if url else 0


def put_back(folder: Path, settings: "Settings") -> dict[str, float]:
    """Copy a backup, which is whole, to where a service begins from it."""
    began = perf_counter()
    digests = _manifest(folder)
    for name, digest in digests.items():
        if not (folder / name).exists() or _digest(folder / name) != digest:
            raise CommandError(f"{folder / name} is damaged or gone: use another backup", FAILED)
    data = settings.data_dir
    _clear(data, digests)
    # A service must not begin from half a file, nor the next try find one.
    with TemporaryDirectory(prefix=_UNFINISHED, dir=data) as scratch:
        for name in digests:
            if name == REDIS and settings.redis_url:
                note(f"start your Redis from {folder / REDIS}, see docs/backup.md")
                continue
            place = Path(scratch) / (_APPEND_ONLY if name == REDIS else name)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            shutil.copy2(folder / name, place)
        # Redis last: what a kill in between leaves is no state yet, and the next try goes on.
        for whole in sorted(Path(scratch).iterdir(), reverse=True):
            if not (data / whole.name).exists():
                whole.rename(data / whole.name)
    log = _log_folder(settings)
    if (data / CLICK_LOG).exists() and log != data / CLICK_LOG:
        there = log or "the object store of the settings"
        note(f"move {data / CLICK_LOG} to {there}, where the service reads it")
    return _summary(folder, began)


def _clear(data: Path, digests: dict[str, str]) -> None:
    """Make the directory ready for a restore. A `CommandError` where it has the state of a service:
    all but what a restore of this backup that was killed has put there."""
    data.mkdir(0o700, parents=True, exist_ok=True)
    for name in (_APPEND_ONLY, "appendonlydir", CLICK_LOG, KEY):
        if (data / name).exists() and not _is_restored(data, name, digests):
            raise CommandError(f"{data / name} exists: restore into a directory without state")
    for unfinished in data.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(unfinished)


def _is_restored(data: Path, name: str, digests: dict[str, str]) -> bool:
    """Whether what has that name is, to the last bit, what the backup holds."""
    found = {file: _digest(data / file) for file in _files(data) if Path(file).parts[0] == name}
    return found == {file: sum for file, sum in digests.items() if Path(file).parts[0] == name}


def _manifest(folder: Path) -> dict[str, str]:
    """The digest of each file by its name. A `CommandError` where there is none, or one that names
    other files than a backup has: they would be written wherever it says."""
    if not (folder / MANIFEST).exists():
        raise CommandError(f"{folder}: no whole backup, it has no {MANIFEST}")
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise CommandError(f"{folder / MANIFEST} is damaged: {error}", FAILED) from None
    for name in found:
        parts = Path(name).parts
        if ".." in parts or (name not in (REDIS, KEY) and parts[:1] != (CLICK_LOG,)):
            raise CommandError(f"{folder / MANIFEST}: {name!r} is no file of a backup", FAILED)
    return found


def _snapshot(url: str, path: Path) -> None:
    """Have Redis send all that it holds at one moment."""
    from app.storage.redis.server import find_redis_binary

    found = _server(url)
    program = shutil.which("redis-cli") or find_redis_binary().with_name("redis-cli")
    server = ["-h", found.get("host", "localhost"), "-p", found.get("port", 6379)]
    words = ["-s", found["path"]] if "path" in found else server
    words += _words_of_tls(found) if url.startswith("rediss") else []
    words += ["--user", found["username"]] if "username" in found else []
    secret = {"REDISCLI_AUTH": str(found["password"])} if "password" in found else {}
    command = [str(word) for word in (program, *words, "--rdb", path)]
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_LONGEST_SECONDS,
            env={**os.environ, **secret}, umask=0o077,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        raise CommandError(f"redis-cli --rdb failed: {why}", FAILED) from None


def _server(url: str) -> dict[str, Any]:
    """What a connection to the server is made with: with Sentinel, to the master of the moment."""
    from redis.exceptions import RedisError

    from app.storage.redis.addresses import CLUSTER, address_of
    from app.storage.redis.client import open_redis

    address = address_of(url)
    if address is not None and address.kind == CLUSTER:
        raise CommandError(
            "a cluster has no snapshot of one moment: docs/backup.md says what to copy of it"
        )
    with open_redis(url) as client:
        found = dict(client.connection_pool.connection_kwargs)
        if address is not None:
            try:
                connection = client.connection_pool.get_connection()
            except RedisError as error:
                raise CommandError(f"there is no master to copy: {error}", FAILED) from None
            found |= {"host": connection.host, "port": connection.port}
    return found


def _words_of_tls(found: dict[str, Any]) -> list[object]:
    # A file may hold the certificate and its key.
    found = {"ssl_keyfile": found.get("ssl_certfile"), **found}
    words: list[object] = ["--tls"]
    for option, word in _OPTIONS_OF_TLS.items():
        words += [word, found[option]] if found.get(option) else []
    return words + (["--insecure"] if found.get("ssl_cert_reqs") == "none" else [])


def _copy_parts(source: Path, target: Path) -> None:
    """Copy what never changes and may be replaced meanwhile, until there is nothing new: a new part
    is whole before those that it replaces go."""
    while new := [part for part in _files(source) if not (target / part).exists()]:
        for part in new:
            (target / part).parent.mkdir(0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                shutil.copy2(source / part, target / part)


def _files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".tmp")
    return sorted(str(path.relative_to(folder)) for path in found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _summary(folder: Path, began: float) -> dict[str, float]:
    sizes = [(folder / name).stat().st_size for name in _files(folder)]
    return {"bytes": sum(sizes), "files": len(sizes), "seconds": perf_counter() - began}


def _read(settings: "Settings", database: int) -> dict[str, float]:
    """Start a Redis from the copy, and read it: the seconds until it answered, and what is there.

    A version that cannot be read whole is a `CommandError`.
    """
    from app.access.key_store import KeyStore
    from app.cli.serving.store import opened_store
    from app.storage.errors import CorruptVersion, UnknownVersion
    from app.storage.keys import HISTORY
    from app.storage.redis.client import as_text, open_redis
    from app.storage.versions import Versions

    began = perf_counter()
    with opened_store(settings) as url, open_redis(f"{url}?db={database}") as client:
        started = perf_counter() - began
        versions = Versions(client, settings.versions_kept)
        # Not its history, which leaves out what is damaged.
        named = [versions.current(), *cast(list[bytes], client.lrange(HISTORY, 0, -1))]
        kept = dict.fromkeys(as_text(name) for name in named if name is not None)
        try:
            for version in kept:
                versions.load(version)
        except (CorruptVersion, UnknownVersion) as error:
            raise CommandError(f"the backup has no whole maps: {error}", FAILED) from None
        keys = len(KeyStore(client).all())
        stored = cast(int, client.dbsize())
    parts = len(_files(settings.data_dir / CLICK_LOG))
    return {
        "start": started, "stored": stored, "versions": len(kept), "api_keys": keys, "parts": parts,
    }  # fmt: skip


def _show(found: dict[str, float], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        number = f"{value:,.2f} s" if isinstance(value, float) else f"{value:,}"
        print_line(f"{name.replace('_', ' '):10}{number:>16}")
