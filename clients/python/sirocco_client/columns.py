"""Questions and answers as binary columns, `application/vnd.sirocco.columns`, version 1.

Little-endian: a header of 32 bytes, then sections, each padded with zeros to a multiple of 8.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadAnswer
from sirocco_client.question import Floats, Question, encoded

# Magic, version, kind, flags, rows, names, bytes of names, bytes of target, dictionary.
_HEADER: Final = struct.Struct("<4sHBBIIIIQ")
_MAGIC: Final = b"SCOL"
_VERSION: Final = 1
_SCORES, _PROBABILITIES = 1, 2
_FLOAT32, _ONE_CAMPAIGN, _LEVELS = 1, 4, 16
_NAMES_OF_LEVELS: Final = ("identity", "target", "campaign")

Ids = NDArray[np.uint32]


def pack_question(question: Question, levels: bool) -> bytes:
    """The question with the names of its campaigns; raises BadInput on names without UTF-8."""
    if isinstance(question.campaigns, str):
        names, places = [question.campaigns], np.zeros(1, "<u4")
    else:
        names, places = _distinct(question.campaigns)
    texts = [encoded("campaigns", name) for name in names]
    lengths = np.fromiter(map(len, texts), "<u4", len(texts))
    target = encoded("target", question.target)
    flags = _LEVELS * levels + _ONE_CAMPAIGN * isinstance(question.campaigns, str)
    text = b"".join(texts)
    sizes = (len(question), len(texts), len(text), len(target))
    header = _HEADER.pack(_MAGIC, _VERSION, _SCORES, flags, *sizes, 0)
    sections = map(_section, (target, lengths.tobytes(), text, places.tobytes()))
    scores = question.scores.astype("<f8", copy=False).tobytes()
    return b"".join((header, *sections, scores))


def unpack_answer(body: bytes, rows: int) -> tuple[Floats, tuple[str, ...] | None]:
    """Probabilities, and levels if there are some; raises BadAnswer."""
    if len(body) < _HEADER.size:
        raise BadAnswer(f"columns: {len(body)} bytes are no header")
    magic, version, kind, flags, found, *_ = _HEADER.unpack_from(body)
    if (magic, version, kind, found) != (_MAGIC, _VERSION, _PROBABILITIES, rows):
        raise BadAnswer(f"columns: these are not the probabilities of {rows} scores")
    with_levels = bool(flags & _LEVELS)
    size = _HEADER.size + 8 * rows + with_levels * _padded(rows)
    if len(body) != size or flags & _FLOAT32:
        raise BadAnswer(f"columns: flags {flags} and {len(body)} bytes, not {size}")
    # A copy is aligned, and outlives the body.
    probabilities = np.frombuffer(body, "<f8", rows, _HEADER.size).astype(np.float64)
    levels = _levels(body[_HEADER.size + 8 * rows :][:rows]) if with_levels else None
    return probabilities, levels


def _distinct(campaigns: Sequence[str]) -> tuple[list[str], Ids]:
    number: dict[str, int] = {}
    places = [number.setdefault(name, len(number)) for name in campaigns]
    return list(number), np.array(places, "<u4")


def _levels(codes: bytes) -> tuple[str, ...]:
    if max(codes, default=0) >= len(_NAMES_OF_LEVELS):
        raise BadAnswer(f"columns: level {max(codes)} is unknown")
    return tuple(_NAMES_OF_LEVELS[code] for code in codes)


def _section(content: bytes) -> bytes:
    return content + bytes(-len(content) % 8)


def _padded(size: int) -> int:
    return size + -size % 8
