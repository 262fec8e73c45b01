"""The ways of a measurement take turns."""

from collections.abc import Sequence
from itertools import chain, repeat

import pytest

from benchmarks import ways
from benchmarks.calm import FEWEST_ROUNDS, Calm
from benchmarks.load import HOST
from benchmarks.servers import Server
from benchmarks.ways import Rounds, Way, take_turns

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


@pytest.mark.parametrize(
    ("patience_seconds", "expected"), [(0.0, ROUNDS), (1e-6, FEWEST_ROUNDS), (1e6, ROUNDS)]
)
def test_who_has_lost_patience_ends_with_the_fewest_rounds(
    sent: dict[str, Way],
    patience_seconds: float,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And who had none to lose goes on to the end, as who has enough of it."""
    pieces = chain([1.0], repeat(2.0 if patience_seconds < 1.0 else 1.0))
    monkeypatch.setattr(ways, "piece_seconds", lambda core: next(pieces))
    monkeypatch.setattr(Calm, "_least", 1.0)

    take_turns(sent, {"a": [b""], "b": [b""]}, Rounds(SECONDS, 1, patience_seconds))

    assert [way.cpu for way in sent.values()] == [[SECONDS] * expected] * 2
    assert [way.wall for way in sent.values()] == [[2 * SECONDS] * expected] * 2
