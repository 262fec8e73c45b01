"""Calibrators of single campaigns: bounded, and each put or deleted as a whole."""

import pytest

from app.storage.errors import TooManyOverrides
from app.storage.overrides import Overrides


@pytest.fixture
def overrides(redis_client) -> Overrides:
    return Overrides(redis_client)


def test_they_are_read_as_they_were_put_whatever_the_campaign_is_called(overrides):
    overrides.put("click", "a:b", "sir")
    overrides.put("click", "Größe", "pooled")
    overrides.put("view", "a:b", "beta")

    assert overrides.read() == {"click": {"a:b": "sir", "Größe": "pooled"}, "view": {"a:b": "beta"}}


def test_what_was_deleted_is_gone_and_nothing_else(overrides):
    overrides.put("click", "a", "sir")
    overrides.put("view", "a", "sir")

    deleted = [overrides.delete("click", name) for name in ("a", "a", "b")]

    assert deleted == [True, False, False]
    assert overrides.read() == {"view": {"a": "sir"}}


def test_no_more_are_taken_than_the_most_of_all_targets_together(overrides):
    overrides.put("click", "a", "sir", most=2)
    overrides.put("view", "a", "sir", most=2)

    with pytest.raises(TooManyOverrides, match="2 campaigns have calibrators of their own"):
        overrides.put("click", "b", "sir", most=2)

    assert overrides.read() == {"click": {"a": "sir"}, "view": {"a": "sir"}}


def test_one_that_is_there_can_be_changed_when_there_are_the_most(overrides):
    overrides.put("click", "a", "sir", most=1)
    overrides.put("click", "a", "beta", most=1)

    assert overrides.read() == {"click": {"a": "beta"}}
