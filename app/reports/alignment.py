"""Which columns of a table are numbers, and so are aligned on the right."""

import re
from collections.abc import Sequence
from typing import Final

from app.reports.page import Table

_UNDEFINED: Final = frozenset(["", "-", "\u2013", "\u2014", "∞", "-∞"])
_SIGNS: Final = r"+\-\u2013\u2212\u00d7±<>≤≥"
# Numbers, intervals and the like; or one number and a short unit.
_NUMBERS: Final = re.compile(rf"(?=.*\d)[\d\s.,e%‰\[\]()∞{_SIGNS}]+( to [\d\s.,e%)\]∞{_SIGNS}]+)?")
_WITH_UNIT: Final = re.compile(rf"[{_SIGNS}]?\d[\d.,]*(e-?\d+)? ?[^\d\s]{{1,6}}")


def numeric_columns(table: Table) -> list[bool]:
    """One answer for each column."""
    return [_is_numeric([row[place] for row in table.rows]) for place in range(len(table.columns))]


def _is_numeric(cells: Sequence[str]) -> bool:
    known = [cell for cell in cells if cell not in _UNDEFINED]
    return any(cells) and all(_NUMBERS.fullmatch(c) or _WITH_UNIT.fullmatch(c) for c in known)
