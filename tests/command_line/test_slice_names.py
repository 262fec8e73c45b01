"""Slices are numbered as their names come up, batch after batch."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.datasets.evaluation_log import NAMELESS, HourNumbers, SliceNames
from app.datasets.tables import LogColumn, LogRows, PartRows
from app.errors import CommandError


def column(values: Any, first: int = 0) -> LogColumn:
    return LogRows(PartRows("log"), {"device": pa.array(values)}, first).column("device")


def test_numbers_stay_from_batch_to_batch():
    names = SliceNames(10)

    codes = [names.codes(column(batch)).tolist() for batch in (["b", "a", "b"], ["c", "a"])]

    assert codes == [[0, 1, 0], [2, 1]]
    assert names.names == ["b", "a", "c"]


def test_empty_text_and_null_are_one_slice_or_none():
    values = ["x", "", None]

    assert SliceNames(10).codes(column(values)).tolist() == [0, 1, 1]
    assert SliceNames(10, skip_empty=True).codes(column(values)).tolist() == [0, -1, -1]


def test_the_empty_slice_has_a_name_only_where_it_has_rows():
    names = SliceNames(10)
    names.codes(column(["x"]))
    assert names.names == ["x"]
    names.codes(column([None], 1))
    assert names.names == ["x", NAMELESS]


def test_an_empty_name_that_is_refused_tells_its_row():
    names = SliceNames(10, refused="a device must have a name")

    with pytest.raises(CommandError, match="log, row 103: device = ''; a device must have a name"):
        names.codes(column(["x", "y", ""], first=100))


def test_so_many_names_and_no_more():
    names = SliceNames(2)
    names.codes(column(["a", "b"]))

    with pytest.raises(CommandError, match="more than 2 values, too many to compare"):
        names.codes(column(["c"]))


def test_hours_are_numbered_as_they_come():
    hours = HourNumbers()

    first = hours.codes(np.array([7_200.0, 3_600.0, 10_799.9, 3_600.0]))
    second = hours.codes(np.array([0.0, 7_200.0]))

    assert first.tolist() == [0, 1, 0, 1] or first.tolist() == [1, 0, 1, 0]
    assert [hours.hours[code] for code in first] == [2, 1, 2, 1]
    assert [hours.hours[code] for code in second] == [0, 2]
