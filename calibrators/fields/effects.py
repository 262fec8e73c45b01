"""Effects of fields on the odds of a calibrated probability, looked up for a batch of scores.

An effect is kept as an odds ratio, because products of floats are the same to the last bit on every
machine, which exponentials are not: p' = p m / ((1 - p) + p m), where m is the product of the odds
ratios in the order fields, pairs, campaigns.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from math import prod
from operator import mul
from typing import Final, Self, cast

import numpy as np

from calibrators.bins.codecs import pack_names, sorted_rows, unpack_names
from calibrators.bins.table import BinsTable
from calibrators.fields.columns import MOST_REMEMBERED as _REMEMBERED
from calibrators.fields.columns import Codes, Given, Products, RatioOf, are_codes
from calibrators.fields.sums import OTHER, PAIR, CampaignRatios, FieldColumn, pair_ends, row_ends
from calibrators.names import JsonTexts, PlainIndex, compiled, index_of
from calibrators.samples import Floats, Integers, Singles

MOST_TERMS: Final = 20
"""Fields, and pairs of them."""

_FEW: Final = 1024
"""Up to so many scores products are remembered by their values; more are cheaper by code."""
_BEHIND: Final = np.iinfo(np.int64).max

LARGEST: Final = 1e4
"""Odds ratios lie between this and its inverse: the product of all terms is finite."""

_HEADER, _ROWS = struct.Struct("<4sHHHH"), struct.Struct("<I")
_MAGIC = b"SFLD"
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class EffectTable:
    """Effects by row: names ascending, (v,), odds ratios, (v,), and the standard deviations of
    their logarithms, (v,)."""

    names: tuple[str, ...]
    odds_ratios: Floats
    deviations: Singles

    @classmethod
    def of(cls, log_odds: Mapping[str, float], deviations: Mapping[str, float]) -> Self:
        """By name, in log-odds; without a deviation it is 0."""
        names = tuple(sorted(log_odds))
        ratios = np.exp(np.array([log_odds[name] for name in names], np.float64))
        return cls(names, ratios, np.array([deviations.get(name, 0.0) for name in names], "f4"))

    def stepped(self, before: "EffectTable | None", step: float) -> "EffectTable":
        """The same, no odds ratio further than the step from the one before, 1 where none was."""
        known, found = ({} if table is None else table.by_name for table in (before, self))
        # What has no row counts as other.
        was, now = known.get(OTHER, 1.0), found.get(OTHER, 1.0)
        if OTHER in found:
            lost = (name for name, ratio in known.items() if not now / step < ratio < now * step)
            found |= {name: now for name in lost if name not in found}
        names = tuple(sorted(found))
        old = np.array([known.get(name, was) for name in names], np.float64)
        ratios = np.clip([found[name] for name in names], old / step, old * step)
        deviations = dict(zip(self.names, self.deviations, strict=True))
        least_known = self.deviations.max(initial=0.0)
        sds = np.array([deviations.get(name, least_known) for name in names], "f4")
        return EffectTable(names, np.clip(ratios, 1 / LARGEST, LARGEST), sds)

    @property
    def by_name(self) -> dict[str, float]:
        """Odds ratios."""
        return dict(zip(self.names, self.odds_ratios.tolist(), strict=True))

    def check(self, term: str) -> None:
        """Raises ValueError, with the name of the term, on what breaks a rule."""
        if any(second <= first for first, second in pairwise(self.names)):
            raise ValueError(f"effects of {term}: names must ascend")
        within = (self.odds_ratios >= 1 / LARGEST) & (self.odds_ratios <= LARGEST)
        if not within.all():
            raise ValueError(f"effects of {term}: odds ratios must be in [1e-4, 1e4]")
        if not ((self.deviations >= 0) & np.isfinite(self.deviations)).all():
            raise ValueError(f"effects of {term}: deviations must be finite and at least 0")

    def to_bytes(self) -> bytes:
        """Rows u4; names; odds ratios f8; deviations f4."""
        columns = (self.odds_ratios.astype("<f8"), self.deviations.astype("<f4"))
        packed = (_ROWS.pack(len(self.names)), pack_names(self.names))
        return b"".join((*packed, *(column.tobytes() for column in columns)))

    @classmethod
    def read(cls, data: bytes, offset: int) -> tuple[Self, int]:
        """What `to_bytes` wrote at the offset, and the offset behind it; ValueError on bad ones."""
        if len(data) < offset + _ROWS.size:
            raise ValueError("effects: the bytes end early")
        (rows,) = _ROWS.unpack_from(data, offset)
        names, offset = unpack_names(memoryview(data), offset + _ROWS.size, rows)
        end = offset + 12 * rows
        if len(data) < end:
            raise ValueError("effects: the bytes end early")
        ratios = np.frombuffer(data, "<f8", rows, offset)
        return cls(names, ratios, np.frombuffer(data, "<f4", rows, offset + 8 * rows)), end


class _FieldTerm:
    """The effects of a field's values by code; -1 is a value without a row, which counts as other,
    but is less certain."""

    __slots__ = ("_codes", "name", "names", "place_of", "ratio_of", "ratios", "table", "variances")

    def __init__(self, name: str, table: EffectTable) -> None:
        table.check(name)
        if table.names[:1] != (OTHER,):
            raise ValueError(f"effects of {name}: the first row must be that of other")
        self.name, self.table = name, table
        self.place_of = {value: place for place, value in enumerate(table.names)}
        self.ratios = np.append(table.odds_ratios, table.odds_ratios[0])
        self.ratio_of = RatioOf(table.by_name)
        self.variances = _variances(table)
        # What is not said is the mean over all values, whose effects are centred.
        self.variances[0] = 0.0
        self._codes, self.names = np.append(np.arange(len(table.names)), -1.0), None
        if compiled and not isinstance(index := index_of(tuple(table.names)), PlainIndex):
            self.names = index

    def multiply(self, found: Floats, given: Given | int) -> None:
        """Products of n scores, (n,), by the ratios of these values, or codes."""
        if isinstance(given, int | np.ndarray):
            found *= self.ratios.take(given)
        elif type(given) is JsonTexts and self.names:
            found *= self._taken(given, self.ratios)
        else:
            found *= np.fromiter(self.each(given, len(found)), np.float64, len(found))

    def each(self, given: Given, n: int) -> Iterator[float]:
        """The ratio of each of n scores."""
        values = repeat(given, n) if isinstance(given, str) else given
        return map(self.ratio_of.__getitem__, values)

    def coded(self, given: Given) -> Codes | int:
        if isinstance(given, str):
            return self.place_of.get(given, -1)
        if are_codes(given):
            return given
        if type(given) is JsonTexts and self.names:
            return self._taken(given, self._codes).astype(np.int32)
        return np.fromiter(map(self.place_of.get, given, repeat(-1)), np.int32, len(given))

    def _taken(self, given: JsonTexts, column: Floats) -> Floats:
        found = np.empty(len(given))
        compiled.fill_products((given,), (self.names,), (column,), found, None)
        return found


def _variances(table: EffectTable) -> Floats:
    """Of the rows, and behind them that of one that is not there: nothing is less certain than the
    least certain row, of which next to nothing is known."""
    found = table.deviations.astype(np.float64) ** 2
    return np.append(found, found.max(initial=0.0))


class _KeyedTerm:
    """The effects of rows that two codes name, and none for all others; below 0 is no row's."""

    __slots__ = ("_keys", "_view", "_width", "name", "ratios", "table", "variances")

    def __init__(
        self, name: str, table: EffectTable, firsts: Mapping[str, int], seconds: Mapping[str, int]
    ) -> None:
        table.check(name)
        self.name, self.table, self._width = name, table, len(seconds)
        try:
            ends = [row_ends(row) for row in table.names]
            keys = [firsts[first] * self._width + seconds[second] for first, second in ends]
        except KeyError as error:
            raise ValueError(f"effects of {name}: {error} has no row of its own") from None
        order = np.argsort(np.array(keys, np.int64), kind="stable")
        self._keys = np.append(np.array(keys, np.int64)[order], _BEHIND)
        self._view: memoryview[int] = memoryview(self._keys)  # type: ignore[arg-type]
        self.ratios = np.append(table.odds_ratios[order], 1.0)
        self.variances = _variances(table)[[*order.tolist(), -1]]

    def place(self, first: int, second: int) -> int:
        key = first * self._width + second
        found = bisect_left(self._view, key)
        return found if self._view[found] == key else len(self._view) - 1

    def places(self, firsts: Codes | int, seconds: Codes | int) -> Integers:
        keys = np.maximum(firsts, 0).astype(np.int64) * self._width + np.maximum(seconds, 0)
        found: Integers = np.asarray(self._keys.searchsorted(keys))
        return np.where(self._keys.take(found) == keys, found, len(self._keys) - 1)

    def variances_of(self, firsts: Codes | int, seconds: Codes | int) -> Floats:
        said = np.not_equal(firsts, 0) & np.not_equal(seconds, 0)
        return np.asarray(self.variances.take(self.places(firsts, seconds)) * said)


Places = Integers | Codes | int
_Term = _FieldTerm | _KeyedTerm


class FieldEffects:
    """Effects by field value, by pair of values, and by campaign and value; immutable.

    >>> device = EffectTable.of({"": 0.0, "ios": 0.7}, {})
    >>> effects = FieldEffects({"device": device})
    >>> effects.applied(np.array([0.1, 0.1]), ["a", "b"], {"device": ["ios", "android"]}).round(3)
    array([0.183, 0.1  ])
    """

    def __init__(
        self,
        fields: Mapping[str, EffectTable],
        pairs: Mapping[str, EffectTable] | None = None,
        campaigns: Mapping[str, EffectTable] | None = None,
    ) -> None:
        """By field, by pair "device*placement", and by field of which campaigns deviate. A pair's
        values, and those by campaign, have rows of their own in their field. ValueError on what
        breaks a rule."""
        self.tables = (dict(fields), dict(pairs or {}), dict(campaigns or {}))
        if max(map(len, self.tables)) > MOST_TERMS:
            raise ValueError(f"effects: at most {MOST_TERMS} fields, and pairs of them")
        self.fields: tuple[str, ...] = tuple(fields)
        self._terms = [_FieldTerm(name, table) for name, table in fields.items()]
        # Terms whose ratios are all 1 are passed over: a product with them is the same.
        self._effective = [
            place for place, term in enumerate(self._terms) if (term.ratios != 1.0).any()
        ]
        self._pairs = [self._pair(name, table) for name, table in self.tables[1].items()]
        rows = (row for table in self.tables[2].values() for row in table.names)
        self._of_campaigns: dict[int, Products] = {}
        # 0 is a campaign without effects of its own.
        named = sorted({row_ends(row)[0] for row in rows})
        self._campaign_of = {name: code for code, name in enumerate(named, 1)}
        self._campaigns = [self._deviation(name, table) for name, table in self.tables[2].items()]
        self._remembered = Products(self._product)
        self._variances = Products(lambda values: float(self._summed(values, 1)[0]))
        terms = [self._terms[place] for place in self._effective]
        self._names = tuple(term.names for term in terms)
        self._ratios = tuple(term.ratios for term in terms)
        one_by_one = self._pairs or self._campaigns or None in self._names
        self._in_one_step = [] if one_by_one else [term.name for term in terms]
        # One search for all values of a score costs half of one for each, where it finds them.
        self._remembers = prod(len(term.place_of) for term in self._terms) <= _REMEMBERED

    @classmethod
    def none(cls, fields: Sequence[str]) -> Self:
        """Of these fields, none of which does anything."""
        return cls({name: EffectTable.of({OTHER: 0.0}, {}) for name in fields})

    @property
    def is_none(self) -> bool:
        """Whether they change nothing."""
        tables = (table for tables in self.tables for table in tables.values())
        return all((table.odds_ratios == 1.0).all() for table in tables)

    def _place(self, field: str) -> int:
        if field not in self.fields:
            raise ValueError(f"effects: {field} is none of the fields")
        return self.fields.index(field)

    def _pair(self, name: str, table: EffectTable) -> tuple[int, int, _KeyedTerm]:
        first, second = map(self._place, pair_ends(name))
        ends = (self._terms[first].place_of, self._terms[second].place_of)
        return first, second, _KeyedTerm(name, table, *ends)

    def _deviation(self, field: str, table: EffectTable) -> tuple[int, _KeyedTerm]:
        place = self._place(field)
        values = self._terms[place].place_of
        term = _KeyedTerm(f"campaign{PAIR}{field}", table, self._campaign_of, values)
        self._of_campaigns[place] = Products(lambda key: self._ratio(place, term, key))
        return place, term

    def codes(self, field: str, values: Sequence[str]) -> Codes:
        """The code of each value, (n,): -1 for one without a row, 0 for one that was not said.
        ValueError on another field."""
        return cast(Codes, self._terms[self._place(field)].coded(values))

    def coded(self, columns: Mapping[str, FieldColumn]) -> dict[str, Codes]:
        """The code of each event, (n,), by field; of fields with effects alone."""
        known = ((name, columns[name]) for name in self.fields if name in columns)
        return {name: self.codes(name, names).take(codes) for name, (names, codes) in known}

    def odds_ratios(
        self, campaigns: Sequence[str] | str, fields: Mapping[str, Given], n: int
    ) -> Floats | float:
        """What the odds of n scores are multiplied by: a number where it is the same for all. A
        field that is not given counts as other, one without effects as nothing."""
        given = [fields.get(name, OTHER) for name in self.fields]
        found = self._products(given, n)
        if self._campaigns:
            for place, term in self._campaigns:
                found = found * self._deviations(place, term, campaigns, given[place], n)
        return found

    def _deviations(
        self, place: int, term: _KeyedTerm, campaigns: Sequence[str] | str, given: Given, n: int
    ) -> Floats:
        """What campaigns add to the effects of one field."""
        if n <= _FEW and not are_codes(given):
            return self._of_campaigns[place].of_columns((campaigns, given), n)
        codes = self._terms[place].coded(given)
        return np.asarray(term.ratios.take(term.places(self._campaign_codes(campaigns), codes)))

    def _ratio(self, place: int, term: _KeyedTerm, key: Sequence[str]) -> float:
        campaign, value = key
        code = self._terms[place].place_of.get(value, 0)
        return float(term.ratios[term.place(self._campaign_of.get(campaign, 0), code)])

    def _products(self, given: Sequence[Given], n: int) -> Floats | float:
        """Of fields and pairs."""
        kinds = set(map(type, given))
        if kinds <= {str}:
            return self._remembered[tuple(given)]
        if n <= _FEW and not kinds & {JsonTexts, np.ndarray} and (self._pairs or self._remembers):
            return self._remembered.of_columns(given, n)
        found, codes = np.ones(n), self._coded(given) if self._pairs else []
        for place in self._effective:
            self._terms[place].multiply(found, codes[place] if codes else given[place])
        for first, second, pair in self._pairs:
            found *= pair.ratios.take(pair.places(codes[first], codes[second]))
        return found

    def _product(self, values: Sequence[str]) -> float:
        codes = [term.place_of.get(name, 0) for term, name in zip(self._terms, values, strict=True)]
        found = 1.0
        for term, code in zip(self._terms, codes, strict=True):
            found = found * float(term.ratios[code])
        for first, second, pair in self._pairs:
            found = found * float(pair.ratios[pair.place(codes[first], codes[second])])
        return found

    def _coded(self, given: Sequence[Given]) -> list[Codes | int]:
        return [term.coded(values) for term, values in zip(self._terms, given, strict=True)]

    def _campaign_codes(self, campaigns: Sequence[str] | str) -> Codes | int:
        if isinstance(campaigns, str):
            return self._campaign_of.get(campaigns, -1)
        codes = map(self._campaign_of.get, campaigns, repeat(-1))
        return np.fromiter(codes, np.int32, len(campaigns))

    def _placed(
        self, campaigns: Sequence[str] | str, fields: Mapping[str, Given]
    ) -> Iterator[tuple[_Term, Places]]:
        """Terms, and the place of each score's effect in them."""
        codes = self._coded([fields.get(name, OTHER) for name in self.fields])
        yield from zip(self._terms, codes, strict=True)
        for first, second, pair in self._pairs:
            yield pair, pair.places(codes[first], codes[second])
        of_campaigns = self._campaign_codes(campaigns) if self._campaigns else 0
        for place, term in self._campaigns:
            yield term, term.places(of_campaigns, codes[place])

    def variances(
        self, campaigns: Sequence[str] | str, fields: Mapping[str, Given], n: int
    ) -> Floats:
        """Of all effects of each score together, (n,), in squared log-odds: the sum of those of its
        terms. Each is fitted given the maps and the other terms: what it has in common with these
        is neglected, and so are half-lives and variances that are other than fitted. A field that
        is not given, or has no value, adds nothing."""
        given = [fields.get(name, OTHER) for name in self.fields]
        by_code = {JsonTexts, np.ndarray}.intersection(map(type, given))
        few = self._remembers and n <= _FEW and not by_code
        found = (self._variances.of_columns if few else self._summed)(given, n)
        of_campaigns = self._campaign_codes(campaigns) if self._campaigns else 0
        for place, own in self._campaigns:
            found += own.variances_of(of_campaigns, self._terms[place].coded(given[place]))
        return found

    def _summed(self, given: Sequence[Given], n: int) -> Floats:
        """The variances of fields and pairs."""
        found, codes = np.zeros(n), self._coded(given)
        for term, places in zip(self._terms, codes, strict=True):
            found += term.variances.take(places)
        for first, second, pair in self._pairs:
            found += pair.variances_of(codes[first], codes[second])
        return found

    def explained(
        self, campaigns: Sequence[str] | str, fields: Mapping[str, Given], n: int
    ) -> list[dict[str, float]]:
        """The effect of each term by name on each of n scores, in log-odds."""
        columns = {
            term.name: np.broadcast_to(np.log(term.ratios.take(places)), n).tolist()
            for term, places in self._placed(campaigns, fields)
        }
        return [{name: column[row] for name, column in columns.items()} for row in range(n)]

    def applied(
        self, probabilities: Floats, campaigns: Sequence[str] | str, fields: Mapping[str, Given]
    ) -> Floats:
        """Probabilities, (n,), with the effects in them; 0 and 1 stay."""
        texts = tuple(map(fields.get, self._in_one_step))
        if set(map(type, texts)) == {JsonTexts}:
            found = np.empty(len(probabilities))
            compiled.fill_products(texts, self._names, self._ratios, found, probabilities)
            return found
        raised = probabilities * self.odds_ratios(campaigns, fields, len(probabilities))
        below = 1.0 - probabilities
        below += raised
        np.divide(raised, below, below)
        return below

    def applied_to_few(
        self, found: Sequence[float], campaigns: Sequence[str] | str, fields: Mapping[str, Given]
    ) -> list[float]:
        """`applied` to the last bit, faster where numpy would take longer to begin than to end."""
        n, given = len(found), [fields.get(name, OTHER) for name in self.fields]
        if self._pairs or self._remembers:
            ratios = [*self._remembered.each(given, n)]
        else:
            ratios = [1.0] * n
            for place in self._effective:
                ratios = [*map(mul, ratios, self._terms[place].each(given[place], n))]
        for place, _ in self._campaigns:
            own = self._of_campaigns[place].each((campaigns, given[place]), n)
            ratios = [*map(mul, ratios, own)]
        corrected = zip(found, ratios, strict=True)
        return [p * ratio / ((1.0 - p) + p * ratio) for p, ratio in corrected]

    def campaign_rows(self, field: str, table: BinsTable) -> CampaignRatios:
        """What the effects of a field, and of campaigns in it, do to the rows of a table of
        campaigns and values, as `FieldTables.campaigns` has them."""
        ends = [row_ends(row) for row in table.campaigns]
        names, campaigns = sorted_rows([campaign for campaign, _ in ends])
        given = {field: [value for _, value in ends]}
        ratios = np.ones(len(ends))
        for term, places in self._placed([campaign for campaign, _ in ends], given):
            if term.name in (field, f"campaign{PAIR}{field}"):
                ratios *= term.ratios.take(places)
        return CampaignRatios(names, campaigns, *table.outcomes(), ratios)

    def campaign_means(self, tables: Mapping[str, BinsTable]) -> dict[str, float]:
        """The mean of all fields' ratios in each campaign of an hour's tables, by their mixes."""
        found: dict[str, float] = {}
        for field in self.fields:
            if field in tables:
                rows = self.campaign_rows(field, tables[field])
                for name, mean in zip(rows.names, rows.means.tolist(), strict=True):
                    found[name] = found.get(name, 1.0) * mean
        return found

    def stepped(self, before: "FieldEffects | None", step: float) -> "FieldEffects":
        """The same, no odds ratio further than the step, a factor, from what it was, or 1."""
        earlier = before.tables if before else ({}, {}, {})
        parts = zip(self.tables, earlier, strict=True)
        return FieldEffects(
            *(
                {name: table.stepped(old.get(name), step) for name, table in tables.items()}
                for tables, old in parts
            )
        )

    def __reduce__(self) -> tuple[Callable[[bytes], "FieldEffects"], tuple[bytes]]:
        return FieldEffects.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SFLD", schema_version u2, numbers of fields, pairs, and
        fields of which campaigns deviate, u2 each; their names as one list; then the table of each
        as `EffectTable` writes it."""
        header = _HEADER.pack(_MAGIC, _SCHEMA_VERSION, *map(len, self.tables))
        names = pack_names([name for tables in self.tables for name in tables])
        written = (table.to_bytes() for tables in self.tables for table in tables.values())
        return b"".join((header, names, *written))

    @classmethod
    def from_bytes(cls, data: bytes, pause: Callable[[], None] = lambda: None) -> Self:
        """The effects that `to_bytes` wrote; ValueError on any other bytes. `pause` is called
        between pieces of the work."""
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise ValueError("these are not the bytes of effects")
        _, version, *counts = _HEADER.unpack_from(data)
        if version != _SCHEMA_VERSION or max(counts) > MOST_TERMS:
            raise ValueError(f"effects: schema_version {version}, {max(counts)} terms")
        names, offset = unpack_names(memoryview(data), _HEADER.size, sum(counts))
        tables = []
        for _ in names:
            pause()
            table, offset = EffectTable.read(data, offset)
            tables.append(table)
        if offset != len(data):
            raise ValueError(f"effects end at byte {offset}, there are {len(data)}")
        ends = np.cumsum([0, *counts]).tolist()
        parts = [
            dict(zip(names[start:end], tables[start:end], strict=True))
            for start, end in pairwise(ends)
        ]
        if sum(map(len, parts)) < len(names):
            raise ValueError("effects: a term stands twice")
        return cls(*parts)
