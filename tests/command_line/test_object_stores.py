"""Logs and lakes in an object store: what its errors mean, and a real S3 over HTTP."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from app.click_log.folder import ClickLogUnavailable, Folder
from app.datasets.parts import parts_of, shown
from app.errors import CommandError
from app.lake.tasks import reaching_output
from app.object_stores import located, meaning
from tests.command_line.logs import columns, events
from tests.command_line.test_up import wait_until
from tests.loopback import LOOPBACK
from tests.recorded.commands import sirocco
from tests.reserved_ports import reserved_port

REFUSALS = {
    "NoSuchBucket": (404, "there is no such bucket"),
    "InvalidAccessKeyId": (403, "does not know the access key; see AWS_ACCESS_KEY_ID"),
    "SignatureDoesNotMatch": (403, "is not that of the access key; see AWS_SECRET_ACCESS_KEY"),
    "AccessDenied": (403, "may not list or read this, or there are none"),
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


@contextmanager
def refusing(code: str, status: int, headers: dict[str, str] | None = None) -> Iterator[str]:
    """A store that answers each request with an error; its address."""

    class Refusal(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            self.answer(body)

        do_POST = do_PUT = do_GET

        def do_HEAD(self) -> None:
            self.answer(b"")

        def answer(self, body: bytes) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Type": "application/xml"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("code", REFUSALS)
def test_an_error_says_what_is_wrong(code, monkeypatch):
    """As a log, as the output of a lake, and as the click log of a worker."""
    status, said = REFUSALS[code]
    with refusing(code, status) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        with pytest.raises(CommandError, match=f"^s3://bucket/log/: .*{said}[; ]"):
            parts_of("s3://bucket/log/")
        with (
            pytest.raises(CommandError, match=f"^--output s3://bucket/lake: .*{said}[; ]"),
            reaching_output("s3://bucket/lake") as folder,
        ):
            folder.write("bins/a", b"x")
        with pytest.raises(ClickLogUnavailable, match=f"click log failed: .*{said}[; ]"):
            Folder.open("s3://bucket/clicks").write("a/b", b"x")


def test_a_file_that_may_not_be_read_is_an_error_that_says_so():
    """Arrow puts the reason where the noise of object stores is."""
    said = "Failed to open local file '/a/b'. Detail: [errno 13] Permission denied"
    assert meaning(PermissionError(13, said)) == "Permission denied"


def test_a_bucket_of_another_region_is_named(monkeypatch):
    headers = {"x-amz-bucket-region": "ap-south-1"}
    with refusing("PermanentRedirect", 301, headers) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        with pytest.raises(CommandError, match=r"in another region; see AWS_REGION"):
            parts_of("s3://bucket/log")


def test_a_store_that_is_not_there_is_given_up_soon(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{reserved_port()}")
    with pytest.raises(CommandError, match=r"cannot be reached; see AWS_ENDPOINT_URL"):
        parts_of("s3://bucket/log")


def test_keys_of_a_url_are_in_no_message():
    """A `/` in a secret key ends the host for who reads the URL, and must not bring it to light."""
    for url in ("s3://key:sec/ret@bucket/log", "s3://key:se/cr/et@bucket/log?region=x"):
        assert shown(url) == "s3://bucket/log"
        with pytest.raises(CommandError, match="as %2F") as log:
            parts_of(url)
        with pytest.raises(ClickLogUnavailable) as clicks:
            Folder.open(url)
        for error in (log, clicks):
            assert "key" not in str(error.value).replace("in a key", "")
            assert "et@" not in str(error.value)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a server that speaks S3, with a bucket `bucket`."""
    python = Path(sys.prefix) / "s3/bin/python"
    if not python.exists():
        pytest.skip("no moto: python -m venv .venv/s3; pip install -r requirements-s3.lock there")
    port = reserved_port()
    server = subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(url), "the store answers")
        filesystem(url).create_dir("bucket")
        yield url
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, **LOOPBACK).status_code < 500
    except httpx.HTTPError:
        return False


def filesystem(url: str) -> Any:
    return pyarrow.fs.S3FileSystem(
        access_key="key",
        secret_key="secret",
        region="eu-west-1",
        endpoint_override=url,
        allow_bucket_creation=True,
    )


@pytest.fixture
def both(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log `log/`, which is in the store, too."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", store)
    monkeypatch.chdir(tmp_path)
    write_parts(tmp_path, filesystem(store))
    return tmp_path


def write_parts(here: Path, there: Any) -> None:
    """The same log in the store and in `log/`, in two parts whose folders have odd names."""
    found = columns(events(3, 400))
    for place, (first, behind) in {"from=10%3A00": (0, 500), "from=11 00": (500, None)}.items():
        part = pa.table({name: values[first:behind] for name, values in found.items()})
        folder = here / "log" / place
        folder.mkdir(parents=True)
        pq.write_table(part, folder / "p.parquet")
        pq.write_table(part, f"bucket/log/{place}/p.parquet", filesystem=there)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", ["evaluate {} --json", "backtest {} --window 1h --json"])
def test_a_log_in_a_store_is_that_on_the_disk(both, command):
    for where in ("log", "log/from=*/*.parquet"):
        here = sirocco(command.format(where), both)
        there = sirocco(command.format(f"s3://bucket/{where}"), both)

        assert "exit code 0" in here
        assert there.replace("s3://bucket/", "") == here


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_lake_may_be_in_a_store(both, store):
    """Its bins are those of the disk, and maps are made of them and put there."""
    line = "lake bins {}log --output {}lake --processes {} --json"
    here = sirocco(line.format("", "", 1), both)
    there = sirocco(line.format("s3://bucket/", "s3://bucket/", 2), both)
    digest = here.partition('"digest":')[2].split(",")[0]
    assert digest
    assert digest in there

    again = sirocco(line.format("s3://bucket/", "s3://bucket/", 1), both)
    assert '"made": 0' in again or '"made":0' in again
    maps = sirocco("lake maps s3://bucket/lake/bins.parquet --output s3://bucket/lake", both)
    assert "exit code 0" in maps
    assert filesystem(store).get_file_info("bucket/lake/maps/click.atlas").size > 0


@pytest.mark.slow
def test_the_click_log_may_be_in_a_store(both):
    check_a_folder("s3://bucket/clicks")


def check_a_folder(url: str) -> None:
    """What a click log does in it."""
    folder = Folder.open(url)
    folder.write_pieces("a/b", [b"x" * 100, b"y"])
    assert folder.read("a/b") == b"x" * 100 + b"y"
    folder.move("a/b", "c/d")
    assert [entry.path for entry in folder.entries("") if entry.size] == ["c/d"]
    assert folder.read("a/b") is None
    folder.delete("c/d")
    assert folder.read("c/d") is None


@pytest.fixture(scope="module")
def options() -> Iterator[str]:
    """Of a URL gs://anonymous@bucket/: where a server is that speaks to Google's clients."""
    program = Path(sys.prefix) / "s3/bin/gcp-storage-emulator"
    if not program.exists():
        pytest.skip("no gcp-storage-emulator: pip install -r requirements-s3.lock in .venv/s3")
    port = reserved_port()
    place = ("--host=127.0.0.1", f"--port={port}", "--in-memory", "--default-bucket=bucket")
    server = subprocess.Popen([program, "start", *place], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(f"http://127.0.0.1:{port}"), "the store answers")
        yield f"?scheme=http&endpoint_override=127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_google_s_store_is_read_and_written_like_a_disk(tmp_path, options):
    """Logs, a lake and the click log."""
    store = "gs://anonymous@bucket/"
    write_parts(tmp_path, located(f"{store}log{options}")[0])

    for where in ("log", "log/from=*/*.parquet"):
        here = sirocco(f"evaluate {where} --json", tmp_path)
        there = sirocco(f"evaluate {store}{where}{options} --json", tmp_path)
        assert "exit code 0" in here
        assert there.replace("gs://bucket/", "") == here
    here = sirocco("lake bins log --output lake --json", tmp_path)
    there = sirocco(f"lake bins {store}log{options} --output {store}lake{options} --json", tmp_path)
    digest = here.partition('"digest":')[2].split(",")[0]
    assert digest
    assert digest in there
    check_a_folder(f"{store}clicks{options}")


def test_google_s_store_is_given_up_soon_too():
    """By itself pyarrow tries for a quarter of an hour."""
    away = f"127.0.0.1:{reserved_port()}"
    url = f"gs://anonymous@bucket/log?scheme=http&endpoint_override={away}"

    waits = [located(one)[0].__reduce__()[1][0]["retry_time_limit"].total_seconds()
             for one in (url, f"{url}&retry_limit_seconds=1")]  # fmt: skip
    assert waits == [12, 1]
    with pytest.raises(CommandError, match=r"^gs://bucket/log: .*cannot be reached"):
        parts_of(f"{url}&retry_limit_seconds=1")
