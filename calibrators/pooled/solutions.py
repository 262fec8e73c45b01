"""What a Newton step solves of each block, between its two passes over the blocks."""

from collections.abc import Callable

from calibrators.pooled.campaign_block import CampaignBlock
from calibrators.pooled.elimination import Eliminated

ROOM = 256 << 20
"""Bytes of solutions that are kept: all of 100,000 campaigns with 16 knots."""


class Solutions:
    """Solves every block once and keeps as many of the solutions as there is room for; the others
    are solved again when they are needed again, to the same bits."""

    def __init__(self, solve: Callable[[CampaignBlock], Eliminated], room: int) -> None:
        """`solve` must find the same until a block's solution has been taken."""
        self._solve, self._room = solve, room
        self._kept: dict[CampaignBlock, Eliminated] = {}

    def first(self, block: CampaignBlock) -> Eliminated:
        """The block's solution."""
        solved = self._solve(block)
        if solved.size <= self._room:
            self._room -= solved.size
            self._kept[block] = solved
        return solved

    def taken(self, block: CampaignBlock) -> Eliminated:
        """The same once more; it is not kept any longer."""
        return self._kept.pop(block, None) or self._solve(block)
