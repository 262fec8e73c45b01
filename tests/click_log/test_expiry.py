"""Expiry: what is old goes as a whole."""

from tests.click_log.conftest import files
from tests.click_log.rows import DAY, START, click, conversion, known_delays, read_all

MIDNIGHT = START + 16 * 3600.0


def test_hours_that_are_over_go_with_their_conversions(log, root):
    log.write_clicks([click("a"), click("b", 3600.0), click("c", 7200.0)])
    log.write_conversions([conversion("a", 5.0), conversion("c", 7300.0)])

    assert log.expire(START + 7200.0 - 1.0) == 2
    assert log.expire(START + 7200.0) == 1
    assert known_delays(log) == {"c": 100.0}
    assert sorted(path.name for path in (root / "clicks").rglob("hour=*")) == ["hour=10"]


def test_days_that_are_over_leave_no_folder(log, root):
    log.write_clicks([click("a"), click("b", 3600.0), click("c", DAY)])

    assert log.expire(MIDNIGHT) == 2
    assert [path.name for path in (root / "clicks").iterdir()] == ["date=2027-01-16"]


def test_a_day_is_kept_until_its_last_hour_is_over(log, root):
    """Even with nothing in it: another process may be about to write there."""
    log.write_clicks([click("a")])

    assert log.expire(MIDNIGHT - 1.0) == 1
    assert [path.name for path in (root / "clicks").iterdir()] == ["date=2027-01-15"]


def test_damaged_parts_expire_too(log, root):
    log.write_clicks([click("a"), click("b", 3600.0)])
    for path in (root / "clicks").rglob("*.parquet"):
        path.write_bytes(b"damaged")
    assert len(read_all(log)) == 0
    assert log.damaged() == 2

    log.expire(START + 3600.0)
    assert log.damaged() == 1
    log.expire(START + 2 * DAY)
    assert files(root) == []


def test_what_a_crash_left_half_written_expires(log, root):
    log.write_clicks([click("a")])
    part = next((root / "clicks").rglob("*.parquet"))
    part.rename(part.with_name(".half.tmp"))

    assert log.expire(START + DAY) == 1
    assert files(root) == []
