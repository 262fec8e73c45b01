"""Compaction: many parts become one, and readers see no difference."""

from pathlib import Path

from tests.click_log.conftest import files
from tests.click_log.rows import (
    DAY,
    START,
    TARGET,
    WINDOW,
    click,
    contents,
    conversion,
    known_delays,
    part_rows,
    read_all,
)


def names(root: Path, dataset: str = "clicks") -> list[str]:
    """Hour and kind of each part."""
    paths = (Path(name) for name in files(root / dataset))
    return [f"{path.parent.name[-2:]} {path.name.partition('-')[0]}" for path in paths]


def test_hours_that_are_over_with_more_than_one_part_are_compacted(log, root):
    log.write_clicks([click("a", 5.0), click("c", 3600.0), click("d", 7200.0)])
    log.write_clicks([click("b", 1.0, features={"size": 1.0}), click("e", 7201.0)])
    before = contents(read_all(log))

    assert log.compact(START + 7200.0) == 1
    assert names(root) == ["08 compact", "09 part", "10 part", "10 part"]
    assert contents(read_all(log)) == before
    assert log.compact(START + 7200.0) == 0
    assert log.compact(START + 3 * 3600.0 - 1.0) == 0
    assert log.compact(START + 3 * 3600.0) == 1


def test_rows_that_stand_twice_go(log):
    log.write_clicks([click("a", 5.0), click("b", 6.0)])
    log.write_clicks([click("a", 5.0), click("b", 4.0, campaign="hats")])
    log.write_conversions([conversion("a", 9.0), conversion("b", 9.0)])
    log.write_conversions([conversion("a", 9.0), conversion("a", 9.0, "install")])
    assert log.compact(START + DAY) == 2

    assert (part_rows(log, "clicks"), part_rows(log, "conversions")) == ([2], [3])
    assert [row["campaign"] for row in contents(read_all(log))] == ["hats", "shoes"]


def test_what_comes_later_is_compacted_again(log, root):
    for number in range(3):
        log.write_clicks([click(f"{number}", 10.0 - number)])
        log.compact(START + DAY)

    assert names(root) == ["08 compact"]
    assert read_all(log).click_ids.to_pylist() == ["2", "1", "0"]


def test_settled_hours_are_left_to_the_settling(log, root):
    log.write_clicks([click("a")])
    log.finalise({TARGET: WINDOW}, START + 8 * DAY)
    log.write_clicks([click("b", 1.0)])

    assert log.compact(START + 8 * DAY) == 0
    assert names(root) == ["08 part", "08 settled"]


def test_settling_waits_for_the_attribution_window_of_the_last_click(log, root):
    log.write_clicks([click("a"), click("b", 3600.0)])

    assert log.finalise({TARGET: WINDOW}, START + 3600.0 + WINDOW - 1.0) == 0
    assert log.finalise({TARGET: WINDOW}, START + 3600.0 + WINDOW) == 1
    assert log.finalise({TARGET: WINDOW}, START + 3600.0 + WINDOW) == 0
    assert names(root) == ["08 settled", "09 part"]


def test_each_target_is_settled_in_its_own_time(log, root):
    """And again when its window is another one."""
    log.write_clicks([click("a", scores={TARGET: 0.5, "install": 0.5})])
    log.write_conversions([conversion("a", 7200.0), conversion("a", 1800.0, "install")])
    windows = {"install": 3600.0, TARGET: DAY}

    assert log.finalise(windows, START + 7200.0) == 1
    assert len(read_all(log, "install").final) == 1
    assert len(read_all(log).final) == 0
    assert log.finalise(windows, START + 2 * DAY) == 1
    assert len(read_all(log).final) == 1
    assert log.finalise(windows, START + 2 * DAY) == 0
    assert log.finalise({**windows, TARGET: 7200.0}, START + 2 * DAY) == 1
    assert len(read_all(log).final) == 0
    assert log.finalise({**windows, TARGET: DAY}, START + 2 * DAY) == 1
    assert known_delays(log) == {"a": 7200.0}
    assert names(root) == ["08 settled"]


def test_late_clicks_are_settled_the_next_time(log, root):
    log.write_clicks([click("a")])
    log.write_conversions([conversion("a", 60.0), conversion("b", 60.0)])
    log.finalise({TARGET: WINDOW}, START + 8 * DAY)
    log.write_clicks([click("b", 1.0)])

    assert log.finalise({TARGET: WINDOW}, START + 8 * DAY) == 1
    assert names(root) == ["08 settled"]
    assert len(read_all(log).final) == 2


def test_settling_again_forgets_no_conversion(log, root):
    """Not even one that only the settled rows still know."""
    log.write_clicks([click("a")])
    log.write_conversions([conversion("a", 60.0)])
    log.finalise({TARGET: WINDOW}, START + 8 * DAY)
    log.write_clicks([click("b", 1.0)])
    for part in (root / "conversions").rglob("*.parquet"):
        part.unlink()
    log.finalise({TARGET: WINDOW}, START + 8 * DAY)

    assert names(root) == ["08 settled"]
    assert known_delays(log) == {"a": 60.0, "b": None}


def test_hours_far_apart_are_settled_in_one_go(log):
    hours = (0, 1, 23, 24, 60)
    log.write_clicks([click(f"{hour}", hour * 3600.0) for hour in hours])
    log.write_conversions([conversion(f"{hour}", hour * 3600.0 + 6 * DAY) for hour in hours])

    assert log.finalise({TARGET: WINDOW}, START + 30 * DAY) == 5
    assert known_delays(log, hours=61) == {f"{hour}": 6 * DAY for hour in hours}
    assert len(read_all(log, hours=61).final) == 5
