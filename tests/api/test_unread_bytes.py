"""What a caller's machine has not acknowledged, on real sockets and on both kinds of loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
import uvloop

from app.api.server.protocol import unread_bytes

Story = Callable[["Connection"], Coroutine[Any, Any, None]]

# More than the kernel takes of a connection, so that the transport keeps some itself.
MUCH = 32 * 1024 * 1024
SMALL_BUFFER = 16 * 1024
# What the caller's kernel holds of it at most; the kernel doubles what it is asked for.
MOST_HELD = 64 * 1024
PATIENCE_SECONDS = 240


class Sender(asyncio.Protocol):
    """Our side: says when the connection begins and when it is over."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[asyncio.Transport] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is one without being of the class.
        self.begun.set_result(cast(asyncio.Transport, transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set_result(None)


@dataclass(frozen=True, slots=True)
class Connection:
    """Both ends of one connection: ours, and the socket of a caller with a small buffer."""

    sender: Sender
    transport: asyncio.Transport
    caller: socket.socket

    async def read(self, size: int) -> None:
        """Take so many bytes as the caller."""
        left = size
        while left:
            got = await asyncio.get_running_loop().sock_recv(self.caller, min(left, 65536))
            assert got, "the connection ended"
            left -= len(got)

    async def until(self, condition: Callable[[int], bool]) -> int:
        """What is unread once that is so: an acknowledgement takes a moment."""
        while not condition(unread_bytes(self.transport)):
            await asyncio.sleep(0.002)
        return unread_bytes(self.transport)


@asynccontextmanager
async def connection() -> AsyncIterator[Connection]:
    sender = Sender()
    server = await asyncio.get_running_loop().create_server(lambda: sender, "127.0.0.1", 0)
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        caller.connect(server.sockets[0].getsockname())
        caller.setblocking(False)
        transport = await sender.begun
        try:
            yield Connection(sender, transport, caller)
        finally:
            transport.abort()
            await sender.over
            server.close()


def on_both_loops(story: Story) -> Callable[[Any], None]:
    """The story of a connection as a test, on each kind of loop."""

    async def told() -> None:
        async with connection() as open_one:
            await story(open_one)

    @pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
    def test(run: Any) -> None:
        run(asyncio.wait_for(told(), PATIENCE_SECONDS))

    return test


@on_both_loops
async def test_nothing_is_unread_where_nothing_was_written(open_one: Connection) -> None:
    assert unread_bytes(open_one.transport) == 0


@on_both_loops
async def test_what_the_callers_machine_holds_is_not_counted(open_one: Connection) -> None:
    """The caller has read nothing, but its kernel has acknowledged the few bytes."""
    open_one.transport.write(b"x" * 100)

    await open_one.until(lambda unread: unread == 0)

    open_one.caller.setblocking(True)
    assert open_one.caller.recv(1000) == b"x" * 100


@on_both_loops
async def test_what_does_not_fit_on_the_callers_machine_is_counted(open_one: Connection) -> None:
    """Both what the transport keeps and what waits in our kernel."""
    open_one.transport.write(bytes(MUCH))

    unread = await open_one.until(lambda unread: unread < MUCH)

    assert unread >= MUCH - MOST_HELD
    assert 0 < open_one.transport.get_write_buffer_size() < unread


@on_both_loops
async def test_a_little_reading_is_seen_long_before_the_transports_buffer_moves(
    open_one: Connection,
) -> None:
    """A slow reader's progress: the kernel takes more from the transport in large steps only."""
    open_one.transport.write(bytes(MUCH))
    before = await open_one.until(lambda unread: unread < MUCH)
    kept = open_one.transport.get_write_buffer_size()

    await open_one.read(2 * MOST_HELD)
    after = await open_one.until(lambda unread: unread < before)

    assert before - after <= 3 * MOST_HELD
    assert open_one.transport.get_write_buffer_size() == kept


@on_both_loops
async def test_once_all_is_read_nothing_is_unread(open_one: Connection) -> None:
    open_one.transport.write(bytes(MUCH))

    await open_one.read(MUCH)

    await open_one.until(lambda unread: unread == 0)


@on_both_loops
async def test_a_closing_connection_still_counts_what_is_under_way(open_one: Connection) -> None:
    """It is closed once the caller has read, so there is something to wait for."""
    open_one.transport.write(bytes(MUCH))
    open_one.transport.close()

    assert await open_one.until(lambda unread: unread < MUCH) >= MUCH - MOST_HELD


@on_both_loops
async def test_a_closed_connection_has_nothing_unread(open_one: Connection) -> None:
    """Whether it was looked at before or not, when the number of its file is somebody else's."""
    async with connection() as other:
        other.transport.write(bytes(MUCH))
        assert unread_bytes(other.transport) > 0
        for one in (open_one, other):
            one.transport.write(bytes(MUCH))
            one.transport.abort()
            await one.sender.over
            with ExitStack() as others:
                for ours, theirs in (socket.socketpair() for _ in range(8)):
                    others.enter_context(ours)
                    others.enter_context(theirs)
                    ours.send(b"unread")

                assert unread_bytes(one.transport) == 0
