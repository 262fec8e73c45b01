"""Events that travel together, under one idempotency key."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from sirocco_client.messages import NDJSON, Asked

Event = dict[str, Any]

_PATH = "/v1/events"


@dataclass(frozen=True, slots=True)
class Batch:
    """At least one event, one line of JSON each.

    The key is kept over every retry, also by `resend`: however often the batch arrives, it counts
    once.
    """

    lines: Sequence[bytes]
    key: str = field(default_factory=lambda: uuid4().hex)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def size(self) -> int:
        """Bytes of its events."""
        return sum(map(len, self.lines))

    @property
    def events(self) -> list[Event]:
        """The events as objects."""
        return [json.loads(line) for line in self.lines]

    def halves(self) -> Iterator["Batch"]:
        """Two smaller batches under keys of their own: only for a batch that was not stored."""
        middle = len(self) // 2
        yield Batch(self.lines[:middle])
        yield Batch(self.lines[middle:])

    def asked(self, packed: bool) -> Asked:
        """The request that sends it; the same bytes every time."""
        body = b"\n".join(self.lines)
        headers = {"Content-Type": NDJSON, "Idempotency-Key": self.key}
        if packed:
            headers["Content-Encoding"] = "gzip"
            # Level 1 is half the time of the default for a tenth more bytes.
            body = gzip.compress(body, 1, mtime=0)
        return Asked("POST", _PATH, body, headers)
