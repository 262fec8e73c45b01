"""Blocks to and from the bytes of their columns."""

from hashlib import sha1

from app.storage.blocks import NO_TERMS, Block, PackedRows, Terms, decode_block, encode_block
from app.storage.event_columns import pack_fields


def encoded(block: Block, seed: int = 0) -> bytes:
    """The block's bytes."""
    columns = (block.rows, block.scores, block.counts, block.positives)
    terms = b"" if block.terms is None else block.terms.tobytes()
    fields = pack_fields(block.fields or {})
    packed = PackedRows(block.campaigns, *(column.tobytes() for column in columns), terms, fields)
    return encode_block(packed, seed)


def marked(data: bytes, marks: bytes) -> bytes:
    """The block with marks behind it, as append.lua writes them; as it is without any."""
    return data + marks + sha1(data[10:14] + marks).hexdigest()[:8].encode() if marks else data


def terms_of(block: Block) -> list[Terms]:
    """The terms of each event."""
    if block.terms is None:
        return [NO_TERMS] * len(block)
    return [Terms(*row) for row in block.terms.tolist()]


def unpacked(packed: PackedRows) -> Block:
    """The same events in arrays."""
    return decode_block(encode_block(packed))
