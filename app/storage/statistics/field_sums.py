"""The breakdowns by fields: which there are, what events add to them, and how a hash names them.

    | breakdown          | row                | score       | weight | positive |
    | field:<name>       | value              | probability | count  | positive |
    | pair:<name>*<name> | value U+001F value | probability | count  | positive |
    | campaign:<name>    | campaign U+001F value | probability | count | positive |

A probability is that of the maps in force when the events were folded, without effects of fields;
the score itself where there were none. `FieldTables` says what a row for the rest is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from app.settings import Settings
from app.storage.blocks import Block
from calibrators.bins.table import BinsTable
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.samples import Floats, Integers

LookUp = Callable[[str, Sequence[str], Integers, Floats], Floats]
"""Target, campaigns, of n events the places of theirs among these and the scores -> the
probabilities that the maps in force give, (n,)."""

_FIELD, _PAIR, _CAMPAIGN = _KINDS = ("field", "pair", "campaign")
_NAME: Final = "[a-z][a-z0-9_]{0,31}"
IS_OF_FIELDS: Final = re.compile(f"(field|campaign):{_NAME}|pair:{_NAME}\\*{_NAME}").fullmatch
"""Whether a breakdown has the name of one by fields, declared or not any more."""


def identity(target: str, campaigns: Sequence[str], rows: Integers, scores: Floats) -> Floats:
    """The look-up where there are no maps."""
    return scores


@dataclass(frozen=True)
class DeclaredFields:
    """Fields, pairs of them as "device*placement", and the targets whose events are summed."""

    names: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    targets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Settings) -> "DeclaredFields":
        """As the settings declare them."""
        pairs = tuple("*".join(pair) for pair in settings.field_pairs)
        return cls(settings.fields, pairs, frozenset(settings.targets if settings.fields else ()))

    @cached_property
    def breakdowns(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(named(FieldTables.empty(self.names, self.pairs)))

    def tables(self, block: Block, probabilities: Floats) -> FieldTables:
        """What the events of a block add up to, whose probabilities, (n,), are these."""
        rows = block.rows.astype(np.int64)
        said = block.fields or {}
        columns = {name: said.get(name) or FieldColumn.missing(len(rows)) for name in self.names}
        events = (probabilities, block.counts, block.positives)
        return FieldTables.from_events(
            FieldColumn(block.campaigns, rows), columns, self.pairs, events
        )


def named(tables: FieldTables) -> dict[str, BinsTable]:
    """The tables by the names of their breakdowns."""
    parts = zip(_KINDS, (tables.fields, tables.pairs, tables.campaigns), strict=True)
    return {f"{kind}:{name}": table for kind, each in parts for name, table in each.items()}


def tables_of(found: Mapping[str, BinsTable]) -> FieldTables:
    """The inverse of `named`."""
    parts: dict[str, dict[str, BinsTable]] = {kind: {} for kind in _KINDS}
    for name, table in found.items():
        kind, _, rest = name.partition(":")
        parts[kind][rest] = table
    return FieldTables(parts[_FIELD], parts[_PAIR], parts[_CAMPAIGN])
