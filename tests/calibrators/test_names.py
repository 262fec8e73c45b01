"""Campaign names as bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.bins.codecs import (
    SEPARATOR,
    even_spans,
    numbered,
    pack_column,
    pack_names,
    unpack_names,
)
from tests.calibrators.strategies import names


@given(st.lists(names), st.binary(max_size=3))
def test_names_come_back_from_any_place(listed, before):
    data = before + pack_names(listed)

    assert unpack_names(memoryview(data + b"x"), len(before), len(listed)) == (
        tuple(listed),
        len(data),
    )


@given(st.lists(st.sampled_from(["a", "b", "spring sale", "été", "广告", ""])))
def test_numbers_of_names_say_which_of_the_distinct_ones_stands_where(listed):
    encoded = [name.encode() for name in listed]

    distinct, numbers = numbered(np.array([len(name) for name in encoded], int), b"".join(encoded))

    assert distinct == tuple(dict.fromkeys(listed))
    assert [distinct[number] for number in numbers.tolist()] == listed


def test_numbers_of_names_that_are_not_utf_8_are_refused():
    with pytest.raises(ValueError, match="utf-8"):
        numbered(np.array([1, 1]), b"a\xff")


@pytest.mark.parametrize(
    "lengths",
    [
        [4],
        [2**63 - 1],
        # Together they wrap around to a small number.
        [2**63 - 1, 2**63 - 1, 4],
        [2**62, 2**62, 2**62, 2**62],
    ],
)
def test_lengths_beyond_the_bytes_are_refused(lengths):
    data = pack_column(np.array(lengths, np.int64)) + b"abc"

    with pytest.raises(ValueError, match="names at byte 0"):
        unpack_names(memoryview(data), 0, len(lengths))


def test_bytes_that_are_not_utf_8_are_refused():
    with pytest.raises(ValueError, match="utf-8"):
        unpack_names(memoryview(b"\x01\x00\x01\xff"), 0, 1)


def test_a_name_without_utf_8_form_is_refused():
    with pytest.raises(ValueError, match="utf-8"):
        pack_names(["\ud800"])


# What sorts between a campaign and its versions may have to stay with them; those are tested in
# test_model_versions.py.
TEXTS = st.text(st.characters(min_codepoint=ord(SEPARATOR) + 1), max_size=3)


@given(names=st.sets(TEXTS).map(sorted), most=st.integers(1, 5))
def test_spans_hold_every_name_once_and_differ_by_one_at_most(names, most):
    spans = even_spans(names, most)
    held = [
        [name for name in names if name >= first and (behind is None or name < behind)]
        for first, behind in spans
    ]
    sizes = [len(span) for span in held]
    assert [name for span in held for name in span] == names
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(spans) == -(-len(names) // most)
