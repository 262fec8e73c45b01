"""Connections to the service, kept open between requests: one way for threads, one for asyncio.

A deadline is the moment by which a call must be over, whatever it waits for on the way. What has
threads, locks or sockets begins anew in a forked child, which has a copy of the parent's memory but
none of its threads: a lock that another thread held at that moment stays locked for ever, and on a
shared socket both would read each other's responses.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Final, Protocol
from weakref import WeakSet

import httpx

from sirocco_client.errors import BadInput, Closed
from sirocco_client.requests import HttpRequest, HttpResponse

AttemptResult = HttpResponse | httpx.TransportError

_SHORTEST: Final = 0.001


class Deadline:
    """A moment so many seconds from now, by the monotonic clock."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then; negative afterwards."""
        return self._end - time.monotonic()


class RemainingTime(dict[str, float]):
    """Timeouts in httpx's form, each read when it is needed: what is left until the deadline.

    To connect, to write and to read may each take what is left, and not each the whole.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def get(self, _: str, default: object = None) -> float:
        """Seconds left; never 0, which would mean: do not wait at all."""
        return max(self._deadline.left, _SHORTEST)


# Shorter than the service's own patience, so that it is we who close an idle connection.
_IDLE_SECONDS: Final = 20.0
_MOST_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service is, and how connections to it are made."""

    url: str
    connections: int = 16
    # Not shown: they may hold a key.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool | SSLContext = True
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.api_key is not None and not _is_sendable(self.api_key):
            # Without the value: errors are logged.
            raise BadInput("api_key", "must be printable ASCII characters without spaces")
        if not _is_address(self.url):
            raise BadInput("url", "must be an address with http:// or https://", self.url)
        if self.connections < 1:
            raise BadInput("connections", "must be at least 1", self.connections)

    def options(self) -> dict[str, Any]:
        """Options of an httpx client."""
        limits = httpx.Limits(
            max_connections=self.connections,
            max_keepalive_connections=self.connections,
            keepalive_expiry=_IDLE_SECONDS,
        )
        # To read the certificates takes tens of milliseconds, for nothing where there is no TLS.
        verify = self.verify if self.url.startswith("https://") else False
        return {"limits": limits, "verify": verify}

    def packed(self, request: HttpRequest, deadline: Deadline) -> httpx.Request:
        """The request as httpx sends it."""
        key = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        return httpx.Request(
            request.method,
            self.url.rstrip("/") + request.path,
            headers={**self.headers, **key, **request.headers},
            content=request.body,
            extensions={"timeout": RemainingTime(deadline)},
        )


class Connections:
    """For any number of threads."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._http = httpx.Client(**address.options())

    def attempt(self, request: HttpRequest, deadline: Deadline) -> AttemptResult:
        """One try, whose failure is a result too; raises Closed."""
        if self._http.is_closed:
            raise Closed("the client is closed")
        try:
            return self.ask(request, deadline)
        except httpx.TransportError as error:
            return error

    def ask(self, request: HttpRequest, deadline: Deadline) -> HttpResponse:
        """One try; raises httpx.TransportError without a whole answer by the deadline."""
        response = self._http.send(self._address.packed(request, deadline), stream=True)
        body = bytearray()
        try:
            for piece in response.iter_raw():
                body += piece
                _check_progress(body, deadline)
        finally:
            response.close()
        return HttpResponse(response.status_code, response.headers, bytes(body))

    def close(self) -> None:
        """Closes every connection."""
        self._http.close()


class AsyncConnections:
    """For one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._http = httpx.AsyncClient(**address.options())

    async def attempt(self, request: HttpRequest, deadline: Deadline) -> AttemptResult:
        """One try, whose failure is a result too; raises Closed."""
        if self._http.is_closed:
            raise Closed("the client is closed")
        try:
            return await self.ask(request, deadline)
        except httpx.TransportError as error:
            return error

    async def ask(self, request: HttpRequest, deadline: Deadline) -> HttpResponse:
        """One try; raises httpx.TransportError without a whole answer by the deadline."""
        try:
            async with asyncio.timeout(deadline.left):
                return await self._ask(request, deadline)
        except TimeoutError:
            raise httpx.ReadTimeout("the deadline passed") from None

    async def _ask(self, request: HttpRequest, deadline: Deadline) -> HttpResponse:
        packed = self._address.packed(request, deadline)
        response = await self._http.send(packed, stream=True)
        body = bytearray()
        try:
            async for piece in response.aiter_raw():
                body += piece
                _check_progress(body, deadline)
        finally:
            await response.aclose()
        return HttpResponse(response.status_code, response.headers, bytes(body))

    async def close(self) -> None:
        """Closes every connection."""
        await self._http.aclose()


def _is_sendable(key: str) -> bool:
    return bool(key) and key.isascii() and key.isprintable() and " " not in key


def _is_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


def _check_progress(body: bytearray, deadline: Deadline) -> None:
    if deadline.left < 0:
        raise httpx.ReadTimeout("the answer came too slowly")
    if len(body) > _MOST_BYTES:
        raise httpx.RemoteProtocolError(f"an answer of more than {_MOST_BYTES} bytes")


class Forkable(Protocol):
    """Can begin anew in a child process."""

    def begin_anew(self) -> None:
        """Replace what must not be shared with the parent."""


_forkables: WeakSet[Forkable] = WeakSet()


def begins_anew_after_fork(forkable: Forkable) -> None:
    """From now on `begin_anew` is called in every child."""
    _forkables.add(forkable)


def _after_fork() -> None:
    for forkable in list(_forkables):
        forkable.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
