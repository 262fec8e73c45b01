"""The campaigns of a binary body: names that it brings, or interned ids, the numbers that stand for
names in a list that both sides know; and its fields: of each its values, and which a row has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.columns.layout import ONE_CAMPAIGN, U4, Header, Sections
from app.events.schema import unknown_field
from app.strict_json import ValidationError
from calibrators import Atlas
from calibrators.bins.codecs import pack_names
from calibrators.fields.sums import FieldColumn
from calibrators.names import PackedTexts, compiled
from calibrators.samples import Integers

Ids = NDArray[np.uint32]

_NO_NAMES: Final[Sequence[str]] = ()


def read_target(sections: Sections, header: Header) -> str:
    """The target; ValidationError if it is not UTF-8."""
    try:
        return sections.text("target", header.target_bytes).decode()
    except UnicodeDecodeError:
        raise ValidationError("target", "must be UTF-8") from None


def read_campaigns(sections: Sections, header: Header) -> tuple[Sequence[str], Ids]:
    """The names that the body brings, and the numbers of its campaigns: an index of a name each,
    or an interned id; shape (n,), or (1,) if one is for all rows.

    Raises ValidationError, also for an index beyond the names; ids are left to who knows the list.
    """
    names = _read_names(sections, header) if header.names or header.names_bytes else _NO_NAMES
    one = header.flags & ONE_CAMPAIGN
    numbers = sections.column("campaigns", U4, 1 if one else header.rows)
    return names, numbers


def check_indices(numbers: Ids, names: int, field: str = "campaigns") -> None:
    """ValidationError unless every number is the index of a name."""
    if int(numbers.max()) >= names:
        place = int(np.argmax(numbers >= names))
        rule = f"must be the index of one of the {names} names"
        raise ValidationError(f"{field}[{place}]", rule, int(numbers[place]))


def read_ends(sections: Sections, field: str, count: int) -> list[int]:
    """Where each of the texts that stand end to end ends, from the column of their lengths."""
    return list(accumulate(sections.column(field, U4, count).tolist()))


def split_texts(ends: Sequence[int], text: bytes, field: str) -> list[str]:
    """The texts that stand end to end; ValidationError names the one that is not UTF-8."""
    spans = zip([0, *ends], ends, strict=False)
    if text.isascii():
        # Bytes are characters then: decoding once costs less than decoding each.
        characters = text.decode("ascii")
        return [characters[start:end] for start, end in spans]
    return [_decoded(text[start:end], field, place) for place, (start, end) in enumerate(spans)]


def _read_names(sections: Sections, header: Header) -> Sequence[str]:
    lengths = sections.column("names", U4, header.names)
    text = sections.text("names", header.names_bytes)
    if (total := int(lengths.sum(dtype=np.uint64))) != len(text):
        rule = f"must be the sum of the names' lengths, {total}"
        raise ValidationError("columns.names_bytes", rule, len(text))
    if compiled and text.isascii():
        return PackedTexts(text, lengths)
    return split_texts([*accumulate(lengths.tolist())], text, "names")


def _decoded(text: bytes, field: str, place: int) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ValidationError(f"{field}[{place}]", "must be UTF-8") from None


def read_fields(
    sections: Sections, rows: int, declared: Sequence[str] | None = None
) -> dict[str, FieldColumn]:
    """The section of the flag FIELDS, of that many rows, by name of the field; any text may be a
    value, and "" says nothing.

    Raises ValidationError for what is not whole, and for a field that is not declared where it is
    said which are.
    """
    count = _read_number(sections, "fields")
    found: dict[str, FieldColumn] = {}
    for _ in range(count):
        size = _read_number(sections, "fields.name")
        name = split_texts([size], sections.text("fields.name", size), "fields.name")[0]
        if name in found:
            raise ValidationError(f"fields.{name}", "stands there twice")
        if declared is not None and name not in declared:
            raise ValidationError(f"fields.{name}", unknown_field(declared))
        found[name] = _read_column(sections, f"fields.{name}", rows)
    return found


def _read_number(sections: Sections, field: str) -> int:
    return int.from_bytes(sections.text(field, 4), "little")


def _read_column(sections: Sections, field: str, rows: int) -> FieldColumn:
    sizes = sections.text(field, 8)
    count, size = int.from_bytes(sizes[:4], "little"), int.from_bytes(sizes[4:], "little")
    ends = read_ends(sections, field, count)
    if (total := ends[-1] if ends else 0) != size:
        raise ValidationError(field, f"needs the sum of its values' lengths, {total}", size)
    values = split_texts(ends, sections.text(field, size), field)
    numbers = sections.column(field, U4, rows)
    check_indices(numbers, count, field)
    codes: Integers = numbers.astype(np.int64)
    distinct = {value: place for place, value in enumerate(dict.fromkeys(values))}
    if len(distinct) < count:
        codes = np.array([distinct[value] for value in values], np.int64)[codes]
    return FieldColumn(tuple(distinct), codes)


Rows = NDArray[np.int64]

FORMER_KEPT: Final = 3
"""Lists before the one in force that are still understood: three refits for a caller to notice."""

_DIGEST_BYTES: Final = 8
_PIECE: Final = 4096


class UnknownDictionary(ValueError):
    """The ids are of a list that this process does not know, or knows no more; `in_force` is the
    digest of the list that it knows."""

    def __init__(self, dictionary: int, in_force: int) -> None:
        super().__init__(f"dictionary = {dictionary:016x}: not known, or no longer")
        self.in_force = in_force


@dataclass(frozen=True, slots=True)
class _Former:
    """A list that was in force: its campaigns, and their rows now by id, shape (m + 1,)."""

    campaigns: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class CampaignIds:
    """The ids of one target's campaigns: id i + 1 is campaigns[i], which is its row in the atlas
    too; id 0 is any campaign without a map of its own.

    `dictionary` is the digest of the list, so all processes that serve the same campaigns agree on
    it without asking each other.

    >>> ids = CampaignIds.of(Atlas.empty())
    >>> ids.rows(ids.dictionary, np.array([0, 0], np.uint32))
    array([0, 0])
    """

    campaigns: tuple[str, ...]
    dictionary: int
    former: dict[int, _Former]
    has_groups: bool

    @classmethod
    def of(cls, atlas: Atlas, before: Self | None = None) -> Self:
        """The ids of the atlas; those of `before` and the last few before it stay understood."""
        grouped = atlas.has_groups or (before is not None and before.has_groups)
        if before is not None and before.campaigns == atlas.campaigns and not grouped:
            return before
        dictionary = _digest(atlas.campaigns)
        earlier = {} if before is None else before._lists()
        earlier.pop(dictionary, None)
        former = {
            number: _Former(campaigns, _rows_now(atlas, campaigns))
            for number, campaigns in islice(earlier.items(), FORMER_KEPT)
        }
        return cls(atlas.campaigns, dictionary, former, atlas.has_groups)

    def rows(self, dictionary: int, ids: Ids) -> Rows:
        """The row of each id in the atlas in force, shape (n,).

        Raises UnknownDictionary for a list that is not known. An id beyond the list raises
        IndexError, here or in the look-up by its row: then ask `check`.
        """
        if dictionary == self.dictionary:
            if self.has_groups:
                # Behind the rows of the list are those of groups: nothing else would refuse them.
                _check(ids, len(self.campaigns))
            return ids.astype(np.int64)
        return self._former(dictionary).rows[ids]

    def check(self, dictionary: int, ids: Ids) -> None:
        """Raises ValidationError for an id beyond the list, UnknownDictionary for another list."""
        _check(ids, len(self._campaigns_of(dictionary)))

    def names(self, dictionary: int, ids: Ids) -> tuple[list[str], NDArray[np.intp]]:
        """The distinct campaigns of the ids, "" for id 0, and the place of each id's in them, (n,).

        Raises as `check` does.
        """
        campaigns = self._campaigns_of(dictionary)
        _check(ids, len(campaigns))
        distinct, places = np.unique(ids, return_inverse=True)
        return [campaigns[number - 1] if number else "" for number in distinct.tolist()], places

    def _campaigns_of(self, dictionary: int) -> tuple[str, ...]:
        in_force = dictionary == self.dictionary
        return self.campaigns if in_force else self._former(dictionary).campaigns

    def _former(self, dictionary: int) -> _Former:
        found = self.former.get(dictionary)
        if found is None:
            raise UnknownDictionary(dictionary, self.dictionary)
        return found

    def _lists(self) -> dict[int, tuple[str, ...]]:
        """The list in force and those before it, newest first."""
        earlier = {number: list_.campaigns for number, list_ in self.former.items()}
        return {self.dictionary: self.campaigns, **earlier}


def _rows_now(atlas: Atlas, campaigns: tuple[str, ...]) -> Rows:
    # In pieces, because nobody else gets a turn while numpy walks over names.
    pieces = range(0, len(campaigns), _PIECE)
    found = [atlas.rows(campaigns[start : start + _PIECE]) for start in pieces]
    return np.concatenate([np.zeros(1, np.int64), *found])


def _digest(campaigns: tuple[str, ...]) -> int:
    packed = blake2b(pack_names(campaigns), digest_size=_DIGEST_BYTES).digest()
    # 0 says "no dictionary" in a header.
    return int.from_bytes(packed, "little") or 1


def _check(ids: Ids, largest: int) -> None:
    if np.maximum.reduce(ids, initial=0) > largest:
        place = int(np.argmax(ids > largest))
        rule = f"must be an id of the list, 0 to {largest}"
        raise ValidationError(f"campaigns[{place}]", rule, int(ids[place]))
