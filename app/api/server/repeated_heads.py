"""Heads of requests that a connection sends again and again.

Who asks for scores sends the same head each time, but for the length of the body and maybe ids. The
first such head is read by the server's parser, which is strict. A later one is compared with its
bytes: where only those values differ it says the same, and nobody parses it again.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Self

from starlette.types import Scope

from app.api.authorization import CALLER

Fits = Callable[[bytes], object]

_LENGTH: Final = b"content-length"
_VISIBLE: Final = re.compile(rb"[\x21-\x7e]{1,128}").fullmatch
_VARYING: Final[dict[bytes, Fits]] = {
    _LENGTH: re.compile(rb"[1-9][0-9]{0,6}").fullmatch,
    b"x-request-id": _VISIBLE,
    b"traceparent": _VISIBLE,
}
"""What may differ, and what it must be; anything else is for the parser."""
# They say how the message is framed, or what becomes of the connection.
_OF_THE_CONNECTION: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"connection"})
_KEPT: Final = (b"connection", b"keep-alive")


class RepeatedHead:
    """A head that was read; `request_in` finds it again in front of another body."""

    __slots__ = ("_end", "_headers", "_length", "_parts", "_scope")

    def __init__(self, scope: Scope, parts: list[tuple[bytes, int, Fits]], end: bytes) -> None:
        """Use `of`. Bytes in front of each value that varies, its place among the headers, and what
        it must be; and the bytes behind the last of them."""
        # Who was let in with one request is not let in with the next.
        self._scope = {name: value for name, value in scope.items() if name != CALLER}
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._length = [name for name, _ in self._headers].index(_LENGTH)
        self._parts, self._end = parts, end

    @classmethod
    def of(cls, data: bytes, scope: Scope, body: bytes) -> Self | None:
        """The head in `data`, which the parser has read as this scope and body.

        None unless these bytes alone, from the first to the last, say line by line what was read:
        what came before them must have no part in it.
        """
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        query, headers = scope["query_string"], scope["headers"]
        url = scope["raw_path"] + (b"?" + query if query else b"")
        if rest != body or first != b"POST " + url + b" HTTP/1.1" or headers != _read(lines):
            return None
        names = [name for name, value in headers if (name, value.lower()) != _KEPT]
        if names.count(_LENGTH) != 1 or not _OF_THE_CONNECTION.isdisjoint(names):
            return None
        return cls(scope, *_cut(first, lines, headers))

    def request_in(self, data: bytes) -> tuple[dict[str, Any], bytes] | None:
        """The scope and the body of the request if it is whole, alone, and has this head."""
        at, headers = 0, self._headers.copy()
        for before, place, fits in self._parts:
            start = at + len(before)
            if not data.startswith(before, at):
                return None
            at = data.find(b"\r\n", start)
            value = data[start:at]
            if not fits(value):
                return None
            headers[place] = (headers[place][0], value)
        body = data[at + len(self._end) :]
        if not data.startswith(self._end, at) or int(headers[self._length][1]) != len(body):
            return None
        return {**self._scope, "headers": headers}, body


def _read(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    parts = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip(b" \t")) for name, _, value in parts]


def _cut(
    first: bytes, lines: list[bytes], headers: list[tuple[bytes, bytes]]
) -> tuple[list[tuple[bytes, int, Fits]], bytes]:
    parts, before = [], first
    for place, (line, (name, value)) in enumerate(zip(lines, headers, strict=True)):
        before += b"\r\n" + line
        if name in _VARYING:
            parts.append((before.removesuffix(value), place, _VARYING[name]))
            before = b""
    return parts, before + b"\r\n\r\n"
