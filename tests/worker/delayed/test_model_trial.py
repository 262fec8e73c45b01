"""Loading in another process first: whatever the bytes do, they do it there."""

import hashlib
import subprocess
import sys

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
