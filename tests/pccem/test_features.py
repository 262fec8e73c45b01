import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import Categorical, Features
from pccem.arrays import check_rows

names = st.sampled_from(["a", "b", "c", "é", ""])
values = st.lists(st.none() | names, max_size=12)


def as_lists(features: Features) -> dict[str, list[object]]:
    """Every column by value, missing ones as None."""
    listed: dict[str, list[object]] = {}
    for name, column in features.columns.items():
        if isinstance(column, Categorical):
            listed[name] = list(column.values())
        else:
            listed[name] = [None if np.isnan(value) else value for value in column]
    return listed


@given(values)
def test_a_category_keeps_its_name(given_values):
    column = Categorical.of(given_values)

    assert column.values() == given_values
    assert len(column) == len(given_values)


@given(values, st.lists(names, unique=True))
def test_codes_among_other_categories_go_by_name(given_values, others):
    codes = Categorical.of(given_values).codes_among(others)

    expected = [others.index(value) if value in others else -1 for value in given_values]
    assert codes.tolist() == expected
    assert codes.dtype == np.int32


@given(st.lists(values, max_size=4))
def test_concatenated_categories_are_the_concatenated_values(parts):
    joined = Features.concatenate(
        Features({"feature.x": Categorical.of(part)}, len(part)) for part in parts
    )

    assert as_lists(joined).get("feature.x", []) == [value for part in parts for value in part]


def test_a_column_that_a_part_lacks_is_missing_there():
    first = Features({"n": np.array([1.0, np.nan]), "c": Categorical.of(["x", "y"])}, 2)
    second = Features({"m": np.array([2.0])}, 1)

    joined = Features.concatenate([first, second, Features({}, 1)])

    assert as_lists(joined) == {
        "n": [1.0, None, None, None],
        "c": ["x", "y", None, None],
        "m": [None, None, 2.0, None],
    }
    assert len(joined) == 4
    assert joined.kinds == {"n": "numeric", "c": "categorical", "m": "numeric"}


def test_a_name_of_two_kinds_is_refused():
    parts = [
        Features({"feature.x": np.array([1.0])}, 1),
        Features({"feature.x": Categorical.of(["1"])}, 1),
    ]

    with pytest.raises(ValueError, match=r"feature\.x is numeric in one part and categorical in"):
        Features.concatenate(parts)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (np.array([True, False, True]), ["x", None]),
        (np.array([2, 2, 0]), [None, None, "x"]),
        (slice(1, None), ["y", None]),
        (np.array([], np.int64), []),
    ],
)
def test_select_takes_masks_indices_and_slices(index, expected):
    features = Features({"c": Categorical.of(["x", "y", None]), "n": np.arange(3.0)}, 3)

    chosen = features.select(index)  # type: ignore[arg-type]

    assert as_lists(chosen)["c"] == expected
    assert len(chosen) == len(expected)
    assert len(Features({}, 3).select(index)) == len(expected)  # type: ignore[arg-type]


def test_without_leaves_columns_out():
    features = Features({"a": np.zeros(1), "b": np.zeros(1)}, 1)

    assert list(features.without({"a", "never there"}).columns) == ["b"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.array([1.0, np.inf]), r"feature x\[1\] = inf: every value must be finite, or nan"),
        (np.array([1.0]), "feature x has 1 rows, must have 2"),
        (np.array(["a", "b"]), "feature x must be numbers, not <U1"),
        (np.zeros((2, 1)), "feature x must have one dimension, not 2"),
        (Categorical.of(["a"]), "feature x has 1 rows, must have 2"),
    ],
)
def test_a_bad_column_is_named(column, message):
    with pytest.raises(ValueError, match=message):
        Features({"x": column}, 2)


@pytest.mark.parametrize(
    ("codes", "categories", "message"),
    [
        ([0, 2], ("a", "b"), r"codes\[1\] = 2: every value must be in \[-1, 2\)"),
        ([-2], ("a",), r"codes\[0\] = -2"),
        ([0.0], ("a",), "codes must be integers, not float64"),
        ([[0]], ("a",), "codes must have one dimension, not 2"),
        ([0], ("a", "b", "a"), "category 'a' stands twice"),
    ],
)
def test_a_bad_category_is_named(codes, categories, message):
    with pytest.raises(ValueError, match=message):
        Categorical(np.array(codes), categories)


def test_rows_may_come_in_any_integer_type():
    assert check_rows("rows", np.array([0, 1], np.int64), 0, 2).dtype == np.int32
    assert check_rows("rows", [], 0, 0).tolist() == []
