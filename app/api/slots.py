"""Where in a row of counts each series has its place: fixed at start, alike in every process.

Labels come from short lists, so that no stranger can make a series; what is on no list counts as
`other`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, product
from typing import Final, Self

from app.api.closing_reasons import Reason
from app.events.parsing import INVALID, UNKNOWN_TYPE
from app.events.schema import TYPE_NAMES
from calibrators.atlas import CAMPAIGN, IDENTITY, TARGET

OTHER: Final = "other"
SECONDS: Final = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3),
    *(0.1, 0.2, 0.5, 1.0),
)
_CODES: Final = (
    *(200, 202, 204, 304, 307),
    *(400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 415, 422, 429),
    *(500, 503),
)
# The block of a route: requests by code and by duration, then the sum of all durations.
BUCKETS: Final = len(SECONDS) + 1
CODES: Final = {code: place * BUCKETS for place, code in enumerate(_CODES)}
OTHER_CODE: Final = len(_CODES) * BUCKETS
SUM: Final = OTHER_CODE + BUCKETS
_BLOCK: Final = SUM + 1

LEVELS: Final = (CAMPAIGN, TARGET, IDENTITY)
EVENT_TYPES: Final = (*TYPE_NAMES.values(), UNKNOWN_TYPE)
RESULTS: Final = ("accepted", INVALID, "late", "future", "full")
GENERATIONS: Final = ("0", "1", "2")
# As the interpreter names what its collector has done.
COLLECTED: Final = ("collected", "uncollectable", "collections")

Pairs = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Slots:
    """The place of every series; `routes` gives the first place of a route's block."""

    routes: dict[str, int]
    scores: Pairs
    events: Pairs
    garbage: Pairs
    closed: dict[Reason, int]
    connections: int
    duplicates: int
    refused_versions: int

    @classmethod
    def of(cls, routes: Iterable[str], targets: Iterable[str]) -> Self:
        """Of an application with these routes and known targets."""
        names = (*dict.fromkeys(routes), OTHER)
        blocks = {name: place * _BLOCK for place, name in enumerate(names)}
        places = count(len(blocks) * _BLOCK)
        return cls(
            blocks,
            dict(zip(product(targets, LEVELS), places, strict=False)),
            dict(zip(product(EVENT_TYPES, RESULTS), places, strict=False)),
            dict(zip(product(COLLECTED, GENERATIONS), places, strict=False)),
            dict(zip(Reason, places, strict=False)),
            next(places),
            next(places),
            next(places),
        )

    @property
    def size(self) -> int:
        """How many places a row has."""
        return self.refused_versions + 1

    @property
    def digest(self) -> bytes:
        """16 bytes that differ wherever any place differs."""
        return blake2b(repr((self, CODES, SECONDS)).encode(), digest_size=16).digest()
