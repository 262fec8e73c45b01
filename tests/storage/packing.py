"""Blocks to and from the bytes of their columns."""

from app.storage.blocks import Block, PackedRows, decode_block, encode_block


def encoded(block: Block) -> bytes:
    """The block's bytes."""
    columns = (block.rows, block.scores, block.counts, block.positives)
    return encode_block(PackedRows(block.campaigns, *(column.tobytes() for column in columns)))


def unpacked(packed: PackedRows) -> Block:
    """The same events in arrays."""
    return decode_block(encode_block(packed))
