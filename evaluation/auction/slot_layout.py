"""The slots of a results page: a mainline and a sidebar."""

from dataclasses import dataclass

_MOST = 1_000


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """How many ads a page can show, above the results and beside them.

    A position is a slot's number: 1..mainline above the results, then mainline + 1 and up beside
    them. The sidebar begins at the same number on every page, however few ads the mainline has.

    Parameters
    ----------
    mainline, sidebar : slots of each block, from 0 to 1,000, together at least 1.

    Raises
    ------
    ValueError
        When a parameter breaks its rule; it is named.

    Examples
    --------
    >>> SlotLayout(4, 5).positions
    9
    """

    mainline: int = 4
    sidebar: int = 5

    def __post_init__(self) -> None:
        for name in ("mainline", "sidebar"):
            if not 0 <= getattr(self, name) <= _MOST:
                raise ValueError(f"{name} = {getattr(self, name)}: must be from 0 to {_MOST}")
        if not self.positions:
            raise ValueError("mainline = 0 and sidebar = 0: a page must have a slot")

    @property
    def positions(self) -> int:
        """Slots of a page."""
        return self.mainline + self.sidebar
