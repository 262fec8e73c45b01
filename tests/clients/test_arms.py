"""Arms of units in the edge client: the service's own, and never maps of one version with the split
of another.
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest
from sirocco_client import BadInput, EdgeCalibrator, Sirocco
from sirocco_client.arms import ARMS
from sirocco_client.arms import UnitSplit as EdgeSplit

from calibrators import Atlas, CalibrationMap
from calibrators.arms import Split

SHARES = {"challenger": 0.25, "raw": 0.125}
CHAMPION = Atlas.build({}, CalibrationMap.proportional(0.5))
CHALLENGER = Atlas.build({}, CalibrationMap.proportional(0.25))
FACTORS = {"champion": 0.5, "challenger": 0.25, "raw": 1.0}
UNITS = [f"unit {number} ü" for number in range(200)]


class Routes(dict[str, tuple[int, bytes, str]]):
    """Status, body and version by path; a list of the paths that were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.run("1")

    def run(self, version: str, of_maps: str | None = None, **changes: Any) -> None:
        """An experiment of this version, the challenger's maps perhaps of another."""
        about = {"salt": "spring", "shares": SHARES, "state": "running", "ready": True, **changes}
        found = {"version": version, "experiments": {"click": about}}
        self["/v1/atlas/click"] = (200, CHAMPION.to_bytes(), version)
        self["/v1/atlas/click?label=challenger"] = (200, CHALLENGER.to_bytes(), of_maps or version)
        self["/v1/experiments"] = (200, json.dumps(found).encode(), version)


@pytest.fixture
def routes() -> Routes:
    return Routes()


@pytest.fixture
def url(routes: Routes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            routes.asked.append(self.path)
            status, body, version = routes.get(self.path, (404, b"", ""))
            if self.headers["If-None-Match"] == version and self.path == "/v1/atlas/click":
                status, body = 304, b""
            self.send_response(status)
            headers = {"Sirocco-Version": version, "ETag": version, "Content-Length": len(body)}
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def edge(url: str) -> Iterator[EdgeCalibrator]:
    with EdgeCalibrator(url, "click", refresh_seconds=3600.0) as started:
        assert started.wait(60)
        yield started


def test_the_split_is_the_services_bit_for_bit():
    draws = np.random.default_rng(7)
    units = [bytes(draws.integers(97, 123, size)).decode() + "ü" for size in range(1, 250)]
    for number in range(20):
        challenger = draws.uniform()
        shares = {"challenger": challenger, "raw": draws.uniform() * (1.0 - challenger)}
        ours, theirs = EdgeSplit(f"salt {number}", shares), Split(f"salt {number}", shares)
        assert ours.arms.tobytes() == theirs.arms.tobytes()
        assert [ARMS[arm] for arm in ours.numbers(units, len(units))] == [
            theirs.arm(unit) for unit in units
        ]


def test_each_unit_gets_the_maps_of_its_arm(edge):
    found = edge.calibrate("shoes", [0.4] * 200, units=UNITS)

    assert found.arms == tuple(map(Split("spring", SHARES).arm, UNITS))
    assert set(found.arms) == set(ARMS)
    assert found.probabilities.tolist() == [0.4 * FACTORS[arm] for arm in found.arms]
    assert (found.version, found.label) == ("1", "champion")
    one = edge.calibrate(["a", "b"], [0.4, 0.2], units=UNITS[0])
    assert one.arms == (found.arms[0],) * 2
    plain = edge.calibrate("shoes", [0.4])
    assert (plain.arms, plain.probabilities.tolist(), edge.at("shoes", 0.4)) == (None, [0.2], 0.2)
    with pytest.raises(BadInput, match=r"units\[1\] = '': must be a string of 1 to 256 bytes"):
        edge.calibrate("shoes", [0.4, 0.4], units=["a", ""])


def test_maps_and_split_are_of_one_version_or_the_former_stay(edge, routes):
    former = edge.calibrate("shoes", [0.4] * 200, units=UNITS)
    routes.run("2", of_maps="3", salt="summer")
    assert not edge.refresh()
    routes.run("2", salt="summer")
    later = routes["/v1/experiments"]
    routes.run("3", salt="winter")
    routes["/v1/experiments"] = later
    assert not edge.refresh()
    assert (edge.calibrate("shoes", [0.4] * 200, units=UNITS).arms, edge.version) == (
        former.arms,
        "1",
    )

    routes.run("2", salt="summer")

    assert edge.refresh()
    found = edge.calibrate("shoes", [0.4] * 200, units=UNITS)
    assert (found.version, found.arms) == ("2", tuple(map(Split("summer", SHARES).arm, UNITS)))


@pytest.mark.parametrize("gone", ["/v1/atlas/click?label=challenger", "/v1/experiments", "aborted"])
def test_without_experiment_or_challenger_everybody_gets_the_champion(edge, routes, gone):
    routes.run("2", state="aborted" if gone == "aborted" else "running")
    routes.pop(gone, None)

    assert edge.refresh()

    found = edge.calibrate("shoes", [0.4] * 200, units=UNITS)
    assert (found.version, set(found.arms or ())) == ("2", {"champion"})
    assert set(found.probabilities.tolist()) == {0.2}


def test_what_is_confirmed_is_asked_for_no_more(edge, routes):
    assert edge.refresh()
    assert len(routes.asked) == 4
    assert edge.counts.confirmed == 1


def test_from_a_file_the_experiment_is_fetched_with_the_first_look(url, routes, tmp_path):
    """The version has not changed, so that the maps do not travel."""
    for _ in range(2):
        options: dict[str, Any] = {"refresh_seconds": 3600.0, "keep_in": tmp_path / "click"}
        with EdgeCalibrator(url, "click", **options) as edge:
            assert edge.refresh()
            assert "raw" in (edge.calibrate("a", [0.4] * 200, units=UNITS).arms or ())
    assert edge.counts.taken == 0


@pytest.mark.parametrize("binary", [True, False])
def test_service_and_edge_agree_to_the_last_bit(lasting, binary):
    about = {"salt": "spring", "shares": SHARES, "state": "running", "canary": False}
    report = {"experiments": {"click": {**about, "challenger": {"method": "sir"}}}}
    version = lasting.publish({"click": CHAMPION, "click:challenger": CHALLENGER}, report)
    scores = np.linspace(0.0, 1.0, 200)
    with (
        Sirocco(lasting.url, binary=binary, max_scores=70, timeout=20.0) as client,
        EdgeCalibrator(lasting.url, "click") as edge,
    ):
        assert edge.wait(60)
        theirs = client.calibrate("click", "shoes", scores, units=UNITS, explain=True)
        ours = edge.calibrate("shoes", scores, units=UNITS)
        one = client.calibrate("click", ["a", "b"], [0.4, 0.2], units=UNITS[0])
    assert (ours.version, ours.arms) == (theirs.version, theirs.arms) == (version, theirs.arms)
    assert ours.probabilities.tobytes() == theirs.probabilities.tobytes()
    assert (theirs.is_raw, set(theirs.levels or ())) == (False, {"target", "raw"})
    assert one.arms == ((ours.arms or ())[0],) * 2


def test_an_edge_may_follow_the_challenger(url, routes):
    with EdgeCalibrator(url, "click", label="challenger", refresh_seconds=3600.0) as edge:
        assert edge.wait(60)
        assert (edge.label, edge.at("shoes", 0.4)) == ("challenger", 0.1)
        assert edge.calibrate("shoes", [0.4]).label == "challenger"
