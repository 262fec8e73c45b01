"""Model servers of other environments, each serving one isotonic map on loopback, on core 0."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

from app.cli.serving.settings import free_port
from benchmarks.http import HOST
from benchmarks.http.bodies import ScoresRequest
from benchmarks.http.load import Connections, post
from benchmarks.http.servers import Server
from benchmarks.machine import on_core, process_tree
from benchmarks.peers.environments import environment
from calibrators import CalibrationMap
from calibrators.samples import Floats

PROGRAMS = Path(__file__).parent / "programs"
START_SECONDS, STOP_SECONDS, POLL_SECONDS = 90.0, 10.0, 0.2
_SILENT = {
    "BENTOML_DO_NOT_TRACK": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class PeerServer(Server):
    """All of its processes are stopped while others have their turn: some are busy all the time."""

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let it run."""
        self.signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.signal(signal.SIGSTOP)

    def signal(self, number: int) -> None:
        """Send it to every process."""
        for found in process_tree(self.process_id):
            with suppress(ProcessLookupError):
                os.kill(found, number)


class NotStarted(Exception):
    """A peer that gives no right answer, and why."""


def _scores(scores: Floats) -> bytes:
    return orjson.dumps({"scores": scores.tolist()})


def _probabilities(answer: bytes) -> Floats:
    found = orjson.loads(answer)
    return np.array(found["probabilities"] if isinstance(found, dict) else found, float)


def _tensor(scores: Floats) -> bytes:
    tensor = {"name": "scores", "shape": [len(scores), 1], "datatype": "FP64"}
    return orjson.dumps({"inputs": [{**tensor, "data": scores.tolist()}]})


def _of_tensor(answer: bytes) -> Floats:
    return np.array(orjson.loads(answer)["outputs"][0]["data"], float)


@dataclass(frozen=True)
class Peer:
    """A framework in one of its settings: how it is started, asked and read."""

    environment: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    path: str = "/predict"
    body: Callable[[Floats], bytes] = _scores
    probabilities: Callable[[bytes], Floats] = _probabilities

    def message(self, question: ScoresRequest) -> bytes:
        """The request for the scores."""
        return post(self.path, self.body(question.scores))


_BATCH = "16"
_V2 = "/v2/models/calibration/infer"
_BENTO = ("bentoml", "serve", "bentoml_server:Calibration", "--host", HOST, "--port", "{port}")
_BENTO_ALONE = ("python", "bentoml_server.py")
_RAY, _LIT = ("python", "ray_server.py"), ("python", "litserve_server.py")


def _mlserver(**variables: str) -> Peer:
    command = ("python", "mlserver_server.py")
    return Peer("mlserver", command, variables, _V2, _tensor, _of_tensor)


PEERS = {
    "BentoML, one worker": Peer("bentoml", _BENTO, {"BATCH": "1"}),
    "BentoML, in one process": Peer("bentoml", _BENTO_ALONE, {"BATCH": "1"}),
    "BentoML, in one process, batching": Peer("bentoml", _BENTO_ALONE, {"BATCH": _BATCH}),
    "MLServer, no worker pool": _mlserver(WORKERS="0"),
    "MLServer, one worker": _mlserver(WORKERS="1"),
    "MLServer and httptools, no worker pool": _mlserver(WORKERS="0", HTTPTOOLS="yes"),
    "LitServe": Peer("litserve", _LIT, {"BATCH": "1"}),
    "LitServe, batching": Peer("litserve", _LIT, {"BATCH": _BATCH}),
    "Ray Serve": Peer("rayserve", _RAY, {"BATCH": "1"}),
    "Ray Serve, batching": Peer("rayserve", _RAY, {"BATCH": _BATCH}),
}


@contextmanager
def serving(peer: Peer, served: CalibrationMap) -> Iterator[PeerServer]:
    """The peer, as soon as it answers; it ends with the block, with all of its processes.

    Raises NotInstalled, or NotStarted with what it said last.
    """
    python = environment(peer.environment)
    with TemporaryDirectory(prefix="peer-") as folder:
        model, log = Path(folder, "model.json"), Path(folder, "log")
        points = {"knots": served.knots.tolist(), "values": served.values.tolist()}
        model.write_text(json.dumps(points))
        port = free_port(HOST)
        process = _process(peer, python, port, model, log)
        try:
            _await_answer(peer, process, port, log)
            server = PeerServer(port, process.pid)
            server.signal(signal.SIGSTOP)
            yield server
        finally:
            _end(process)


def _process(
    peer: Peer, python: Path, port: int, model: Path, log: Path
) -> "subprocess.Popen[bytes]":
    program, *rest = peer.command
    words = [str(python.parent / program), *(word.format(port=port) for word in rest)]
    variables = {
        **os.environ,
        **_SILENT,
        **peer.variables,
        "MODEL": str(model),
        "PORT": str(port),
        "PORT_2": str(free_port(HOST)),
        "PORT_3": str(free_port(HOST)),
        "RAY_TMPDIR": str(model.parent),
    }
    # What it starts stays on the same core.
    with on_core(0), log.open("wb") as said:
        return subprocess.Popen(
            words, cwd=PROGRAMS, env=variables, stdout=said, stderr=said, start_new_session=True
        )


def _await_answer(peer: Peer, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(peer, port):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise NotStarted(f"does not start; it says: {said[0][:120].replace('|', '/')}")
        time.sleep(POLL_SECONDS)


def _answers(peer: Peer, port: int) -> bool:
    try:
        with Connections(port, 1) as connection:
            connection.send([post(peer.path, peer.body(np.array([0.5])))])
    except (OSError, RuntimeError):
        return False
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    left = process_tree(process.pid)
    process.terminate()
    for found in left:
        with suppress(ProcessLookupError):
            os.kill(found, signal.SIGCONT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    for found in left:
        with suppress(ProcessLookupError):
            os.kill(found, signal.SIGKILL)
    process.wait()
