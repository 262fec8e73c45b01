"""The rule of campaign names: 1 to so many bytes of UTF-8."""

from collections.abc import Collection
from typing import Final

from app.strict_json import BrokenRule

# Short names need no encoding to be judged.
_MOST_BYTES_OF_A_CHARACTER: Final = 4


def check_campaign(field: str, campaign: str, longest: int) -> None:
    """BrokenRule unless the campaign has 1 to `longest` bytes of UTF-8."""
    if not campaign or not _fits(campaign, longest):
        raise BrokenRule(field, f"must have 1 to {longest} bytes of UTF-8", campaign)


def are_campaigns(names: Collection[str], longest: int) -> bool:
    """Whether all of them have 1 to `longest` bytes; true of none at all."""
    lengths = set(map(len, names))
    if 0 in lengths:
        return False
    if _MOST_BYTES_OF_A_CHARACTER * max(lengths, default=0) <= longest:
        return True
    return all(_fits(name, longest) for name in names)


def _fits(name: str, longest: int) -> bool:
    return _MOST_BYTES_OF_A_CHARACTER * len(name) <= longest or len(name.encode()) <= longest
