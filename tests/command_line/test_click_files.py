"""Click logs in files: what is written is read again, and what is wrong is named."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.clicks import MOST_DAYS, ClickColumns, read_click_log, write_click_log
from app.errors import CommandError
from evaluation import ClickPlatform, ClickStream
from pccem import Categorical, Clicks, Features
from tests.command_line.click_logs import write_rows

TIME = 1_767_225_600.0
BEHAVIOUR_RULE = "a behaviour is a number from 0 up, or empty where there was none"


def error_of(path: Path) -> str:
    with pytest.raises(CommandError) as caught:
        read_click_log(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_what_is_written_is_read_again(tmp_path):
    platform = ClickPlatform(campaigns=3, clicks_per_hour=300, cvr=0.2, seed=1)
    parts = [platform.hours(0, 2).stream, platform.hours(2, 3).stream]

    written = write_click_log(tmp_path / "clicks.parquet", parts, known_until=1e9)
    file = read_click_log(tmp_path / "clicks.parquet")

    whole, stream = ClickStream.concatenate(parts), file.stream
    assert (written, file.known_until) == (len(whole), 1e9)
    np.testing.assert_array_equal(stream.clicks.clicked_at, whole.clicks.clicked_at)
    np.testing.assert_array_equal(stream.clicks.scores, whole.clicks.scores)
    np.testing.assert_allclose(stream.delay, whole.delay, atol=1e-5)
    names = [stream.clicks.campaigns[row] for row in stream.clicks.rows]
    assert names == [whole.clicks.campaigns[row] for row in whole.clicks.rows]
    assert stream.clicks.features.kinds == whole.clicks.features.kinds
    for name, column in whole.clicks.features.columns.items():
        read = stream.clicks.features.columns[name]
        if isinstance(column, Categorical):
            assert isinstance(read, Categorical)
            assert read.values() == column.values()
        else:
            np.testing.assert_array_equal(read, column)
    assert [path.name for path in tmp_path.iterdir()] == ["clicks.parquet"]


def test_missing_categories_are_nulls(tmp_path):
    features = Features({"feature.kind": Categorical.of(["x", None])}, 2)
    clicks = Clicks(np.array([TIME, TIME]), ("a",), np.zeros(2, np.int32), np.zeros(2), features)

    write_click_log(tmp_path / "c.parquet", [ClickStream(clicks, np.full(2, np.nan))], TIME)

    table = pq.read_table(tmp_path / "c.parquet")
    assert table["feature.kind"].to_pylist() == ["x", None]
    assert table["converted_at"].to_pylist() == [None, None]


def test_a_log_in_any_order_is_sorted_by_time(tmp_path):
    path = write_rows(tmp_path / "c.parquet", time=[TIME + 500.0, TIME], converted_at=[None, TIME])

    stream = read_click_log(path).stream

    assert stream.clicks.clicked_at.tolist() == [TIME, TIME + 500.0]
    assert stream.clicks.scores.tolist() == [0.25, 0.5]
    assert stream.delay.tolist() == [0.0, pytest.approx(np.nan, nan_ok=True)]


def test_other_columns_and_kinds_of_time(tmp_path):
    """Timestamps, text or numbers; pandas' nan is as empty as a null; other columns are ignored."""
    at = datetime.fromtimestamp(TIME, UTC)
    path = write_rows(
        tmp_path / "c.parquet",
        time=None,
        clicked=[at, at],
        converted_at=[float("nan"), TIME + 60.0],
        colour=["red", "blue"],
    )

    stream = read_click_log(path, ClickColumns(time="clicked")).stream

    assert stream.clicks.clicked_at.tolist() == [TIME, TIME]
    assert stream.delay.tolist() == [pytest.approx(np.nan, nan_ok=True), 60.0]
    assert set(stream.clicks.features.columns) == {"behaviour.page_views", "feature.device"}


def test_campaigns_of_a_text_are_texts(tmp_path):
    """However much they look like numbers."""
    names = ["001", "1", "1.10", "true", "12345678901234567890"]
    rows = "".join(f"{TIME},{name},0.5,,{name}\n" for name in names)
    (tmp_path / "c.csv").write_text(f"time,campaign,score,converted_at,device\n{rows}")

    found = read_click_log(tmp_path / "c.csv", ClickColumns(fields=("device",)))

    assert sorted(found.stream.clicks.campaigns) == sorted(names)
    assert {*found.fields["device"].names} - {""} == {*names}


def test_nothing_may_have_happened(tmp_path):
    """No conversion and no behaviour in the whole log."""
    nothing = [None, None]
    path = write_rows(
        tmp_path / "c.parquet", converted_at=nothing, **{"behaviour.page_views": nothing}
    )

    stream = read_click_log(path).stream

    assert np.isnan(stream.delay).all()
    np.testing.assert_array_equal(
        stream.clicks.features.columns["behaviour.page_views"], [np.nan, np.nan]
    )


def test_conversions_may_be_text(tmp_path):
    path = write_rows(tmp_path / "c.parquet", converted_at=[None, "2026-01-01T00:05:00Z"])

    assert read_click_log(path).stream.delay[1] == 200.0


@pytest.mark.parametrize(
    ("converted_at", "until"), [([TIME + 60.0, None], 100.0), ([TIME + 900.0, None], 900.0)]
)
def test_a_log_that_does_not_say_is_known_until_its_last_time(tmp_path, converted_at, until):
    path = write_rows(tmp_path / "c.parquet", converted_at=converted_at)

    assert read_click_log(path).known_until == TIME + until


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("score", [0.5, 1.5], "row 2: score = 1.5; a score must be a number in [0, 1]"),
        ("campaign", ["a", ""], "row 2: campaign = ''; a campaign must have a name"),
        ("time", [TIME, None], "row 2: time = ''; a time is a timestamp"),
        ("time", [TIME, TIME * 1e3], "the year must be from 2000 to 2099"),
        ("converted_at", [None, 12.0], "row 2: converted_at = 12.0; the year must be"),
        (
            "converted_at",
            [None, TIME],
            f"row 2: converted_at = {TIME}; a conversion comes after its click at {TIME + 100.0}",
        ),
        (
            "converted_at",
            [None, 4.1e9],
            "row 2: converted_at = 4100000000.0; a conversion comes within"
            f" {MOST_DAYS:,} days of its click",
        ),
        (
            "behaviour.page_views",
            [None, -1.0],
            f"row 2: behaviour.page_views = -1.0; {BEHAVIOUR_RULE}",
        ),
        ("behaviour.page_views", ["3", "many"], "row 2: behaviour.page_views = 'many';"),
        ("behaviour.page_views", [np.inf, 1.0], "row 1: behaviour.page_views = inf;"),
        ("feature.price", [1.0, np.inf], "row 2: feature.price = inf; a number is finite"),
    ],
)
def test_a_bad_value_is_named_with_its_row(tmp_path, column, values, expected):
    path = write_rows(tmp_path / "c.parquet", **{column: values})

    message = error_of(path)

    assert message.startswith("c.parquet")
    assert expected in message


@pytest.mark.parametrize(
    ("column", "option"), [("score", "--score"), ("converted_at", "--converted")]
)
def test_a_missing_column_lists_those_that_exist(tmp_path, column, option):
    path = write_rows(tmp_path / "c.parquet", **{column: None})

    assert f"has no column '{column}': name the" in error_of(path)
    assert f"{option}. It has: time, campaign," in error_of(path)


def test_a_column_stands_once(tmp_path):
    """Also one that nobody reads."""
    columns = ["time", "campaign", "score", "converted_at", "note", "note"]
    arrays = [pa.array([1.0]) for _ in columns]
    pq.write_table(pa.Table.from_arrays(arrays, columns), tmp_path / "c.parquet")

    assert error_of(tmp_path / "c.parquet") == "c.parquet has 2 columns named 'note'"


def test_a_click_log_is_written_as_parquet(tmp_path):
    with pytest.raises(CommandError, match=r"its name ends in \.parquet"):
        write_click_log(tmp_path / "c.csv", [], 0.0)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    stream = ClickPlatform(clicks_per_hour=5).hour(0).stream

    with pytest.raises(CommandError, match=r"nowhere/c\.parquet: "):
        write_click_log(tmp_path / "nowhere" / "c.parquet", [stream], 0.0)


def test_a_log_without_clicks_is_not_written(tmp_path):
    with pytest.raises(CommandError, match="there are no clicks to write"):
        write_click_log(tmp_path / "c.parquet", [], 0.0)

    assert list(tmp_path.iterdir()) == []


def test_nothing_half_written_stays(tmp_path):
    """When drawing fails half-way, the file of before is still there, and nothing else."""
    path = write_rows(tmp_path / "c.parquet")
    before = path.read_bytes()

    def failing():
        yield ClickPlatform(clicks_per_hour=5).hour(0).stream
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_click_log(path, failing(), 0.0)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
