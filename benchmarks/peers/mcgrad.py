"""Becomes MCGrad's child program, in its environment, which is made first if it is not there.

`python -m benchmarks.peers.mcgrad`, as `research.leaderboard` starts it; it answers {"error": why}
on standard output where the environment cannot be made.
"""

import fcntl
import json
import os
import sys
from pathlib import Path

from benchmarks.peers.environments import ENVIRONMENTS, NotInstalled, environment

PROGRAM = Path(__file__).parent / "programs" / "mcgrad_maps.py"

# The pins are all that it imports; what it declares besides (torch, plotly and others, which its
# tuning and pictures need) would be gigabytes.
_OPTIONS = ("--no-deps",)


def python(environments: Path = ENVIRONMENTS) -> Path:
    """The Python of the environment, made by one process at a time. Raises NotInstalled."""
    environments.mkdir(exist_ok=True)
    with (environments / "mcgrad.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return environment("mcgrad", environments=environments, options=_OPTIONS)


def main() -> None:
    """Become the child."""
    try:
        found = str(python())
    except NotInstalled as reason:
        sys.stdout.write(json.dumps({"error": str(reason)}) + "\n")
        return
    os.execv(found, [found, str(PROGRAM)])


if __name__ == "__main__":
    main()
