"""Many names at once are judged as each of them is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events.schema import check_campaign
from app.strict_json import ValidationError, all_fit

LONGEST = 12
NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=14), max_size=4)


def is_campaign(name: str) -> bool:
    try:
        check_campaign("campaign", name, LONGEST)
    except ValidationError:
        return False
    return True


@given(names=NAMES)
def test_names_all_fit_if_each_is_one(names):
    assert all_fit(names, LONGEST) == all(map(is_campaign, names))


@pytest.mark.parametrize(
    ("name", "fits"),
    [("", False), ("a" * 12, True), ("a" * 13, False), ("é" * 6, True), ("é" * 7, False)],
)
def test_bytes_count_not_characters(name, fits):
    assert is_campaign(name) == all_fit([name], LONGEST) == fits
