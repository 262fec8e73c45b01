"""The ways of a measurement take turns."""

from collections.abc import Sequence

import pytest

from benchmarks.http import load
from benchmarks.http.load import HOST, Rounds, Way, take_turns
from benchmarks.http.servers import CORE, Server
from benchmarks.noise_gate import NoiseGate

SECONDS = 0.01
ROUNDS = 10


class Sent(Way):
    """A way that asks nobody, and takes always the same time."""

    def send(self, messages: Sequence[bytes], repeats: int) -> tuple[float, float]:
        return SECONDS, 2 * SECONDS


@pytest.fixture
def sent() -> dict[str, Way]:
    server = Server(0, 0)
    return {name: Sent(server, lambda _: HOST.encode(), None, ROUNDS) for name in ("a", "b")}


@pytest.mark.parametrize("patience_seconds", [0.0, 1e-6])
def test_each_way_has_all_of_its_rounds(sent, patience_seconds, monkeypatch):
    """Also where the core is always disturbed, and nobody waits for it to be."""
    monkeypatch.setattr(load, "piece_seconds", lambda _: 2.0)
    monkeypatch.setattr(NoiseGate, "_least", 1.0)

    take_turns(sent, {"a": [b""], "b": [b""]}, Rounds(SECONDS, 1, patience_seconds))

    assert [way.cpu for way in sent.values()] == [[SECONDS] * ROUNDS] * 2
    assert [way.wall for way in sent.values()] == [[2 * SECONDS] * ROUNDS] * 2


def test_the_server_s_core_is_looked_at(sent, monkeypatch):
    cores: list[int | None] = []
    monkeypatch.setattr(NoiseGate, "_least", 1.0)

    def piece_seconds(core: int | None) -> float:
        cores.append(core)
        return 1.0

    monkeypatch.setattr(load, "piece_seconds", piece_seconds)

    take_turns(sent, {"a": [b""], "b": [b""]}, Rounds(SECONDS, 1, 1e6))

    assert len(cores) >= 2 * 2 * ROUNDS
    assert set(cores) == {CORE}
