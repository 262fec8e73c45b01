"""A damaged part goes into quarantine and is counted; the rest goes on."""

from pathlib import Path

import pyarrow as pa
import pytest

from app.click_log.folder import ClickLogError
from app.click_log.log import ClickLog
from app.click_log.parts import PART, Part, Partition, encode_part
from tests.click_log.conftest import files
from tests.click_log.rows import DAY, HOUR, START, TARGET, WINDOW, click, conversion, known_delays

LATER = START + 30 * DAY


def part_with(root: Path, dataset: str, name: str) -> Path:
    """The part that holds an id (ids of the tests are not compressed away)."""
    return next(p for p in (root / dataset).rglob("*.parquet") if name.encode() in p.read_bytes())


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.fixture
def filled(log) -> ClickLog:
    """Two hours, two parts of clicks in the first, two parts of conversions."""
    log.write_clicks([click("first-click", 0.0), click("next-hour", 3600.0)])
    log.write_clicks([click("second-click", 10.0)])
    log.write_conversions([conversion("first-click", 5.0), conversion("next-hour", 3600.0)])
    return log


@pytest.mark.parametrize("place", [0, 100, -1])
@pytest.mark.parametrize(
    "work",
    [
        lambda log: None,
        lambda log: log.compact(LATER),
        lambda log: log.finalise({TARGET: WINDOW}, LATER),
    ],
    ids=["read", "compact", "settle"],
)
def test_one_changed_byte(filled, root, place, work, caplog):
    damaged = part_with(root, "clicks", "first-click")
    flip(damaged, place)
    assert callable(work)
    work(filled)

    assert known_delays(filled) == {"second-click": None, "next-hour": 0.0}
    assert filled.damaged() == 1
    assert files(root / "quarantine") == [str(damaged.relative_to(root))]
    assert f"{damaged.relative_to(root)} is damaged" in caplog.text


def test_a_part_cut_short_is_counted_once(filled, root):
    damaged = part_with(root, "conversions", "first-click")
    damaged.write_bytes(damaged.read_bytes()[:-100])

    for _ in range(2):
        assert known_delays(filled) == {"first-click": None, "second-click": None, "next-hour": 0.0}
        assert filled.damaged() == 1


def test_an_hour_whose_every_part_is_damaged_is_empty(filled, root):
    for name in ("first-click", "second-click"):
        part_with(root, "clicks", name).write_bytes(b"")

    assert filled.compact(LATER) == 1
    assert known_delays(filled) == {"next-hour": 0.0}
    assert filled.damaged() == 2


def test_an_hour_whose_only_part_is_damaged_is_not_settled(filled, root):
    part_with(root, "clicks", "next-hour").write_bytes(b"")
    filled.finalise({TARGET: WINDOW}, LATER)

    assert known_delays(filled) == {"first-click": 5.0, "second-click": None}


def test_writing_again_mends(filled, root):
    """A part is named by what it should hold: written again, it is whole."""
    flip(part_with(root, "clicks", "second-click"), 50)
    filled.write_clicks([click("second-click", 10.0)])

    assert set(known_delays(filled)) == {"first-click", "second-click", "next-hour"}
    assert filled.damaged() == 0


FULL = pa.table(
    {"click_id": pa.array(["x"], pa.large_string()), "campaign": ["c"], "clicked_at": [START]}
)


def shelve(root: Path, data: bytes, rows: int = 1) -> None:
    """Put these bytes where a part would be, under their right name."""
    path = root / Part.of(Partition("clicks", HOUR), PART, data, rows).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def parquet(schema_version: str | None) -> bytes:
    metadata = schema_version and {"sirocco.schema_version": schema_version}
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(FULL.replace_schema_metadata(metadata or None), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"PAR1" + bytes(100) + b"PAR1", id="no footer"),
        pytest.param(encode_part(FULL.drop_columns(["campaign"])), id="no campaign"),
        pytest.param(encode_part(FULL.append_column("extra", [[1.0]])), id="unknown column"),
        pytest.param(encode_part(FULL.append_column("score.x", [["a"]])), id="a score of text"),
        pytest.param(encode_part(FULL.append_column("feature.x", [[1]])), id="a whole number"),
        pytest.param(encode_part(pa.concat_tables([FULL, FULL])), id="more rows than named"),
        pytest.param(parquet(None), id="of someone else"),
        pytest.param(parquet("one"), id="of a version in words"),
    ],
)
def test_bytes_under_their_right_name_that_are_no_part(filled, root, data):
    shelve(root, data)

    assert len(known_delays(filled)) == 3
    assert filled.damaged() == 1


def test_a_part_of_a_newer_version_is_refused_and_left_alone(filled, root):
    shelve(root, parquet("3"))

    with pytest.raises(ClickLogError, match="schema_version 3: only up to 2 is known"):
        known_delays(filled)
    assert filled.damaged() == 0
