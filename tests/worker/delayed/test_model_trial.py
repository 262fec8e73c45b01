"""Loading in another process first: whatever the bytes do, they do it there."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.worker import model_trial
from app.worker.model_trial import TrialFailed, main, try_model
from pccem import Features, PostClickModel


@pytest.fixture(scope="module")
def packed():
    pages = np.tile([1.0, 9.0], 200)
    features = Features({"behaviour.pages": pages}, 400)
    return PostClickModel.fit(features, pages > 5, num_threads=1).to_bytes()


@pytest.mark.slow
def test_damaged_bytes_fail_with_the_reason(packed):
    damaged = bytearray(packed)
    damaged[len(damaged) // 2] ^= 1

    with pytest.raises(TrialFailed, match=r"sha256|digest"):
        try_model(bytes(damaged))


@pytest.mark.slow
def test_a_good_model_passes_in_any_folder(packed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    try_model(packed)


def has_begun(process):
    return b"\0-m\0app.worker.model_trial\0" in Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process under /proc")
def test_ctrl_c_is_not_for_the_loader(packed):
    """The worker goes on with the refit that it has begun, and a good model is good."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, lambda *_: None);"
        "from app.worker.model_trial import try_model; try_model(sys.stdin.buffer.read())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, process_group=0
    ) as worker:
        worker.stdin.write(packed)
        worker.stdin.close()
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
        while not any(map(has_begun, children.read_text().split())):
            assert worker.poll() is None
        os.killpg(worker.pid, signal.SIGINT)

    assert worker.returncode == 0


def test_a_loader_that_hangs_is_ended(packed):
    with pytest.raises(TrialFailed, match=r"^it did not load within 0.001 s$"):
        try_model(packed, seconds=0.001)


@pytest.mark.slow
def test_trees_that_send_lightgbm_in_a_circle_do_no_harm_here(packed):
    """A digest that fits is no proof: the first tree's root is made its own child."""
    content = packed[:-32].replace(b"left_child=-1", b"left_child=00", 1)

    with pytest.raises(TrialFailed):
        try_model(content + hashlib.sha256(content).digest(), seconds=5.0)


@pytest.mark.slow
def test_a_loader_without_enough_memory_fails(packed):
    with pytest.raises(TrialFailed):
        try_model(packed, memory_bytes=1)


def test_a_loader_that_crashes_is_told_by_its_signal(packed, monkeypatch):
    """What the process prints before it dies is no reason."""
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    run = subprocess.run
    monkeypatch.setattr(
        model_trial.subprocess,
        "run",
        lambda command, **options: run([sys.executable, "-c", killed], **options),
    )

    with pytest.raises(TrialFailed, match=r"^its loader was ended by signal 11$"):
        try_model(packed)


def test_a_loader_that_says_nothing_is_told_by_its_code(packed, monkeypatch):
    run = subprocess.run
    monkeypatch.setattr(
        model_trial.subprocess,
        "run",
        lambda command, **options: run([sys.executable, "-c", "exit(3)"], **options),
    )

    with pytest.raises(TrialFailed, match=r"^exit code 3$"):
        try_model(packed)


def test_the_other_process_limits_itself(packed, monkeypatch, capsys):
    """In this process: without its limits, which could not be taken back."""

    class Input:
        buffer = None

    limits = []
    monkeypatch.setattr(model_trial, "_limit", lambda *given: limits.append(given))
    monkeypatch.setattr(sys, "argv", ["trial", "2.5", "1000"])
    codes = []
    for data in (packed, packed[:-1]):
        Input.buffer = type("Bytes", (), {"read": lambda self, data=data: data})()
        monkeypatch.setattr(sys, "stdin", Input)
        codes.append(main())

    assert codes == [0, 1]
    assert limits == [(2.5, 1000)] * 2
    assert capsys.readouterr().err.strip()
