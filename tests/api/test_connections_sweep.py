"""The sweep by itself, on a clock that only the test moves; and what is known of uvicorn."""

import hashlib
import inspect
from collections import deque
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from httptools import HttpParserError
from uvicorn.protocols.http import flow_control, httptools_impl

from app.api.metrics.counters import Reason
from app.api.server.connections import Phase, SlowClientReaper
from app.api.server.protocol import BoundedProtocol

# Of uvicorn 0.54. Another one means: read app/api/server/protocol.py beside that source, then
# update it.
READ_SOURCE = "1f0ad26f71ba02a760f1965589e05ae7e93ec5eb5a25b6c0d796f71630a3a051"


class Loop:
    """Runs what is due when the test says so."""

    def __init__(self):
        self.soon = deque()
        self.later = []

    def call_soon(self, call, *arguments):
        self.soon.append((call, arguments))

    def call_later(self, seconds, call, *arguments):
        self.later.append((seconds, call, arguments))

    def turn(self):
        """Run what waits now, as one turn of a loop does."""
        for _ in range(len(self.soon)):
            call, arguments = self.soon.popleft()
            call(*arguments)

    def sweep(self):
        """Let the pause end, and the sweep go through; the pause that it was."""
        [(seconds, call, arguments)] = self.later
        self.later = []
        call(*arguments)
        while self.soon:
            self.turn()
        return seconds


class Connection:
    """Stands where the test puts it."""

    def __init__(self, phase=Phase.IDLE, progress=None):
        self.phase, self.progress, self.age = BoundedProtocol.phase, None, 0
        self.stands = phase, progress
        self.looks = 0
        self.expired = []

    def state(self):
        self.looks += 1
        return self.stands

    def expire(self, phase):
        self.expired.append(phase)


@pytest.fixture
def loop():
    return Loop()


def started(loop, *connections, receive=8.0, keep_alive=16.0):
    held = set(connections)
    SlowClientReaper(receive, keep_alive).start(loop, held)
    return held


@pytest.mark.parametrize(
    ("phase", "seconds"), [(Phase.REQUEST, 8), (Phase.READER, 8), (Phase.IDLE, 16)]
)
@pytest.mark.parametrize("progress", [None, object()])
def test_a_connection_has_its_seconds_and_not_many_more(loop, phase, seconds, progress):
    """Those of a connection that never said anything are counted from its beginning."""
    connection = Connection(phase, progress)
    started(loop, connection)

    passed = 0.0
    while not connection.expired:
        passed += loop.sweep()

    assert connection.expired == [phase]
    assert seconds < passed <= seconds + 1


def test_another_phase_of_the_same_request_begins_the_time_anew(loop):
    request = object()
    connection = Connection(Phase.REQUEST, request)
    started(loop, connection, keep_alive=8.0)
    for _ in range(7):
        loop.sweep()

    connection.stands = Phase.IDLE, request
    for _ in range(8):
        loop.sweep()

    assert connection.expired == []


def test_an_equal_request_is_not_the_same(loop):
    """Two requests in a row look alike; the time of the first is not that of the second."""
    connection = Connection()
    started(loop, connection)

    for _ in range(20):
        connection.stands = Phase.REQUEST, {"path": "/"}
        loop.sweep()

    assert connection.expired == []


def test_many_connections_are_looked_at_a_few_in_a_turn(loop):
    connections = [Connection() for _ in range(1050)]
    started(loop, *connections)
    [(_, call, arguments)] = loop.later

    call(*arguments)
    looks = [sum(connection.looks for connection in connections)]
    while loop.soon:
        loop.turn()
        looks.append(sum(connection.looks for connection in connections))

    assert looks[-1] == 1050
    assert max(after - before for before, after in pairwise(looks)) <= 100
    assert {connection.looks for connection in connections} == {1}


def test_a_connection_that_is_gone_is_not_looked_at(loop):
    connections = [Connection() for _ in range(150)]
    held = started(loop, *connections)
    [(_, call, arguments)] = loop.later

    call(*arguments)
    held.clear()
    while loop.soon:
        loop.turn()

    assert sum(connection.looks for connection in connections) == 100


def test_nothing_is_done_while_nothing_is_open(loop):
    sweep, held = SlowClientReaper(8.0, 16.0), {Connection()}
    sweep.start(loop, held)
    sweep.start(loop, held)
    loop.sweep()
    held.clear()

    loop.sweep()
    assert loop.later == []

    sweep.start(loop, {Connection()})
    assert len(loop.later) == 1


def test_a_fault_over_one_connection_ends_no_sweep(loop):
    class Broken(Connection):
        def state(self):
            raise RuntimeError("broken")

    slow = Connection(Phase.REQUEST, object())
    held = {Broken()}
    SlowClientReaper(8.0, 16.0).start(loop, held)
    with pytest.raises(RuntimeError, match="broken"):
        loop.sweep()
    while loop.soon:
        loop.turn()
    held.clear()
    held.add(slow)

    for _ in range(10):
        loop.sweep()

    assert slow.expired


@pytest.mark.parametrize(
    ("receive", "keep_alive", "pause"),
    [(8.0, 65.0, 1.0), (65.0, 8.0, 1.0), (600.0, 3600.0, 5.0), (0.1, 1.0, 0.0125)],
)
def test_the_pause_is_an_eighth_of_the_shortest_patience(loop, receive, keep_alive, pause):
    started(loop, Connection(), receive=receive, keep_alive=keep_alive)

    assert loop.sweep() == pause


class Transport:
    """Of a connection that is closed for reading, or not."""

    def __init__(self, closing, unsent):
        self.is_closing = lambda: closing
        self.get_write_buffer_size = lambda: unsent
        # As uvloop says of a connection that is closed: the kernel holds nothing of it.
        self.get_extra_info = lambda name: None


def protocol(*, closing=False, unsent=0, write_paused=False, read_paused=False):
    found = BoundedProtocol.__new__(BoundedProtocol)
    found.transport = Transport(closing, unsent)
    found.flow = SimpleNamespace(write_paused=write_paused, read_paused=read_paused)
    found.scope, found.cycle, found.pipeline = {"path": "/"}, None, deque()
    return found


@pytest.mark.parametrize("state", [{"closing": True}, {"write_paused": True}])
def test_bytes_that_are_not_taken_wait_for_the_reader(state):
    """However few: a closed connection lives until they are gone."""
    found = protocol(unsent=1000, **state)
    first, found.progress = found.state()

    assert (first, found.progress) == (Phase.READER, 1000)
    assert found.state()[1] is found.progress
    found.transport = Transport(closing=True, unsent=999)
    assert found.state()[1] is not found.progress


def test_a_caller_is_not_slow_while_we_do_not_read():
    assert protocol(read_paused=True).state()[0] is Phase.ANSWER
    assert protocol(read_paused=False).state()[0] is Phase.REQUEST


def test_uvicorns_own_timer_closes_nothing():
    """It may go off on a connection that has long been in use again."""
    found = protocol()
    found.transport.close = Mock()

    found.timeout_keep_alive_handler()

    found.transport.close.assert_not_called()


def test_no_more_is_read_behind_a_bad_request():
    """While the answer before it takes its time, the caller must not fill our memory."""
    found = protocol()
    found.cycle = SimpleNamespace(response_complete=False, more_body=False, keep_alive=True)
    found.metrics, found.flow.pause_reading = Mock(), Mock()
    found.parser = Mock(feed_data=Mock(side_effect=HttpParserError))

    found.data_received(b"no request")

    found.flow.pause_reading.assert_called_once()
    found.metrics.count_closed.assert_called_once_with(Reason.MALFORMED)
    assert not found.cycle.keep_alive


def test_uvicorn_is_the_one_that_was_read():
    """The protocol is a subclass of what uvicorn does not promise to keep."""
    classes = (
        httptools_impl.HttpToolsProtocol,
        httptools_impl.RequestResponseCycle,
        flow_control.FlowControl,
    )
    source = "".join(map(inspect.getsource, classes))

    assert hashlib.sha256(source.encode()).hexdigest() == READ_SOURCE
