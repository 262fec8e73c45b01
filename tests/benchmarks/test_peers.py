"""Peers: environments are made once and say why not; servers answer, rest, and end altogether."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.http.bodies import Ids, ScoresRequest
from benchmarks.http.load import Rounds, Way, take_turns
from benchmarks.machine import process_tree
from benchmarks.peers import environments
from benchmarks.peers import servers as peer_servers
from benchmarks.peers.calibrator import PeerCalibrator, PeerFailed
from benchmarks.peers.environments import NotInstalled, environment
from benchmarks.peers.servers import NotStarted, Peer, serving
from calibrators import CalibrationMap

MAP = CalibrationMap(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
PYTHON = Path(sys.executable)
FAKE_LIBRARY = """
import numpy as np
print("what a library prints is not an answer")
class BetaCalibration:
    def fit(self, scores, outcomes):
        if len(scores) != len(outcomes):
            raise ValueError("lengths | differ")
        self.mean = outcomes.mean()
    def predict(self, scores):
        return np.full(len(scores), self.mean)
"""
FAKE_SERVER = """
import json, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = json.dumps({"probabilities": asked["scores"]}).encode()
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in (said[:9], said[9:]):
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(part), part))
        self.wfile.write(b"0\\r\\n\\r\\n")
    def log_message(self, *words):
        pass

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture
def made(tmp_path, monkeypatch) -> list[tuple[str, ...]]:
    """The commands that would make an environment."""
    commands: list[tuple[str, ...]] = []

    def note(*command: str) -> None:
        commands.append(command)
        (tmp_path / "made" / "peer").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(environments, "_run", note)
    (tmp_path / "peer.txt").write_text("peer==1.0\n")
    return commands


def test_an_environment_is_made_once(made, tmp_path):
    found = [environment("peer", tmp_path, tmp_path / "made") for _ in range(2)]
    assert found == [tmp_path / "made" / "peer" / "bin" / "python"] * 2
    assert len(made) == 2
    assert made[0][1:3] == ("-m", "venv")
    assert made[1][-2:] == ("-r", str(tmp_path / "peer.txt"))


def test_other_pins_make_it_anew(made, tmp_path):
    environment("peer", tmp_path, tmp_path / "made")
    (tmp_path / "peer.txt").write_text("peer==1.1\n")
    environment("peer", tmp_path, tmp_path / "made")
    assert len(made) == 4


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            subprocess.CalledProcessError(1, "pip", stderr="ERROR: no | such\nhint: look\n"),
            "peer does not install: ERROR: no / such",
        ),
        (subprocess.TimeoutExpired("pip", 1.0), "peer is not installed after 1800 s"),
    ],
)
def test_what_does_not_install_says_why_and_is_tried_again(
    error, reason, made, tmp_path, monkeypatch
):
    """The reason fits into a cell of a table."""

    def fail(*command: str) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(environments, "_run", fail)
        with pytest.raises(NotInstalled) as raised:
            environment("peer", tmp_path, tmp_path / "made")
    assert str(raised.value) == reason
    environment("peer", tmp_path, tmp_path / "made")
    assert len(made) == 2


def test_every_environment_has_its_pins():
    for peer in peer_servers.PEERS.values():
        pins = (environments.FOLDER / f"{peer.environment}.txt").read_text().splitlines()
        assert any(line.startswith("scikit-learn==") for line in pins)
        assert all("==" in line for line in pins)


@pytest.fixture
def library(tmp_path, monkeypatch) -> None:
    """A library that a child process finds in place of betacal."""
    (tmp_path / "betacal.py").write_text(FAKE_LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("library")
def test_a_library_of_another_environment_fits_and_looks_up():
    outcomes = np.array([0.0, 1.0, 1.0, 0.0])
    with PeerCalibrator("betacal", PYTHON) as peer:
        assert peer.fit("beta", np.full(4, 0.2), outcomes) >= 0
        seconds, found = peer.look_up(np.full(3, 0.2), counts=[1, 2])
    assert seconds >= 0
    assert found.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.usefixtures("library")
def test_an_error_of_the_library_is_told_and_it_can_go_on():
    with PeerCalibrator("betacal", PYTHON) as peer:
        with pytest.raises(PeerFailed, match="betacal: ValueError: lengths"):
            peer.fit("beta", np.full(4, 0.2), np.zeros(3))
        assert peer.fit("beta", np.full(4, 0.2), np.zeros(4)) >= 0


def test_a_library_that_is_not_there_is_told():
    with PeerCalibrator("betacal", PYTHON) as peer, pytest.raises(PeerFailed, match="ended"):
        peer.fit("beta", np.full(4, 0.2), np.zeros(4))


@pytest.mark.usefixtures("library")
def test_a_fit_that_takes_too_long_is_ended():
    with PeerCalibrator("betacal", PYTHON) as peer:
        with pytest.raises(PeerFailed, match="more than 0 s"):
            peer.fit("beta", np.full(4, 0.2), np.zeros(4), most_seconds=0.0)
        with pytest.raises(PeerFailed):
            peer.fit("beta", np.full(4, 0.2), np.zeros(4))


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Peer:
    """A server of this environment that has a child, and answers in chunks."""
    (tmp_path / "server.py").write_text(FAKE_SERVER)
    monkeypatch.setattr(peer_servers, "environment", lambda name: PYTHON)
    return Peer("fake", ("python", str(tmp_path / "server.py")))


def states(process_ids: set[int]) -> set[str]:
    """How the processes are, by Linux's letters; T is stopped."""
    stats = [Path(f"/proc/{found}/stat") for found in process_ids]
    return {path.read_text().rpartition(")")[2].split()[0] for path in stats if path.exists()}


def test_a_peer_answers_in_its_turn_and_rests_otherwise(fake):
    question = ScoresRequest(["a", "b"], np.array([0.25, 0.5]), Ids(1, {}))
    with serving(fake, MAP) as server:
        way = Way(server, fake.message, fake.probabilities, rounds=2, connections=1)
        assert fake.probabilities(way.ask(fake.message(question))).tolist() == [0.25, 0.5]
        take_turns({"fake": way}, {"fake": [fake.message(question)]}, Rounds(0.001, 2))
        assert [len(way.cpu), len(way.wall)] == [2, 2]
        every = process_tree(server.process_id)
        assert len(every) == 2
        _await(lambda: states(every) == {"T"})
    _await(lambda: states(every) <= {"Z"})


@pytest.mark.usefixtures("fake")
def test_a_peer_that_does_not_start_says_its_last_words():
    broken = Peer("fake", ("python", "-c", "raise SystemExit('no | luck')"))
    with pytest.raises(NotStarted, match="it says: no / luck"), serving(broken, MAP):
        raise AssertionError("it did start")


def _await(condition: Callable[[], bool]) -> None:
    """Until it holds; the timeout of the test is the limit."""
    while not condition():
        time.sleep(0.01)
