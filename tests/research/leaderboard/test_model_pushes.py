"""Alarms of model pushes: none where there was no push, and one soon after there was one."""

from research.leaderboard.model_pushes import row


def test_a_push_is_found_where_there_is_one():
    found = row((100, 30, "own"), 1)

    assert found["hours"] == 47
    assert found["alarms"] == found["alarms in them"] == 0
    assert 0 < found["minutes, median"] == found["minutes, 9 of 10"] < 60
