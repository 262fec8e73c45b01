"""Checksums of short texts in Redis: names in sets, fields of hashes, documents.

    2:<CRC-32 in 8 hexadecimal digits>:<text>

The 2 is the schema_version. The checksum also covers what the text is about, such as the key or the
field that it is stored under, so that text in a wrong place is noticed, too. Version 1 had the bare
text, of which the reader knows what it may look like.
"""

import re
from zlib import crc32

_HEAD = re.compile(r"2:([0-9a-f]{8}):")


def seal(text: str, about: str = "") -> str:
    """The text behind its checksum."""
    return f"2:{_checksum(text, about)}:{text}"


def unseal(data: bytes | str, about: str, former: re.Pattern[str]) -> str:
    """The text that was sealed, or one of version 1 that matches `former` as a whole; ValueError on
    all else."""
    text = data if isinstance(data, str) else data.decode()
    head = _HEAD.match(text)
    if head is not None:
        found = text[head.end() :]
        if head[1] == _checksum(found, about):
            return found
    elif former.fullmatch(text):
        return text
    raise ValueError(f"the checksum of {text[:80]!r} is wrong")


def _checksum(text: str, about: str) -> str:
    return f"{crc32(text.encode(), crc32(about.encode())):08x}"
