"""Slices are numbered as their names come up, batch after batch."""

import pyarrow as pa

from app.datasets.evaluation_log import SliceNames
from app.datasets.tables import LogColumn, LogRows, PartRows


def column(values: list[str]) -> LogColumn:
    return LogRows(PartRows("log"), {"device": pa.array(values)}, 0).column("device")


def test_numbers_stay_from_batch_to_batch():
    names = SliceNames(10)

    codes = [names.codes(column(batch)).tolist() for batch in (["b", "a", "b"], ["c", "a"])]

    assert codes == [[0, 1, 0], [2, 1]]
    assert names.names == ["b", "a", "c"]
