"""Blocks to and from the bytes of their columns."""

from hashlib import sha1

from app.storage.blocks import Block, PackedRows, decode_block, encode_block


def encoded(block: Block, seed: int = 0) -> bytes:
    """The block's bytes."""
    columns = (block.rows, block.scores, block.counts, block.positives)
    packed = PackedRows(block.campaigns, *(column.tobytes() for column in columns))
    return encode_block(packed, seed)


def marked(data: bytes, marks: bytes) -> bytes:
    """The block with marks behind it, as append.lua writes them; as it is without any."""
    return data + marks + sha1(data[10:14] + marks).hexdigest()[:8].encode() if marks else data


def unpacked(packed: PackedRows) -> Block:
    """The same events in arrays."""
    return decode_block(encode_block(packed))
