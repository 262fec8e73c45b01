"""The command itself, in processes of its own, as a user starts it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli.main import main

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-P", "-m", "app.cli"]
SECONDS = 90

Sirocco = Callable[..., subprocess.CompletedProcess[str]]
Started = Callable[..., subprocess.Popen[str]]


def with_default_signals() -> None:
    """nohup, and `&` in a shell without job control, have what they start ignore SIGHUP or SIGINT,
    and its children too."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def environment() -> dict[str, str]:
    """Our environment without settings of a service."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("SIROCCO_")}
    return {**ours, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}


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
) -> Sirocco:
    """The same in this process: quicker, for commands that start no other."""

    def call(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "80")
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        monkeypatch.setattr(sys, "argv", ["sirocco", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(arguments, ended.value.code, *capsys.readouterr())

    return call


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
        process.communicate(timeout=SECONDS)
