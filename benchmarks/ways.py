"""Ways to ask servers over HTTP, a round of each in turn, timed on the server and on the wire."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from benchmarks.bodies import Question
from benchmarks.calm import Calm, piece_seconds
from benchmarks.figures import Cell, Figure
from benchmarks.load import CONNECTIONS, Connections
from benchmarks.servers import CORE, Server
from calibrators.samples import Floats


@dataclass(frozen=True)
class Rounds:
    """How long each way has its turn."""

    seconds: float
    """Of the server's CPU, about."""
    most_requests: int
    patience_seconds: float = 0.0
    """For repeating those during which the server's core was slowed."""


@dataclass
class Way:
    """One server asked in one way, and what a request took in each round, in seconds."""

    server: Server
    message: Callable[[Question], bytes]
    probabilities: Callable[[bytes], Floats] | None
    """Reads an answer; None: it is the body of the request."""
    rounds: int
    connections: int = CONNECTIONS
    exact: bool = True
    """Whether scores and probabilities are doubles."""
    one_campaign: bool = False
    """Whether all scores are of the first campaign."""
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def send(self, messages: Sequence[bytes], repeats: int) -> tuple[float, float]:
        """Seconds of CPU and of wall time per request, on connections that are open and warm."""
        count = len(messages) * repeats
        with (
            self.server.awake(),
            Connections(self.server.port, self.connections) as connections,
        ):
            connections.send(messages[: self.connections])
            cpu, wall = self.server.cpu_seconds, perf_counter()
            connections.send(list(messages) * repeats)
            wall = perf_counter() - wall
            return (self.server.cpu_seconds - cpu) / count, wall / count

    def ask(self, message: bytes) -> bytes:
        """The answer to one request."""
        with self.server.awake(), Connections(self.server.port, 1) as connection:
            return connection.send([message])

    def cells(self, column: str) -> dict[str, Cell]:
        """Microseconds of CPU in the column, and of wall time in the one beside it."""
        return {
            column: Figure.of(self.cpu).times(1e6),
            f"{column}, wall": Figure.of(self.wall).times(1e6),
        }


def take_turns(
    ways: Mapping[str, Way], messages: Mapping[str, Sequence[bytes]], rounds: Rounds
) -> None:
    """Fill `cpu` and `wall` of all ways anew."""
    repeats = {name: _repeats(way, messages[name], rounds) for name, way in ways.items()}
    for way in ways.values():
        way.cpu, way.wall = [], []
    calm = Calm(rounds.patience_seconds, partial(piece_seconds, CORE))
    for turn in calm.turns(max(way.rounds for way in ways.values())):
        for name, way in ways.items():
            if turn < way.rounds:
                cpu, wall = calm.round(partial(way.send, messages[name], repeats[name]))
                way.cpu.append(cpu)
                way.wall.append(wall)


def _repeats(way: Way, messages: Sequence[bytes], rounds: Rounds) -> int:
    """How often to send the messages in a round."""
    once = max(way.send(messages, 1)[0] * len(messages), 1e-6)
    return max(1, min(round(rounds.seconds / once), rounds.most_requests // len(messages)))
