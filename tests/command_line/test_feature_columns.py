import numpy as np
import pyarrow as pa
import pytest

from app.datasets.behaviours import FeatureColumn, parsed
from app.datasets.tables import LogRows, PartRows
from app.errors import CommandError
from pccem import Categorical

NAMES = ["a", "b", "a+b", "c=d"]


def parse(text: str) -> FeatureColumn:
    return FeatureColumn.parse("behaviour", text, NAMES, "log.csv")


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("a", "a", ("a",)),
        ("time=a", "time", ("a",)),
        ("both=b+a", "both", ("b", "a")),
        ("a+b", "a+b", ("a+b",)),
        ("both=a+b", "both", ("a+b",)),
        ("c=d", "c=d", ("c=d",)),
    ],
)
def test_a_name_a_renamed_column_or_a_sum(text, name, columns):
    assert parse(text) == FeatureColumn(name, columns)


@pytest.mark.parametrize(
    ("text", "missing"), [("x", "'x'"), ("s=a+x", "'x'"), ("s=", "''"), ("=a", "''")]
)
def test_an_unknown_column_lists_those_that_exist(text, missing):
    with pytest.raises(CommandError) as refused:
        parse(text)

    assert f"--behaviour {text!r}: log.csv has no column {missing}" in str(refused.value)
    assert "It has: a, b, a+b, c=d" in str(refused.value)


def test_a_name_stands_once():
    with pytest.raises(CommandError, match="--behaviour 'a' is given 2 times"):
        parsed("behaviour", ["a", "a=b"], NAMES, "log.csv")


def read(feature: FeatureColumn, **columns: object) -> object:
    table = pa.table(columns)
    rows = LogRows(PartRows("log.csv"), {name: table.column(name) for name in table.column_names})
    return feature.read(rows)


def test_a_sum_lacks_what_one_of_its_columns_lacks():
    total = read(FeatureColumn("s", ("a", "b")), a=[1, 2, None], b=[0.5, None, 1.0])

    np.testing.assert_array_equal(total, [1.5, np.nan, np.nan])


@pytest.mark.parametrize("values", [[True, None], pa.array([None, None]), [2, 3]])
def test_what_counts_as_numbers(values):
    column = read(FeatureColumn("a", ("a",)), a=values)

    assert isinstance(column, np.ndarray)
    assert column.dtype == np.float64


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_a_whole_number_above_the_doubles_is_the_nearest(kind):
    """As the service reads one of an event."""
    numbers = read(FeatureColumn("s", ("s",)), s=pa.array([2**62 + 1, None], kind))

    np.testing.assert_array_equal(numbers, [float(2**62 + 1), np.nan])


def test_text_is_categories_and_empty_text_is_missing():
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        values = pa.array(["x", "", None, "y", "x"], pa.string()).cast(kind)
        column = read(FeatureColumn("a", ("a",)), a=values)

        assert isinstance(column, Categorical)
        assert column.values() == ["x", None, None, "y", "x"]


@pytest.mark.parametrize(
    ("columns", "values", "expected"),
    [
        (("a",), [1.0, np.inf], "log.csv, row 2: a = inf; a number is finite"),
        (("a", "a"), ["x", "y"], "column 'a' holds string, not numbers"),
        (("a",), pa.array([0, 1], pa.timestamp("s")), r"column 'a' holds timestamp\[s\]"),
    ],
)
def test_what_is_neither_is_refused(columns, values, expected):
    with pytest.raises(CommandError, match=expected):
        read(FeatureColumn("s", columns), a=values)
