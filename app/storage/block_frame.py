"""The frame around the body of every packed block: what it is, and that it is whole.

Little-endian: magic (4 bytes), schema_version u2, length of the body u4, CRC-32 of the body u4, the
body. Behind it stand the marks that the store has appended, if any.
"""

import struct
from zlib import crc32

_HEADER = struct.Struct("<4sHII")


def framed(magic: bytes, version: int, body: bytes) -> bytes:
    """The body behind its header."""
    return _HEADER.pack(magic, version, len(body), crc32(body)) + body


def opened(magic: bytes, version: int, data: bytes) -> tuple[bytes, bytes]:
    """Body and marks; ValueError on bytes of another kind or version, and on any damage."""
    # Copies of the bytes, not views of them: the garbage collector walks over views, and folds hold
    # those of thousands of blocks.
    if len(data) < _HEADER.size:
        raise ValueError(f"a block has at least {_HEADER.size} bytes, not {len(data)}")
    found, schema_version, length, checksum = _HEADER.unpack_from(data)
    if found != magic:
        raise ValueError(f"this kind of block begins with {magic!r}, not {found!r}")
    if schema_version != version:
        raise ValueError(f"block schema_version {schema_version}: only {version} is known")
    end = _HEADER.size + length
    body = data[_HEADER.size : end]
    if len(body) != length or crc32(body) != checksum:
        raise ValueError("the block is cut short or its checksum is wrong")
    return body, data[end:]
