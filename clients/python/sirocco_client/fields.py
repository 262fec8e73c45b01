"""Fields of scores and events, such as device and placement: what the caller says of them, and the
effects that an atlas has of them, the same as the service's to the last bit.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadAtlas, BadInput, length_of

Floats = NDArray[np.float64]
TextColumn = Sequence[str] | NDArray[np.str_] | NDArray[np.object_]
Texts = str | TextColumn
"""One for all scores, or one for each."""
Fields = Mapping[str, Texts]
"""By field: the value of each score, or the one of all."""
ReadNames = Callable[[memoryview, int, int], tuple[list[str], int]]
"""Reads so many names at an offset of an atlas; gives the offset behind them too."""

LONGEST_VALUE: Final = 256
OTHER: Final = ""
_SEPARATOR: Final = "\x1f"
_VALUE_RULE: Final = f"must be a string of 1 to {LONGEST_VALUE} bytes of UTF-8, none of them U+001F"
_MOST_TERMS: Final = 20
_LARGEST: Final = 1e4
_REMEMBERED: Final = 1 << 14
_HEADER: Final = struct.Struct("<4sHHHH")
_MAGIC: Final = b"SFLD"
_VERSION: Final = 1


def check_fields(fields: Fields, scores: int) -> None:
    """BadInput unless each has a value for all or one for each of so many scores, in bounds."""
    for name, values in fields.items():
        if isinstance(values, str):
            check_value(f"fields.{name}", values)
            continue
        if length_of(f"fields.{name}", values) != scores:
            raise BadInput(f"fields.{name}", f"has {len(values)} items beside {scores} scores")
        for value in set(values):
            if not _fits(value):
                check_value(f"fields.{name}[{list(values).index(value)}]", value)


def check_values(fields: Mapping[str, str]) -> dict[str, str]:
    """Those of one event; BadInput on what is no value."""
    for name, value in fields.items():
        check_value(f"fields.{name}", value)
    return dict(fields)


def check_value(field: str, value: str) -> None:
    """BadInput on what is no value."""
    if not _fits(value):
        raise BadInput(field, _VALUE_RULE, value)


def _fits(value: str) -> bool:
    try:
        return 0 < len(value.encode()) <= LONGEST_VALUE and _SEPARATOR not in value
    except (AttributeError, UnicodeEncodeError):
        return False


def cut_fields(fields: Fields, part: slice | Sequence[int]) -> Fields:
    """Of a part of the scores; one value for all stays."""
    return {name: cut(values, part) for name, values in fields.items()}


def cut(values: Texts, part: slice | Sequence[int]) -> Texts:
    """What is said of a part of the scores; one for all stays."""
    if isinstance(values, str):
        return values
    return values[part] if isinstance(part, slice) else [values[place] for place in part]


def pack_fields(fields: Fields, scores: int) -> Iterator[bytes]:
    """The sections of binary columns, not yet padded."""
    yield struct.pack("<I", len(fields))
    for name, values in fields.items():
        numbers: dict[str, int] = {}
        of_each = [values] if isinstance(values, str) else values
        codes = np.array([numbers.setdefault(value, len(numbers)) for value in of_each], "<u4")
        texts = [value.encode() for value in numbers]
        yield struct.pack("<I", len(name.encode()))
        yield name.encode()
        yield struct.pack("<II", len(texts), sum(map(len, texts)))
        yield np.array([len(text) for text in texts], "<u4").tobytes()
        yield b"".join(texts)
        yield np.broadcast_to(codes, scores).tobytes()


class _Table(dict[str, float]):
    """Odds ratios by row; of a row that is not there that of other, or 1."""

    def __init__(self, names: Sequence[str], ratios: Floats, deviations: Floats) -> None:
        """With the standard deviations of the ratios' logarithms."""
        super().__init__(zip(names, ratios.tolist(), strict=True))
        self._variances: dict[str, float] = dict(zip(names, (deviations**2).tolist(), strict=True))
        self._largest: float = max(self._variances.values(), default=0.0)

    def __missing__(self, name: str) -> float:
        return self.get(OTHER, 1.0)

    def variance(self, name: str) -> float:
        """Of a row that is not there the largest."""
        return self._variances.get(name, self._largest)


class EdgeEffects:
    """Effects of fields on the odds, looked up by value; immutable but for what it remembers."""

    def __init__(self, names: Sequence[str], counts: Sequence[int], tables: list[_Table]) -> None:
        """Use `read`. Fields, pairs and fields of which campaigns deviate, each after the other."""
        fields, pairs = counts[0], counts[0] + counts[1]
        self.fields = tuple(names[:fields])
        self._terms = tables[:fields]
        ends = [tuple(map(self._place, name.split("*"))) for name in names[fields:pairs]]
        if any(len(pair) != 2 for pair in ends):
            raise BadAtlas("effects: a pair is not of two fields")
        self._pairs = list(zip(ends, tables[fields:pairs], strict=True))
        places = map(self._place, names[pairs:])
        self._campaigns = list(zip(places, tables[pairs:], strict=True))
        self._remembered: dict[tuple[str, tuple[str, ...]], tuple[float, float]] = {}

    @classmethod
    def read(cls, data: memoryview, read: ReadNames) -> "EdgeEffects":
        """The effects in a section of an atlas; BadAtlas on any other bytes."""
        if len(data) < _HEADER.size:
            raise BadAtlas("effects: the bytes end early")
        magic, version, *counts = _HEADER.unpack_from(data)
        if (magic, version) != (_MAGIC, _VERSION) or max(counts) > _MOST_TERMS:
            raise BadAtlas(f"effects: schema_version {version}, this reads {_VERSION}")
        names, offset = read(data, _HEADER.size, sum(counts))
        tables = []
        for place in range(len(names)):
            table, offset = _read_table(data, offset, read)
            if place < counts[0] and OTHER not in table:
                raise BadAtlas(f"effects of {names[place]}: no row of other")
            tables.append(table)
        if offset != len(data):
            raise BadAtlas(f"effects: end at byte {offset}, there are {len(data)}")
        return cls(names, counts, tables)

    def _place(self, field: str) -> int:
        if field not in self.fields:
            raise BadAtlas(f"effects: {field} is none of the fields")
        return self.fields.index(field)

    def applied(self, probabilities: Floats, campaigns: Texts, fields: Fields) -> Floats:
        """Probabilities, (n,), with the effects in them; a field that is not there is other."""
        raised = probabilities * self._effects(campaigns, fields, len(probabilities))[:, 0]
        found: Floats = raised / ((1.0 - probabilities) + raised)
        return found

    def applied_once(self, probability: float, campaign: str, fields: Mapping[str, str]) -> float:
        """`applied` to the last bit, of one."""
        values = tuple(fields.get(name, OTHER) for name in self.fields)
        raised = probability * self._effect(campaign, values)[0]
        return raised / ((1.0 - probability) + raised)

    def variances(self, campaigns: Texts, fields: Fields, n: int) -> Floats:
        """Of the log-odds that the effects add to n scores, (n,)."""
        return self._effects(campaigns, fields, n)[:, 1]

    def _effects(self, campaigns: Texts, fields: Fields, n: int) -> Floats:
        columns = [_column(fields.get(name, OTHER), n) for name in self.fields]
        values = zip(*columns, strict=True) if columns else repeat((), n)
        return np.array([*map(self._effect, _column(campaigns, n), values)]).reshape(n, 2)

    def _effect(self, campaign: str, values: tuple[str, ...]) -> tuple[float, float]:
        """What the odds of one score are multiplied by, its values in the order of `fields`, and
        the variance of the logarithm."""
        key = (campaign if self._campaigns else OTHER, values)
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._summed(*key)
        return found

    def _summed(self, campaign: str, given: tuple[str, ...]) -> tuple[float, float]:
        pairs = zip(given, self._terms, strict=True)
        known = [value if value in term else OTHER for value, term in pairs]
        # In the order of the service: another gives other bits.
        rows = [*zip(self._terms, given, given, strict=True)]
        rows += [(t, _row(known[i], known[j]), given[i] and given[j]) for (i, j), t in self._pairs]
        rows += [(t, _row(campaign, known[i]), given[i]) for i, t in self._campaigns]
        ratio, variance = 1.0, 0.0
        for table, row, is_given in rows:
            ratio *= table[row]
            variance += table.variance(row) if is_given else 0.0
        return ratio, variance


def _row(first: str, second: str) -> str:
    return f"{first}{_SEPARATOR}{second}"


def _column(given: Texts, n: int) -> TextColumn:
    return [given] * n if isinstance(given, str) else given


def _read_table(data: memoryview, offset: int, read: ReadNames) -> tuple[_Table, int]:
    if offset + 4 > len(data):
        raise BadAtlas("effects: the bytes end early")
    rows = int.from_bytes(data[offset : offset + 4], "little")
    names, offset = read(data, offset + 4, rows)
    end = offset + 12 * rows
    if end > len(data):
        raise BadAtlas("effects: the bytes end early")
    ratios = np.frombuffer(data, "<f8", rows, offset)
    if not ((ratios >= 1 / _LARGEST) & (ratios <= _LARGEST)).all():
        raise BadAtlas("effects: odds ratios must be in [1e-4, 1e4]")
    deviations = np.frombuffer(data, "<f4", rows, offset + 8 * rows).astype(np.float64)
    if not ((deviations >= 0) & np.isfinite(deviations)).all():
        raise BadAtlas("effects: deviations must be finite and at least 0")
    if any(second <= first for first, second in pairwise(names)):
        raise BadAtlas("effects: names must ascend")
    return _Table(names, ratios, deviations), end
