"""The campaigns of an atlas: their names in order, the row of each, and their bytes."""

from collections.abc import Sequence
from typing import Self

from calibrators.names import pack_names, unpack_names


class CampaignRows:
    """Row i + 1 is that of campaigns[i]; immutable, so that atlases of the same campaigns share
    one. Raises ValueError on a name that stands twice."""

    __slots__ = ("campaigns", "packed", "row_of")

    def __init__(self, campaigns: Sequence[str], packed: bytes | None = None) -> None:
        """`packed` are the names' bytes where they are known already."""
        self.campaigns = tuple(campaigns)
        self.packed = pack_names(self.campaigns) if packed is None else packed
        # A comprehension, which lets other threads in: one call for all names would not.
        self.row_of = {campaign: row for row, campaign in enumerate(self.campaigns, 1)}
        if len(self.row_of) < len(self.campaigns):
            raise ValueError("atlas: a campaign stands twice")

    @classmethod
    def read(
        cls, data: bytes, offset: int, count: int, like: Self | None = None
    ) -> tuple[Self, int]:
        """The names that start at offset, and the offset behind them: `like` itself where its
        bytes stand there. ValueError on bad bytes."""
        if like is not None and like._stands_at(data, offset, count):
            return like, offset + len(like.packed)
        names, end = unpack_names(memoryview(data), offset, count)
        return cls(names, data[offset:end]), end

    def _stands_at(self, data: bytes, offset: int, count: int) -> bool:
        return len(self.campaigns) == count and data.startswith(self.packed, offset)
