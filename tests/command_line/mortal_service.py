"""A service in processes of its own, each of which can be killed and comes back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.parse import unquote

import httpx

from app.cli.serving.processes import Child
from app.cli.serving.settings import environment_of
from app.settings import Settings
from app.storage.redis.server import EmbeddedRedis, socket_url
from tests.command_line.conftest import python_path
from tests.command_line.doomed_store import Doom, DoomedStore
from tests.command_line.test_up import wait_until
from tests.loopback import LOOPBACK
from tests.reserved_ports import reserved_port

_LOOK_SECONDS = 0.02


class MortalService:
    """Redis, an API process and workers, which reach Redis through a `DoomedStore`."""

    def __init__(self, folder: Path, logs: Path, workers: int, options: dict[str, Any]) -> None:
        self._folder = folder
        self._logs = logs
        self._workers = workers
        self._redis = EmbeddedRedis(folder / "redis")
        port = reserved_port()
        store_url = socket_url(folder / "store.sock")
        mine = {"redis_url": store_url, "data_dir": folder / "data", "port": port}
        self._environment = {**environment_of({**options, **mine}), "PYTHONPATH": python_path()}
        self.settings = Settings(**{**options, **mine})
        self.url = f"http://127.0.0.1:{port}"
        self._children: dict[int, Child] = {}
        self._started = 0

    @property
    def redis_url(self) -> str:
        """Redis itself, for tests that look into it."""
        return self._redis.url

    @contextmanager
    def running(self) -> Iterator[None]:
        """All of it; the API answers from the beginning."""
        with ExitStack() as stack:
            self._redis.__enter__()
            stack.callback(lambda: self._redis.__exit__(None, None, None))
            self._store = stack.enter_context(self._doomed_store())
            stack.callback(self.stop)
            for command in ("serve", *["worker"] * self._workers):
                self._start(command)
            wait_until(self._is_ready, "ready")
            yield

    def stop(self) -> None:
        """End the API and the workers; Redis stays."""
        for child in self._children.values():
            child.stop()
        self._children.clear()

    def doom(self, doom: Doom) -> None:
        """Have somebody die at the next such step."""
        self._store.arm(doom)

    @property
    def is_struck(self) -> bool:
        """Whether somebody has died of it."""
        return self._store.has_struck

    def revive(self) -> str:
        """Start again what was killed, once it is gone; says what that was."""
        victim = self._store.victim
        if victim == self._redis.process_id:
            self._redis.__exit__(None, None, None)
            self._redis.__enter__()
            return "Redis"
        child = self._children.pop(victim)
        child.stop()
        self._start(child.name)
        return child.name

    @property
    def complaints(self) -> str:
        """The logs of processes that met a fault of ours."""
        texts = [log.read_text() for log in self._logs.iterdir()]
        return "\n".join(text for text in texts if "Traceback" in text)

    @contextmanager
    def _doomed_store(self) -> Iterator[DoomedStore]:
        redis = Path(unquote(self._redis.url.removeprefix("unix://")))
        with DoomedStore(self._folder / "store.sock", redis, self._redis_process) as store:
            thread = Thread(target=store.serve_forever, args=(_LOOK_SECONDS,))
            thread.start()
            try:
                yield store
            finally:
                store.shutdown()
                thread.join()

    def _redis_process(self) -> int:
        assert self._redis.process_id is not None
        return self._redis.process_id

    def _start(self, command: str) -> None:
        self._started += 1
        log = self._logs / f"{self._started:02d}-{command}.log"
        child = Child(command, (command,), self._environment, log)
        child.start()
        assert child._process is not None
        self._children[child._process.pid] = child

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", **LOOPBACK).is_success
        except httpx.TransportError:
            return False


@contextmanager
def mortal_service(logs: Path, workers: int, **options: Any) -> Iterator[MortalService]:
    """A running service of these settings that is slow to despair and quick to come back.

    Of several workers, one works and the others wait for its end.
    """
    quick = {"fold_seconds": 0.05, "lease_seconds": 1, "redis_timeout_seconds": 10, **options}
    with TemporaryDirectory(prefix="sirocco-test-") as folder:
        service = MortalService(Path(folder), logs, workers, quick)
        with service.running():
            yield service
