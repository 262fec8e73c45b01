"""Predicted and observed positives by the values of fields, of pairs of them, and of campaigns."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple, Self

import numpy as np

from calibrators.bins.table import BinsTable
from calibrators.samples import Floats, Integers, sum_at

OTHER: Final = ""
"""The row of events without a value, and of values that got no row of their own."""
SEPARATOR: Final = "\x1f"
"""Between the two names of a row of a pair, or of a campaign and a value; no value holds it."""
PAIR: Final = "*"
"""Between the names of the two fields of a pair."""

MOST_VALUES: Final = 10_000
MOST_PAIRS: Final = 10_000
MOST_CAMPAIGN_VALUES: Final = 50_000


def pair_ends(pair: str) -> tuple[str, str]:
    """The two fields of a pair, "device*placement"."""
    first, _, second = pair.partition(PAIR)
    return first, second


def row_ends(row: str) -> tuple[str, str]:
    """The two names of a row of a pair, or campaign and value of one of these."""
    first, _, second = row.rpartition(SEPARATOR)
    return first, second


@dataclass(frozen=True, slots=True)
class BoundedRows:
    """Keeps the rows whose names have the smallest BLAKE2b hashes, and sums the others in rows for
    the rest.

    A row among the smallest of a union is so in every part of it that has the row, so its sums are
    whole whatever was merged with what before (a bottom-k sample: Cohen and Kaplan, PODC 2007).

    most : rows that are kept besides those for the rest.
    rest : the rows that take what rows held, by their names; that of such a row is itself.
    """

    most: int
    rest: Callable[[Sequence[str]], Sequence[str]]

    def of(self, table: BinsTable) -> BinsTable:
        """The table with that many rows at most."""
        if len(table) <= self.most:
            return table
        names = list(table.campaigns)
        rests = self.rest(names)
        own = [
            place
            for place, (name, rest) in enumerate(zip(names, rests, strict=True))
            if rest != name
        ]
        if len(own) <= self.most:
            return table
        order = _by_hash([names[place] for place in own])
        for place in order[self.most :].tolist():
            names[own[place]] = rests[own[place]]
        return table.renamed(names)


def _by_hash(names: Sequence[str]) -> Integers:
    """The places of the names, by their BLAKE2b hashes of 16 bytes, (n,)."""
    digests = b"".join([blake2b(name.encode(), digest_size=16).digest() for name in names])
    first, second = np.frombuffer(digests, ">u8").reshape(-1, 2).T
    return np.lexsort((second, first))


def _all_as(row: str, rows: Sequence[str]) -> Sequence[str]:
    return [row] * len(rows)


def values_alone(rows: Sequence[str]) -> Sequence[str]:
    """The rows for the rest of the campaigns that take those of campaigns and values."""
    return [SEPARATOR + row.rpartition(SEPARATOR)[2] for row in rows]


def _rest_of_values(rows: Sequence[str]) -> Sequence[str]:
    return [SEPARATOR if row.startswith(SEPARATOR) else row for row in rows]


class FieldColumn(NamedTuple):
    """The values of a field in n events: names, (v,), and the place of each event's among them,
    (n,)."""

    names: Sequence[str]
    codes: Integers

    @classmethod
    def missing(cls, n: int) -> "FieldColumn":
        """Of events that do not name the field."""
        return cls((OTHER,), np.zeros(n, np.int64))

    def beside(self, other: "FieldColumn") -> "FieldColumn":
        """The names of both as rows of a pair, as far as events have them together."""
        keys = self.codes * len(other.names) + other.codes
        found, codes = np.unique(keys, return_inverse=True)
        firsts, seconds = np.divmod(found, max(len(other.names), 1))
        pairs = zip(firsts.tolist(), seconds.tolist(), strict=True)
        names = [SEPARATOR.join((self.names[a], other.names[b])) for a, b in pairs]
        return FieldColumn(names, codes.astype(np.int64))

    def safe(self) -> "FieldColumn":
        """The same; a value with the separator in it counts as other."""
        if not any(SEPARATOR in name for name in self.names):
            return self
        names = [OTHER if SEPARATOR in name else name for name in self.names]
        return FieldColumn(names, self.codes)


@dataclass(frozen=True, slots=True, eq=False)
class FieldTables:
    """Bins of one target, by rows that are named for values; of one hour, or of more.

    The score of an event is the probability that the maps in force gave it, without effects of
    fields: so a row's score sum is its predicted positives. Additive, to the same bits for any
    order or split of events, and bounded: see `BoundedRows`.

    fields : by field, a row for each value; `OTHER` is that of the rest.
    pairs : by declared pair, "device*placement", a row for each two values, joined by `SEPARATOR`.
    campaigns : by field, a row for each campaign and value, joined by `SEPARATOR`; for the rest of
        the campaigns the campaign is empty, so that the rows of a value add up to all it holds.
    """

    fields: Mapping[str, BinsTable]
    pairs: Mapping[str, BinsTable]
    campaigns: Mapping[str, BinsTable]

    @classmethod
    def empty(cls, fields: Collection[str] = (), pairs: Collection[str] = ()) -> Self:
        """Of no event."""
        nothing = BinsTable.empty()
        of_fields = dict.fromkeys(fields, nothing)
        return cls(of_fields, dict.fromkeys(pairs, nothing), of_fields)

    @classmethod
    def from_events(
        cls,
        campaigns: FieldColumn,
        values: Mapping[str, FieldColumn],
        pairs: Collection[str],
        events: tuple[Floats, Floats, Floats],
    ) -> Self:
        """Of n events: their campaigns, their values by declared field, the declared pairs, and
        what `BinsTable.from_columns` takes: probabilities, counts, positives, (n,) each."""
        return cls.of(
            campaigns, values, pairs, lambda column: BinsTable.from_columns(*column, *events)
        )

    @classmethod
    def of(
        cls,
        campaigns: FieldColumn,
        values: Mapping[str, FieldColumn],
        pairs: Collection[str],
        summed: Callable[[FieldColumn], BinsTable],
    ) -> Self:
        """The same of events, or of what stands for several, that `summed` sums by the rows that a
        column gives them."""
        columns = {field: column.safe() for field, column in values.items()}
        pair_columns = {
            pair: columns[first].beside(columns[second])
            for pair, (first, second) in ((pair, pair_ends(pair)) for pair in pairs)
        }
        beside = {field: campaigns.beside(column) for field, column in columns.items()}
        return cls(
            *(
                {name: summed(column) for name, column in each.items()}
                for each in (columns, pair_columns, beside)
            )
        ).bounded()

    @classmethod
    def merge(cls, parts: Iterable["FieldTables"]) -> Self:
        """The sum of any number of tables."""
        listed = list(parts)
        return cls(
            *(
                merged([part.fields for part in listed]),
                merged([part.pairs for part in listed]),
                merged([part.campaigns for part in listed]),
            )
        ).bounded()

    def bounded(self) -> Self:
        """The same with as many rows as are kept."""
        values = BoundedRows(MOST_VALUES, partial(_all_as, OTHER))
        pairs = BoundedRows(MOST_PAIRS, partial(_all_as, SEPARATOR))
        campaigns = BoundedRows(MOST_CAMPAIGN_VALUES, values_alone)
        # Rows for the rest of campaigns, one for each value, are as many as there are values.
        rest = BoundedRows(MOST_VALUES, _rest_of_values)
        return type(self)(
            {name: values.of(table) for name, table in self.fields.items()},
            {name: pairs.of(table) for name, table in self.pairs.items()},
            {name: rest.of(campaigns.of(table)) for name, table in self.campaigns.items()},
        )


def merged(parts: Sequence[Mapping[str, BinsTable]]) -> dict[str, BinsTable]:
    """The sums of tables by field or pair."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: BinsTable.merge(part[name] for part in parts if name in part) for name in names}


class CampaignRatios(NamedTuple):
    """Rows of campaigns and values: names of the campaigns, (c,), the campaign of each row, its
    predicted and observed positives, and the ratio of its value, (r,)."""

    names: tuple[str, ...]
    campaigns: Integers
    expected: Floats
    observed: Floats
    ratios: Floats

    @property
    def means(self) -> Floats:
        """Of each campaign, (c,)."""
        moved, whole = self._sums(self.expected * self.ratios), self._sums(self.expected)
        return np.divide(moved, whole, out=np.ones_like(whole), where=whole > 0)

    def forecast(self) -> Floats:
        """Of each row, (r,), with as many positives of a campaign as it has without effects."""
        return np.asarray(self.expected * self.ratios / self.means[self.campaigns])

    def _sums(self, values: Floats) -> Floats:
        return sum_at(self.campaigns, values, len(self.names))
