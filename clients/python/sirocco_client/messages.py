"""A request and its answer, apart from how they travel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
COLUMNS: Final = "application/vnd.sirocco.columns"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, without the address of the service."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, whole; header names are looked up in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """What the body is, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait that the service asks for, if it does."""
        given = self.headers.get("retry-after", "")
        return float(given) if given.isdecimal() else None
