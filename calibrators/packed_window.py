"""The bins of a window, a block of campaigns at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from calibrators.bins import Bins
from calibrators.bins_table import BinsTable


@dataclass(frozen=True, slots=True)
class PackedWindow:
    """Tables of which none has a campaign of another's, and the bins of all campaigns together.

    Gone through several times by a refit, so it is kept; packed, which is less than half as much,
    and unpacked table by table.
    """

    blocks: tuple[bytes, ...]
    total: Bins

    @classmethod
    def of(cls, tables: Iterable[BinsTable]) -> Self:
        """The window of these tables, each asked for when the one before is packed."""
        blocks, totals = [], []
        for table in tables:
            blocks.append(table.to_bytes())
            totals.append(table.total())
        return cls(tuple(blocks), Bins.merge(totals))

    def __iter__(self) -> Iterator[BinsTable]:
        return map(BinsTable.from_bytes, self.blocks)
