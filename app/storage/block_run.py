"""Many packed blocks read in one go: a log holds thousands of small ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from app.storage.blocks import (
    ROW_BYTES,
    Block,
    check_rows,
    check_values,
    decode_block,
    opened_block,
)
from calibrators.columns import pack_column, unpack_column
from calibrators.names import unpack_names
from calibrators.samples import Integers


def decode_blocks(blocks: Sequence[bytes]) -> list[Block]:
    """What `decode_block` says of each, as few blocks: those without duplicates are put together,
    one behind the other, and their campaigns are named as often as they stand in them.

    Raises ValueError when any of them is damaged; which, `decode_block` tells.
    """
    run, others = _Run(), []
    for data in blocks:
        body, marks = opened_block(data)
        if marks:
            others.append(decode_block(data))
        else:
            run.add(body)
    return [run.block(), *others] if run.rows else others


@dataclass(slots=True)
class _Run:
    """The parts of each block's body."""

    lengths: list[Integers] = field(default_factory=list)
    texts: list[memoryview] = field(default_factory=list)
    rows: list[memoryview] = field(default_factory=list)
    scores: list[memoryview] = field(default_factory=list)
    counts: list[memoryview] = field(default_factory=list)
    positives: list[memoryview] = field(default_factory=list)

    def add(self, body: memoryview) -> None:
        campaigns = int.from_bytes(body[:4], "little")
        rows = int.from_bytes(body[4:8], "little")
        lengths, start = unpack_column(body, 8, campaigns)
        first = len(body) - rows * ROW_BYTES
        # Every name apart first: a sum of huge ones could wrap around to the right total.
        if lengths.max(initial=0) > len(body) or start + lengths.sum() != first:
            raise ValueError(f"names and {rows} rows of {ROW_BYTES} bytes do not fill the block")
        self.lengths.append(lengths)
        self.texts.append(body[start:first])
        edges = [first + width * rows for width in (0, 4, 12, 20, 28)]
        self.rows.append(body[edges[0] : edges[1]])
        self.scores.append(body[edges[1] : edges[2]])
        self.counts.append(body[edges[2] : edges[3]])
        self.positives.append(body[edges[3] : edges[4]])

    def block(self) -> Block:
        lengths = np.concatenate(self.lengths)
        campaigns = np.array([len(each) for each in self.lengths])
        of_block = np.repeat(np.arange(len(campaigns)), [len(each) // 4 for each in self.rows])
        rows = np.frombuffer(b"".join(self.rows), "<u4")
        check_rows(rows, campaigns[of_block])
        columns = b"".join((*self.scores, *self.counts, *self.positives))
        values = np.frombuffer(columns, "<f8").reshape(3, len(rows))
        check_values(values)
        packed_names = memoryview(pack_column(lengths) + b"".join(self.texts))
        names, _ = unpack_names(packed_names, 0, len(lengths))
        firsts = (np.cumsum(campaigns) - campaigns).astype(np.uint32)
        return Block(names, rows + firsts[of_block], *values)
