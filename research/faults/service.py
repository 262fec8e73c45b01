"""`sirocco up` as its users run it, each process of which can be killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

import httpx

from app.storage.redis.server import socket_url

UP: Final = "up"
STANDBY: Final = "standby"
_NAMES: Final = ("redis-server", "worker", "serve")
PROCESSES: Final = (UP, *_NAMES)
_END_SECONDS: Final = 60.0
_START_FIELD: Final = 19
"""Of /proc/PID/stat, behind the name: when the process started, in clock ticks since the boot."""


@dataclass(slots=True)
class Service:
    """A running `sirocco up` on a port of its own; it is started again when it was killed itself.

    `environment` is added to that of this process; `folder` holds its data and its output. With a
    standby a second worker runs beside it, whose data are the same.
    """

    folder: Path
    port: int
    environment: Mapping[str, str]
    standby: bool = False
    ended: list[str] = field(default_factory=list)
    """What `sirocco up` said each time that it ended by itself; it is started again then, as a
    service manager does."""
    _process: subprocess.Popen[bytes] | None = None
    _second: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the API answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def redis_url(self) -> str:
        """The embedded Redis."""
        return socket_url(Path((self.folder / "data" / "redis.address").read_text()))

    @property
    def click_log(self) -> Path:
        """The folder of the click log."""
        return self.folder / "data" / "click-log"

    def start(self) -> None:
        """Start `sirocco up`; returns at once."""
        self._process = self._started("up", "--json", "--port", str(self.port))

    def _started(self, command: str, *options: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command}.log").open("ab") as log:
            data = ("--data-dir", str(self.folder / "data"))
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "app.cli", command, *options, *data],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                cwd=self.folder,
            )

    def stop(self) -> None:
        """End it in order."""
        for process in (self._second, self._process):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(_END_SECONDS)

    def processes(self) -> dict[str, int]:
        """Process ids by name, of those that run."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.ended.append((self.folder / "up.log").read_text().strip().rpartition("\n")[2])
            self.start()
        found = {UP: self._process.pid} if self._process.poll() is None else {}
        for child in _children(self._process.pid):
            found.update({name: child for name in _NAMES if name in _words(child)})
        if self.standby and (self.folder / "data" / "redis.address").exists():
            if self._second is None or self._second.poll() is not None:
                self._second = self._started("worker", "--redis-url", self.redis_url)
            found[STANDBY] = self._second.pid
        return found

    def kill(self, name: str, process: int) -> None:
        """kill -9; `sirocco up` itself is started again, and starts the others again but for the
        standby, which `processes` does."""
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return
        if name == UP and self._process is not None:
            self._process.wait(_END_SECONDS)
            self.start()

    def status(self) -> dict[str, object]:
        """What /readyz says; empty while nobody answers."""
        try:
            found = httpx.get(f"{self.url}/readyz", trust_env=False, verify=False, timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return dict(found)


def _children(process: int) -> list[int]:
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in found.split()]


def seconds_of_life(process: int) -> float:
    """How long a process has run; infinite for one that is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        up = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return inf
    return up - int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")


def _words(process: int) -> set[str]:
    try:
        command = Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return set()
    return {Path(word).name for word in re.split("[ \0]", command)}
