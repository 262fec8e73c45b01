"""Binary bodies by the book: the layout of docs/columns.md, written down once more with `struct`.

Nothing is checked here, so that a test can announce one thing and send another.
"""

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

FLOAT32, INTERNED, ONE_CAMPAIGN, EVENT_IDS, LEVELS, UNITS, FIELDS = 1, 2, 4, 8, 16, 32, 64
MONEY = 128
SCORES, PROBABILITIES, IMPRESSIONS, CLICKS, OUTCOMES = 1, 2, 3, 4, 5
LEVEL_NAMES = ("identity", "target", "campaign", "group", "raw")
ARM_NAMES = ("champion", "challenger", "raw")
HEADER = "<4sHBBIIIIQ"


def padded(section: bytes) -> bytes:
    """The section, filled up to a multiple of 8 bytes."""
    return section + bytes(-len(section) % 8)


def numbers(code: str, values: Sequence[float]) -> bytes:
    """A section of numbers."""
    return padded(struct.pack(f"<{len(values)}{code}", *values))


def texts(values: Sequence[str]) -> bytes:
    """Two sections: lengths, and the text end to end."""
    encoded = [value.encode() for value in values]
    return numbers("I", [len(text) for text in encoded]) + padded(b"".join(encoded))


def body(
    kind: int,
    rows: int,
    sections: bytes,
    *,
    target: str = "click",
    campaigns: Sequence[Any] = (),
    flags: int = 0,
    dictionary: int | None = None,
    announced: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """A request: `campaigns` are names, or ids if there is a dictionary; one is for all rows if the
    flag says so. `announced` replaces fields of the header."""
    if dictionary is None:
        distinct = list(dict.fromkeys(campaigns))
        named = texts(distinct) if distinct else b""
        size = len("".join(distinct).encode())
        places = [distinct.index(name) for name in campaigns]
    else:
        flags, distinct, named, size = flags | INTERNED, [], b"", 0
        places = list(campaigns)
    head = {
        "magic": b"SCOL",
        "version": 1,
        "kind": kind,
        "flags": flags,
        "rows": rows,
        "names": len(distinct),
        "names_bytes": size,
        "target_bytes": len(target.encode()),
        "dictionary": dictionary or 0,
    } | dict(announced)
    header = struct.pack(HEADER, *head.values())
    return header + padded(target.encode()) + named + numbers("I", places) + sections


def term_sections(
    units: Sequence[int] | None = None,
    arms: Sequence[int] = (),
    money: Sequence[Sequence[float]] = (),
) -> tuple[int, bytes]:
    """Flags and sections of units and arms, and of bids, costs and values, so far as given."""
    found, flags = b"", 0
    if units is not None:
        found, flags = numbers("Q", units) + numbers("B", arms), UNITS
    if money:
        found, flags = found + b"".join(numbers("d", column) for column in money), flags | MONEY
    return flags, found


def field_sections(fields: Mapping[str, Sequence[str]]) -> bytes:
    """What the flag FIELDS announces: of each field the value of every row."""
    found = numbers("I", [len(fields)])
    for name, given in fields.items():
        values = list(dict.fromkeys(given))
        found += numbers("I", [len(name.encode())]) + padded(name.encode())
        found += numbers("I", [len(values), len("".join(values).encode())]) + texts(values)
        found += numbers("I", [values.index(value) for value in given])
    return found


def scores_body(
    scores: Sequence[float], units: Sequence[int] = (), behind: bytes = b"", **more: Any
) -> bytes:
    """A calibrate request; `units` are their numbers, for the flag UNITS; `behind` are sections."""
    code = "f" if more.get("flags", 0) & FLOAT32 else "d"
    sections = numbers(code, scores) + numbers("Q", units) + behind
    return body(SCORES, len(scores), sections, **more)


def impressions_body(
    scores: Sequence[float],
    occurred_at: Sequence[float],
    ids: Sequence[str] | None = None,
    flags: int = 0,
    **more: Any,
) -> bytes:
    """Impressions, all with ids or all without."""
    sections = numbers("d", scores) + numbers("d", occurred_at)
    if ids is not None:
        sections, flags = sections + texts(ids), flags | EVENT_IDS
    return body(IMPRESSIONS, len(scores), sections, flags=flags, **more)


def clicks_body(
    scores: Sequence[float],
    occurred_at: Sequence[float],
    impression_at: Sequence[float],
    ids: Sequence[str],
    flags: int = 0,
    **more: Any,
) -> bytes:
    """Clicks."""
    columns = (scores, occurred_at, impression_at)
    sections = b"".join(numbers("d", column) for column in columns) + texts(ids)
    return body(CLICKS, len(scores), sections, flags=flags | EVENT_IDS, **more)


def outcomes_body(
    scores: Sequence[float], occurred_at: Sequence[float], outcomes: Sequence[float], **more: Any
) -> bytes:
    """Outcomes."""
    columns = (scores, occurred_at, outcomes)
    sections = b"".join(numbers("d", column) for column in columns)
    return body(OUTCOMES, len(scores), sections, **more)


def read_answer(answer: bytes) -> tuple[list[float], list[str] | None, int]:
    """Probabilities, levels if they were asked for, and the dictionary in force."""
    magic, version, kind, flags, rows, *rest, dictionary = struct.unpack_from(HEADER, answer)
    assert (magic, version, kind, rest) == (b"SCOL", 1, PROBABILITIES, [0, 0, 0])
    code = "f" if flags & FLOAT32 else "d"
    probabilities = list(struct.unpack_from(f"<{rows}{code}", answer, 32))
    column = len(numbers(code, probabilities))
    assert not any(answer[32 + struct.calcsize(code) * rows : 32 + column])
    width = rows + -rows % 8
    named = bool(flags & LEVELS)
    assert len(answer) == 32 + column + width * (named + bool(flags & UNITS))
    levels = answer[32 + column : 32 + column + rows] if named else None
    names = None if levels is None else [LEVEL_NAMES[level] for level in levels]
    return probabilities, names, dictionary


def read_arms(answer: bytes) -> list[str]:
    """The arms of an answer that has them: its last section."""
    rows = struct.unpack_from(HEADER, answer)[4]
    start = len(answer) - rows - -rows % 8
    return [ARM_NAMES[arm] for arm in answer[start : start + rows]]
