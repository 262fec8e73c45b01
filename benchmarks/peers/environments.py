"""Makes the environments of the peers: a venv with pinned versions each, kept between runs."""

import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from benchmarks.parts import say

FOLDER = Path(__file__).parent
ENVIRONMENTS = FOLDER.parents[1] / ".peers"
INSTALL_SECONDS = 1800.0
_LONGEST_REASON = 160
_PIP = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input")


class NotInstalled(Exception):
    """A peer that cannot be had here, and why."""


def environment(
    name: str, folder: Path = FOLDER, environments: Path = ENVIRONMENTS, options: Sequence[str] = ()
) -> Path:
    """The Python of the peer's environment, made with pip's options if it is not there yet.

    Raises NotInstalled with the reason in words, on one line.
    """
    pins = folder / f"{name}.txt"
    made = environments / name
    python, ready = made / "bin" / "python", made / "ready"
    digest = sha256(pins.read_bytes()).hexdigest()
    if not ready.exists() or ready.read_text() != digest:
        say(f"installing {name} ...")
        _install(name, made, python, pins, options)
        ready.write_text(digest)
    return python


def _install(name: str, made: Path, python: Path, pins: Path, options: Sequence[str]) -> None:
    try:
        _run(sys.executable, "-m", "venv", "--clear", str(made))
        _run(str(python), *_PIP, *options, "-r", str(pins))
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{name} is not installed after {INSTALL_SECONDS:.0f} s") from None
    except subprocess.CalledProcessError as error:
        raise NotInstalled(f"{name} does not install: {_reason(error.stderr)}") from None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)


def _reason(output: str) -> str:
    """The last error that pip told, without what would break a table."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
    return errors[-1].replace("|", "/")[:_LONGEST_REASON]
