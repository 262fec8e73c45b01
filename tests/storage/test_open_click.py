"""An open click's hash: what is written is what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.clicks import OpenClick, behaviour_field, click_fields, click_of
from app.storage.keys import seal

numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
words = st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True)


def stored(click: OpenClick) -> list[bytes]:
    """Fields and values of the hash, as Redis answers them."""
    flat = click_fields(click, repr(click.clicked_at))
    for name, at, value in click.behaviours:
        field = behaviour_field(name, repr(at))
        flat += (field, seal(repr(value), click.click_id + field))
    return [text.encode() for text in flat]


def in_order(click: OpenClick) -> OpenClick:
    behaviours = {(at, name): (name, at, value) for name, at, value in click.behaviours}
    return OpenClick(
        click.click_id,
        click.campaign,
        click.clicked_at,
        click.scores,
        click.features,
        [behaviours[place] for place in sorted(behaviours)],
        bucket=click.bucket,
    )


@given(
    st.builds(
        OpenClick,
        st.text(),
        names,
        numbers,
        st.dictionaries(words, numbers),
        st.dictionaries(names, numbers | names),
        st.lists(st.tuples(words, numbers, numbers), unique_by=lambda done: done[:2]),
        bucket=st.none() | st.integers(0, 4095),
    )
)
def test_whatever_names_and_values_are_they_are_read_back(click):
    """Names of features are free: they may look like marks of other fields."""
    assert click_of(click.click_id, stored(click)) == in_order(click)


def test_the_mark_of_open_clicks_is_no_part_of_them():
    click = OpenClick("1", "a", 5.0, {"conversion": 0.5}, {"n:x": 1.0, "at": "y"})

    assert click_of("1", [*stored(click), b"open", b"1"]) == click


@pytest.mark.parametrize(
    "flat",
    [
        [],
        [b"b:5.0:page_views", b"1.0"],
        [b"campaign", b"a"],
        [b"campaign", b"a", b"at", b"noon"],
        [b"campaign", b"a", b"at", b"5.0", b"p:conversion", b"high"],
        [b"campaign", b"a", b"at", b"5.0", b"t:bucket", b"4096"],
        [b"campaign", b"a", b"at", b"5.0", b"b:soon:page_views", b"1.0"],
        [b"campaign", b"\xff", b"at", b"5.0"],
        [b"campaign", b"a", b"at"],
    ],
)
def test_what_is_no_click_is_refused(flat):
    with pytest.raises(ValueError):  # noqa: PT011 - of any kind: it is logged as it is
        click_of("1", flat)
