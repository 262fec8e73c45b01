"""The fields of a binary body: for each of them its values, and which of them each row has."""

from collections.abc import Sequence

import numpy as np

from app.columns.campaigns import check_indices, read_ends, split_texts
from app.columns.layout import U4, Sections
from app.events.schema import unknown_field
from app.strict_json import ValidationError
from calibrators.fields.sums import FieldColumn
from calibrators.samples import Integers


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
