"""Loads a model in a process of its own first: one changed byte can crash or hang its loader.

`python -m app.worker.model_trial` reads the model's bytes from standard input, scores its probes
and exits with 0, or with 1 and the reason.
"""

import os
import subprocess
import sys
from pathlib import Path

from pccem import PostClickModel

SECONDS = 30.0
MEMORY_BYTES = 4 * 1024**3
_REASON_CHARACTERS = 300
_ROOT = str(Path(__file__).parents[2])


class TrialFailed(ValueError):
    """The model did not load, hung, or gave other scores than when it was trained."""


def try_model(data: bytes, seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
    """Return if the bytes load in another process and its probes score as they should.

    Raises TrialFailed; whatever the bytes do, they do it there.
    """
    command = [sys.executable, "-P", "-m", __name__, str(seconds), str(memory_bytes)]
    try:
        trial = subprocess.run(
            command,
            input=data,
            capture_output=True,
            timeout=seconds,
            env=_environment(),
            check=False,
            # Ctrl-C is for the worker, which ends what it has begun: it would refuse a good model.
            process_group=0,
        )
    except subprocess.TimeoutExpired:
        raise TrialFailed(f"it did not load within {seconds:g} s") from None
    if trial.returncode:
        raise TrialFailed(_reason(trial))


def _environment() -> dict[str, str]:
    """Where our modules are, whatever the folder; one thread, because each reserves memory that a
    small model never uses."""
    paths = filter(None, (_ROOT, os.environ.get("PYTHONPATH")))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def _reason(trial: "subprocess.CompletedProcess[bytes]") -> str:
    if trial.returncode < 0:
        return f"its loader was ended by signal {-trial.returncode}"
    lines = trial.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {trial.returncode}")[:_REASON_CHARACTERS]


def main() -> int:
    """The other process: 0 if the model on standard input is good."""
    seconds, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    _limit(seconds, memory_bytes)
    try:
        PostClickModel.from_bytes(sys.stdin.buffer.read()).check_probes()
    except (ValueError, MemoryError) as error:
        sys.stderr.write(f"{error or type(error).__name__}\n")
        return 1
    return 0


def _limit(seconds: float, memory_bytes: int) -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # A parent that is killed cannot end a loader that hangs; its processor time can.
        limit = max(1, round(seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


if __name__ == "__main__":
    sys.exit(main())
