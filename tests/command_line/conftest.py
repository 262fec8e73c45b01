"""The command itself: in a process of its own, as a user starts it, or in that of the tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.cli.main import main
from app.errors import BAD_INPUT
from app.settings import Settings
from app.storage.redis.client import open_redis
from app.worker.loop import Worker
from tests.api.conftest import new_redis
from tests.api.running_service import RunningService, serving
from tests.loopback import PATIENT

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-P", "-m", "app.cli"]
SECONDS = 240

Sirocco = Callable[..., subprocess.CompletedProcess[str]]
Started = Callable[..., subprocess.Popen[str]]
Refused = Callable[..., str]
Answered = Callable[..., Any]


def python_path() -> str:
    """Ours, whatever the folder, and that of all children."""
    return os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"]))


def with_default_signals() -> None:
    """nohup, and `&` in a shell without job control, have what they start ignore SIGHUP or SIGINT,
    and its children too."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def environment() -> dict[str, str]:
    """Our environment without settings of a service but for its patience."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("SIROCCO_")}
    return {**ours, **PATIENT, "PYTHONPATH": python_path(), "COLUMNS": "80"}


@pytest.fixture
def sirocco(tmp_path: Path, environment: dict[str, str]) -> Sirocco:
    """Runs `sirocco` with the arguments, in an empty folder, to its end."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    return run


@pytest.fixture
def called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Sirocco]:
    """The same in this process: quicker, for commands that start no other."""
    # What serves takes rights from others than its user.
    umask = os.umask(0)
    os.umask(umask)

    def call(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "80")
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        monkeypatch.setattr(sys, "argv", ["sirocco", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(arguments, ended.value.code, *capsys.readouterr())

    yield call
    os.umask(umask)


@pytest.fixture
def refused(called: Sirocco) -> Refused:
    """What `sirocco` says of arguments that it refuses: one line, or where options are misused."""

    def refuse(*arguments: object, **variables: str) -> str:
        run = called(*arguments, **variables)
        assert (run.returncode, run.stdout) == (BAD_INPUT, ""), run.stdout
        lines = run.stderr.splitlines()
        assert lines[0].startswith("Usage: ") or (lines[0][:9], len(lines)) == ("sirocco: ", 1)
        return " ".join(run.stderr.split())

    return refuse


@pytest.fixture
def answered(called: Sirocco) -> Answered:
    """What `sirocco` prints in JSON, and nothing beside it."""

    def answer(*arguments: object, **variables: str) -> Any:
        run = called(*arguments, "--json", **variables)
        assert (run.returncode, run.stderr) == (0, "")
        return orjson.loads(run.stdout)

    return answer


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """A service for all tests of a file, on a store of its own."""
    with new_redis() as server, serving(Settings(port=0), server.url) as running:
        yield running


@pytest.fixture
def started(tmp_path: Path, environment: dict[str, str]) -> Iterator[Started]:
    """Starts `sirocco` with the arguments; what still runs at the end of the test is ended."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=with_default_signals,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.send_signal(signal.SIGTERM)
        # Shown where the test has failed.
        sys.stderr.write(process.communicate(timeout=SECONDS)[1] or "")


@contextmanager
def working(settings: Settings, redis_url: str) -> Iterator[None]:
    """A worker in a thread."""
    stop = Event()
    with open_redis(redis_url) as client:
        worker = Worker(settings, client, time.time, "test")
        thread = Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, redis_url: str, tmp_path: Path) -> None:
    """The services that commands play through without processes of their own, on one store."""

    @contextmanager
    def service(given: dict[str, Any], port: int | None = None) -> Iterator[SimpleNamespace]:
        fit = {name: value for name, value in given.items() if value is not None}
        files = tmp_path / "data"
        settings = Settings(clock="event", port=0, refresh_seconds=0.01, data_dir=files, **fit)
        with serving(settings, redis_url) as running, working(settings, redis_url):
            yield SimpleNamespace(url=running.url)

    for command in ("demo", "replay"):
        monkeypatch.setattr(f"app.cli.serving.{command}.private_service", service)
