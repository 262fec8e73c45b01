"""The campaigns of a body: names that it brings, or the ids of a list that both sides know."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.columns.header import ONE_CAMPAIGN, Header
from app.columns.sections import U4, Sections
from app.strict_json import BrokenRule

Ids = NDArray[np.uint32]

_NO_NAMES: Final[list[str]] = []


def read_target(sections: Sections, header: Header) -> str:
    """The target; BrokenRule if it is not UTF-8."""
    try:
        return sections.text("target", header.target_bytes).decode()
    except UnicodeDecodeError:
        raise BrokenRule("target", "must be UTF-8") from None


def read_campaigns(sections: Sections, header: Header) -> tuple[list[str], Ids]:
    """The names that the body brings, and the numbers of its campaigns: an index of a name each,
    or an interned id; shape (n,), or (1,) if one is for all rows.

    Raises BrokenRule, also for an index beyond the names; ids are left to who knows the list.
    """
    names = _read_names(sections, header) if header.names or header.names_bytes else _NO_NAMES
    one = header.flags & ONE_CAMPAIGN
    numbers = sections.column("campaigns", U4, 1 if one else header.rows)
    return names, numbers


def check_indices(numbers: Ids, names: int) -> None:
    """BrokenRule unless every number is the index of a name."""
    if int(numbers.max()) >= names:
        place = int(np.argmax(numbers >= names))
        rule = f"must be the index of one of the {names} names"
        raise BrokenRule(f"campaigns[{place}]", rule, int(numbers[place]))


def read_ends(sections: Sections, field: str, count: int) -> list[int]:
    """Where each of the texts that stand end to end ends, from the column of their lengths."""
    return list(accumulate(sections.column(field, U4, count).tolist()))


def split_texts(ends: Sequence[int], text: bytes, field: str) -> list[str]:
    """The texts that stand end to end; BrokenRule names the one that is not UTF-8."""
    spans = zip([0, *ends], ends, strict=False)
    if text.isascii():
        # Bytes are characters then: decoding once costs less than decoding each.
        characters = text.decode("ascii")
        return [characters[start:end] for start, end in spans]
    return [_decoded(text[start:end], field, place) for place, (start, end) in enumerate(spans)]


def _read_names(sections: Sections, header: Header) -> list[str]:
    ends = read_ends(sections, "names", header.names)
    text = sections.text("names", header.names_bytes)
    if (total := ends[-1] if ends else 0) != len(text):
        rule = f"must be the sum of the names' lengths, {total}"
        raise BrokenRule("columns.names_bytes", rule, len(text))
    return split_texts(ends, text, "names")


def _decoded(text: bytes, field: str, place: int) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise BrokenRule(f"{field}[{place}]", "must be UTF-8") from None
