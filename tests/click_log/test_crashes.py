"""Whatever step the process ends at, no row is lost and none counts twice."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.click_log.log import ClickLog
from tests.click_log.conftest import files
from tests.click_log.doomed_writer import MOMENTS, write_batches
from tests.click_log.interrupted_folder import Died, InterruptedFolder
from tests.click_log.rows import (
    DAY,
    START,
    TARGET,
    WINDOW,
    click,
    conversion,
    known_delays,
    part_rows,
)

Work = Callable[[ClickLog], object]

ROOT = Path(__file__).parents[2]
LATER = START + 30 * DAY
EXPECTED = {"a": 5.0, "b": None, "c": 7.0, "d": None, "e": 3600.0}


def fill(log: ClickLog) -> None:
    """Three parts in one hour, one in the next, and conversions in two parts of one hour."""
    log.write_clicks([click("a", 0.0), click("b", 10.0)])
    log.write_clicks([click("b", 10.0), click("c", 20.0)])
    log.write_clicks([click("d", 30.0), click("e", 3600.0)])
    log.write_conversions([conversion("a", 5.0), conversion("c", 27.0)])
    log.write_conversions([conversion("c", 27.0), conversion("e", 7200.0)])


def settle(log: ClickLog) -> object:
    return log.finalise({TARGET: WINDOW}, LATER)


def compact(log: ClickLog) -> object:
    return log.compact(LATER)


def settle_again(log: ClickLog) -> object:
    """For another target too, which rewrites every settled hour."""
    return log.finalise({TARGET: WINDOW, "install": WINDOW}, LATER)


def in_turn(*works: Work) -> Work:
    return lambda log: [work(log) for work in works]


@pytest.mark.parametrize(
    ("work", "changes"),
    [
        pytest.param(compact, 7, id="compact"),
        pytest.param(settle, 6, id="settle"),
        pytest.param(in_turn(compact, settle), 11, id="compact, then settle"),
        pytest.param(in_turn(settle, settle_again), 10, id="settle, then for two targets"),
    ],
)
def test_work_that_ends_before_any_of_its_changes(root, work, changes):
    """After each crash the log tells the same, and the work done again is done for good."""
    for survived in range(changes):
        here = root / str(survived)
        log = ClickLog.open(str(here))
        fill(log)
        folder = InterruptedFolder.open(str(here))
        folder.changes = survived
        with pytest.raises(Died):
            work(ClickLog(folder))

        assert known_delays(log) == EXPECTED
        work(log)
        assert known_delays(log) == EXPECTED
        assert sum(part_rows(log, "clicks")) == 5


@pytest.mark.parametrize("work", [compact, settle])
def test_rows_that_come_between_reading_and_replacing_stay(log, monkeypatch, work):
    """A part that is written meanwhile is none of those that are deleted."""
    fill(log)
    merge = "app.click_log.parts.PartStore.replace"
    replace = log._store.replace

    def late(*arguments: object) -> None:
        monkeypatch.undo()
        log.write_clicks([click("late", 15.0)])
        replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(merge, lambda _, *arguments: late(*arguments))
    work(log)

    assert known_delays(log) == {"a": 5.0, "b": None, "late": None, **EXPECTED}


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [(compact, EXPECTED), (lambda log: log.expire(LATER), {})],
    ids=["a compaction", "the expiry"],
)
def test_a_reader_reads_what_is_left_of_parts_that_go_meanwhile(
    log, monkeypatch, meanwhile, expected
):
    """Listed parts that are gone when they are opened are looked for again."""
    fill(log)
    list_days = log._store.list_days

    def list_before(*arguments: object) -> object:
        listing = list_days(*arguments)  # type: ignore[arg-type]
        monkeypatch.undo()
        meanwhile(log)
        return listing

    monkeypatch.setattr(log._store, "list_days", list_before)

    assert known_delays(log) == expected


@pytest.mark.slow
def test_kill_9_of_a_writer(root):
    """What was acknowledged is there, nothing is damaged, and a repeat counts once."""
    root.mkdir()
    deaths = subprocess.run(
        [sys.executable, "-m", "tests.click_log.doomed_writer", str(root)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert deaths.returncode == 0, deaths.stderr

    for moment in MOMENTS:
        log = ClickLog.open(str(root / moment.name))
        acknowledged = moment.acknowledged_in(root)
        assert acknowledged == moment.acknowledged
        assert log.damaged() == 0
        assert set(known_delays(log)) >= {str(n) for n in range(acknowledged and acknowledged + 1)}
        write_batches(log)
        assert set(known_delays(log)) == {"0", "1", "2", "3"}
        parts = [name for name in files(root / moment.name) if not name.endswith(".tmp")]
        assert len(parts) == 3
