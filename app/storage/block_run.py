"""Many packed blocks read in one go: a log holds thousands of small ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from app.storage.blocks import (
    COLUMN_OF_BYTES,
    NUMBER_BYTES,
    ROW_BYTES,
    SIZES,
    VALUE_BYTES,
    Block,
    check_rows,
    check_values,
    decode_block,
    opened_block,
)
from calibrators.names import numbered
from calibrators.samples import Integers

_LENGTHS = SIZES.size + len(COLUMN_OF_BYTES)


def decode_blocks(blocks: Sequence[bytes]) -> list[Block]:
    """What `decode_block` says of each, as few blocks: those without duplicates and without long
    names are put together, one behind the other, and their campaigns are named once.

    Raises ValueError when any of them is damaged; which, `decode_block` tells.
    """
    run, others = _Run(), []
    for data in blocks:
        body, marks = opened_block(data)
        if marks or body[SIZES.size : _LENGTHS] != COLUMN_OF_BYTES:
            others.append(decode_block(data))
        else:
            run.add(body)
    return [run.block(), *others] if run.rows else others


@dataclass(slots=True)
class _Run:
    """The parts of each block's body."""

    lengths: list[bytes] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)
    scores: list[bytes] = field(default_factory=list)
    counts: list[bytes] = field(default_factory=list)
    positives: list[bytes] = field(default_factory=list)

    def add(self, body: bytes) -> None:
        campaigns, rows = SIZES.unpack_from(body)
        text, first = _LENGTHS + campaigns, len(body) - rows * ROW_BYTES
        if text > first:
            raise ValueError(f"names and {rows} rows of {ROW_BYTES} bytes do not fill the block")
        scores = first + rows * NUMBER_BYTES
        counts = scores + rows * VALUE_BYTES
        positives = counts + rows * VALUE_BYTES
        self.lengths.append(body[_LENGTHS:text])
        self.texts.append(body[text:first])
        self.rows.append(body[first:scores])
        self.scores.append(body[scores:counts])
        self.counts.append(body[counts:positives])
        self.positives.append(body[positives:])

    def block(self) -> Block:
        campaigns = np.array([len(each) for each in self.lengths])
        of_block = np.repeat(
            np.arange(len(campaigns)), [len(each) // NUMBER_BYTES for each in self.rows]
        )
        rows = np.frombuffer(b"".join(self.rows), "<u4")
        check_rows(rows, campaigns[of_block])
        columns = b"".join((*self.scores, *self.counts, *self.positives))
        values = np.frombuffer(columns, "<f8").reshape(3, len(rows))
        check_values(values)
        names, numbers = numbered(self._lengths(campaigns), b"".join(self.texts))
        firsts = np.cumsum(campaigns) - campaigns
        return Block(names, numbers[rows + firsts[of_block]].astype(np.uint32), *values)

    def _lengths(self, campaigns: Integers) -> Integers:
        """Those of all names; ValueError where they do not fill the text of their block."""
        lengths = np.frombuffer(b"".join(self.lengths), np.uint8).astype(np.int64)
        reached = np.append(0, np.cumsum(lengths))[np.cumsum(campaigns)]
        if not np.array_equal(reached, np.cumsum([len(text) for text in self.texts])):
            raise ValueError("the names of a block do not fill their place in it")
        return lengths
