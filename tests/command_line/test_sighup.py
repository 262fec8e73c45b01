"""SIGHUP: a reload of what runs, or the end of the terminal that it runs in."""

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from threading import Event

import pytest

from app.cli.signals import Reload, reloaded_by_sighup
from tests.command_line.api_workers import Caller, end, serve
from tests.command_line.conftest import COMMAND, SECONDS, with_default_signals
from tests.command_line.test_up import children, is_ready, runs, wait_until
from tests.loopback import refuses
from tests.reserved_ports import reserved_port


def test_a_reload_is_taken_once():
    """However often it was asked for before."""
    reload = Reload()
    with reloaded_by_sighup(reload.request):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)

    assert (reload.taken(), reload.taken()) == (True, False)


def test_the_signal_means_afterwards_what_it_meant_before():
    before = signal.getsignal(signal.SIGHUP)
    with reloaded_by_sighup(Reload().request):
        assert signal.getsignal(signal.SIGHUP) != before

    assert signal.getsignal(signal.SIGHUP) == before


def workers_of(process: int) -> list[int]:
    """The API workers whose parent is the process."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


# The worker gives way to all others: where two cores are busy, its start and its end take minutes.
PATIENCE = 300


@pytest.mark.slow
@pytest.mark.timeout(3 * PATIENCE)
def test_up_replaces_the_api_without_a_gap_and_starts_the_worker_again(tmp_path, started):
    """Redis and the parent of the API processes stay; the workers are gone with it."""
    running = serve(started, tmp_path / "data", "up")
    before, stop = children(running.process), Event()
    old = workers_of(before["serve"])
    caller = Caller(running.url, keeps_alive=False, stop=stop)

    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not any(map(runs, old)), f"{old} have ended", PATIENCE)
    # Or the worker, which gives way, would wait for whom no one waits any more.
    stop.set()
    caller.thread.join()
    wait_until(lambda: not runs(before["worker"]), f"{before['worker']} has ended", PATIENCE)
    wait_until(lambda: len(children(running.process)) == len(before), "a worker is back", PATIENCE)
    running.ask(1)
    after = children(running.process)

    assert (len(old), caller.failures) == (2, [])
    assert {name for name in before if after[name] != before[name]} == {"worker"}
    said = end(running.process)
    assert running.process.returncode == 0, said
    wait_until(lambda: refuses(running.port), "nobody listens")


def test_one_process_alone_goes_on(tmp_path, started):
    """Its port would close: it says so instead. And SIGTERM ends it well, as it does several: a
    supervisor must not take that for a fault."""
    port = reserved_port()
    process = started("serve", "--port", port, "--data-dir", tmp_path / "data")
    wait_until(lambda: is_ready(f"http://127.0.0.1:{port}"), "ready")
    assert process.stderr is not None

    process.send_signal(signal.SIGHUP)
    said = next(line for line in process.stderr if "SIGHUP" in line)

    assert said.endswith("SIGHUP replaces no process that is alone: its port would close\n")
    assert is_ready(f"http://127.0.0.1:{port}")
    last_words = end(process)
    assert process.returncode == 0, last_words
    assert "Traceback" not in last_words


@contextmanager
def in_terminal(environment: dict[str, str], first: str, folder: Path) -> Iterator[Popen[str]]:
    """`sirocco serve`, run by the command `first` in a terminal that is gone inside."""
    port = reserved_port()
    command = [*COMMAND, "serve", "--port", str(port), "--data-dir", str(folder / "data")]
    ours, theirs = pty.openpty()
    process = Popen(
        ["sh", "-c", f'exec {first} "$@" < {os.ttyname(theirs)}', "sh", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=with_default_signals,
    )
    try:
        wait_until(lambda: is_ready(f"http://127.0.0.1:{port}"), "ready")
    finally:
        os.close(theirs)
        os.close(ours)
    yield process


@pytest.mark.slow
def test_who_had_a_terminal_ends_in_order_when_it_is_gone(tmp_path, environment):
    """As by SIGTERM; nobody is left to end it otherwise."""
    with in_terminal(environment, "", tmp_path) as process:
        said = process.communicate(timeout=SECONDS)[1]

    assert process.returncode == 0, said
    assert "Traceback" not in said


@pytest.mark.slow
def test_nohup_lets_the_terminal_go(tmp_path, environment):
    """Whoever says so wants it to stay."""
    with in_terminal(environment, "nohup", tmp_path) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "SIGHUP" in line)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)

    assert "replaces no process" in said
    assert process.returncode == 0
