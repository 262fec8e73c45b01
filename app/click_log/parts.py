"""Parts: the files of a partition, named by what is in them."""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from app.click_log.partitions import Partition

SETTLED = "settled"
COMPACT = "compact"
PART = "part"
KINDS = (SETTLED, COMPACT, PART)
"""In reading order: of two rows of one click, that in the first part counts."""

_DIGITS = 32
_NAME = re.compile(r"(settled|compact|part)-([0-9a-f]{32})-(\d+)(?:-([0-9a-f]{8}))?\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    """One file: `digest` begins the SHA-256 of its bytes, `mark` says what a settled part holds.

    The name follows from the content, so that writing the same rows again changes nothing, and
    any damage shows.
    """

    partition: Partition
    kind: str
    digest: str
    rows: int
    mark: str = ""
    size: int = 0

    @classmethod
    def of(cls, partition: Partition, kind: str, data: bytes, rows: int, mark: str = "") -> Self:
        """The part that these bytes make."""
        return cls(partition, kind, digest_of(data), rows, mark, len(data))

    @classmethod
    def of_path(cls, path: str, size: int) -> Self | None:
        """The part at a path; None if the path is that of no part."""
        partition = Partition.of_path(path)
        found = _NAME.fullmatch(path.rpartition("/")[2])
        if partition is None or found is None:
            return None
        return cls(partition, found[1], found[2], int(found[3]), found[4] or "", size)

    @property
    def path(self) -> str:
        """Its path below the root."""
        mark = self.mark and f"-{self.mark}"
        name = f"{self.kind}-{self.digest}-{self.rows}{mark}.parquet"
        return f"{self.partition.path}/{name}"

    @property
    def order(self) -> tuple[int, str]:
        """Its place among the parts of the partition."""
        return KINDS.index(self.kind), self.digest


def digest_of(data: bytes) -> str:
    """The first half of the SHA-256 in hexadecimal digits."""
    return sha256(data).hexdigest()[:_DIGITS]
