"""Campaign names: as bytes, and as rows of tables in the order of the names."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice

import numpy as np

from calibrators.bins.codecs import pack_column, unpack_column
from calibrators.samples import Integers

_PIECE = 4096


def pack_names(names: Sequence[str]) -> bytes:
    """The names' bytes."""
    encoded = [name.encode() for name in names]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return pack_column(lengths) + b"".join(encoded)


def unpack_names(data: memoryview, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    """The names that start at offset, and the offset behind them; ValueError on bad bytes."""
    lengths, start = unpack_column(data, offset, count)
    if lengths.max(initial=0) > len(data):
        raise ValueError(f"names at byte {offset}: a length of {lengths.max()} bytes")
    ends = np.cumsum(lengths)
    end = start + (int(ends[-1]) if count else 0)
    if end > len(data):
        raise ValueError(f"names at byte {offset}: need {end} bytes, there are {len(data)}")
    text = bytes(data[start:end])
    return _cut(text, (ends - lengths).tolist(), ends.tolist()), end


def numbered(lengths: Integers, text: bytes) -> tuple[tuple[str, ...], Integers]:
    """The distinct ones of n names, whose lengths in bytes, (n,), and text these are, in the order
    of their first; and the number of each, (n,), among them. ValueError on bytes that are no text.

    For names of which most come often: each is decoded once.
    """
    edges = np.append(0, np.cumsum(lengths)).tolist()
    number_of: defaultdict[bytes, int] = defaultdict(count().__next__)
    # Nothing but C is called, and no list of the names is made.
    spans = map(slice, edges, islice(edges, 1, None))
    found = map(number_of.__getitem__, map(text.__getitem__, spans))
    numbers = np.fromiter(found, np.int64, len(lengths))
    return tuple(name.decode() for name in number_of), numbers


def _cut(text: bytes, starts: list[int], ends: list[int]) -> tuple[str, ...]:
    # Text of one byte a letter is decoded once, and cut as letters.
    letters = text.decode("ascii") if text.isascii() else None
    names: list[str] = []
    # In pieces, because no other thread gets a turn while one call walks over names.
    for start in range(0, len(starts), _PIECE):
        spans = map(slice, starts[start : start + _PIECE], ends[start : start + _PIECE])
        if letters is None:
            names.extend(text[span].decode() for span in spans)
        else:
            names.extend(map(letters.__getitem__, spans))
    return tuple(names)


def sorted_rows(campaigns: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    """The distinct names ascending, and the place of each of these, (n,), among them."""
    # Distinct in the order they come in, which is often that of their names, and then soon sorted.
    names = tuple(sorted(dict.fromkeys(campaigns)))
    row_of = {name: row for row, name in enumerate(names)}
    return names, np.fromiter(map(row_of.__getitem__, campaigns), np.int64, len(campaigns))


def merged_rows(
    parts: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], list[Integers]]:
    """The names of all parts, each of which ascends, and the rows of each part's names in them."""
    if len(parts) == 1:
        return parts[0], [np.arange(len(parts[0]))]
    names, rows = sorted_rows([name for part in parts for name in part])
    ends = np.cumsum([len(part) for part in parts])
    return names, np.split(rows, ends[:-1]) if parts else []


def even_spans(names: Sequence[str], most: int) -> list[tuple[str, str | None]]:
    """As few spans of ascending names as hold at most so many each: the first name of each, and the
    one behind it, None behind the last. They are even, because a small one at the end would cost as
    much as the others."""
    count = -(-len(names) // most)
    firsts = [names[len(names) * span // count] for span in range(count)]
    behind: list[str | None] = [*firsts[1:], None]
    return list(zip(firsts, behind, strict=False))
