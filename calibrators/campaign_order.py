"""Campaigns in the order of their names."""

from collections.abc import Sequence

import numpy as np

from calibrators.samples import Integers


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


def blocks_in_order(rows: Integers, lengths: Integers) -> Integers:
    """Where each entry comes from when blocks of these lengths are put in the order of rows."""
    order = np.argsort(rows)
    taken = lengths[order]
    before = np.cumsum(lengths) - lengths
    return np.repeat(before[order] - (np.cumsum(taken) - taken), taken) + np.arange(taken.sum())


def even_spans(names: Sequence[str], most: int) -> list[tuple[str, str | None]]:
    """As few spans of ascending names as hold at most so many each: the first name of each, and the
    one behind it, None behind the last. They are even, because a small one at the end would cost as
    much as the others."""
    count = -(-len(names) // most)
    firsts = [names[len(names) * span // count] for span in range(count)]
    behind: list[str | None] = [*firsts[1:], None]
    return list(zip(firsts, behind, strict=False))
