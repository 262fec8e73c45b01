"""A log in any number of parts, of any format, is the log in one file."""

import bz2
import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from app.datasets.impressions import LogColumns, read_log
from app.datasets.options import Reading
from app.datasets.parts import name_of, parts_of, refuse_inside, shown
from app.errors import CommandError
from evaluation import EventTable
from tests.command_line.logs import columns, events, write

EVENTS = events(3, 60)
CUTS = (0, 7, 20, len(EVENTS))
HEAD = "time,campaign,score,outcome\n"
ROW = "1767225600,a,0.5,1\n"
WRONG = "1767225600,a,7,1\n"


def table(first: int, behind: int) -> dict[str, list[Any]]:
    return {name: list(values[first:behind]) for name, values in columns(EVENTS).items()}


def rows_of(part: dict[str, list[Any]]) -> list[dict[str, Any]]:
    values = ([_plain(value) for value in column] for column in part.values())
    return [dict(zip(part, row, strict=True)) for row in zip(*values, strict=True)]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def parquet(part: dict[str, list[Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(part), sink, row_group_size=5)
    return bytes(sink.getvalue())


def text(part: dict[str, list[Any]], delimiter: str = ",") -> bytes:
    rows = zip(*part.values(), strict=True)
    lines = [delimiter.join(part), *(delimiter.join(map(str, row)) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def json_lines(part: dict[str, list[Any]]) -> bytes:
    return b"\n".join(json.dumps({"other": [1], **row}).encode() for row in rows_of(part))


def zstandard(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


FORMATS: dict[str, Callable[[dict[str, list[Any]]], bytes]] = {
    ".parquet": parquet,
    ".csv": text,
    ".CSV": text,
    ".tsv": lambda part: text(part, "\t"),
    ".csv.gz": lambda part: gzip.compress(text(part)),
    ".tsv.bz2": lambda part: bz2.compress(text(part, "\t")),
    ".my.csv.zst": lambda part: zstandard(text(part)),
    ".jsonl": json_lines,
    ".ndjson.gz": lambda part: gzip.compress(json_lines(part)),
}


def write_parts(folder: Path, suffix: str = ".parquet", inner: str = "part-{}") -> Path:
    for place, (first, behind) in enumerate(pairwise(CUTS)):
        path = folder / f"{inner.format(place)}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FORMATS[suffix](table(first, behind)))
    return folder


def assert_whole(found: EventTable) -> None:
    assert found.times.tolist() == EVENTS.times.tolist()
    assert found.scores.tolist() == EVENTS.scores.tolist()
    assert found.outcomes.tolist() == EVENTS.outcomes.tolist()
    names = [found.campaigns[row] for row in found.rows]
    assert names == [EVENTS.campaigns[row] for row in EVENTS.rows]


def error_of(where: object, reading: Reading | None = None) -> str:
    with pytest.raises(CommandError) as caught:
        read_log(str(where), LogColumns(), reading)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_folder_is_its_parts_in_order(tmp_path, suffix):
    assert_whole(read_log(write_parts(tmp_path / "log", suffix), LogColumns()))


@pytest.mark.parametrize(
    "pattern", ["log/*.parquet", "log/part-?.par*", "log/part-[0-9].parquet", "**/part-*", "l*g"]
)
def test_a_pattern_is_what_it_matches(tmp_path, pattern):
    write_parts(tmp_path / "log")
    (tmp_path / "log.txt").write_text("not matched, or not a log")

    if pattern == "l*g":
        (tmp_path / "log.txt").unlink()
    assert_whole(read_log(tmp_path / pattern, LogColumns()))


def test_a_url_is_read_like_a_path(tmp_path):
    write_parts(tmp_path / "log")

    for where in ("log", "log/*.parquet", "log/part-0.parquet"):
        found = read_log(f"file://{tmp_path}/{where}", LogColumns())
        assert len(found) == (CUTS[1] if "0" in where else len(EVENTS))


def test_files_of_an_object_store_are_listed_by_prefix(tmp_path, monkeypatch):
    """As a bucket: its paths are relative to the root, and there is no working folder."""
    write_parts(tmp_path / "bucket/log", inner="day=2026-01-0{}/x")
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    from_uri = lambda url: (store, url.removeprefix("s3://").partition("?")[0])  # noqa: E731
    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=from_uri))

    parts = parts_of("s3://bucket/log/day=*?region=eu-central-1")

    assert [part.keys for part in parts] == [{"day": f"2026-01-0{day}"} for day in range(3)]
    assert parts[0].name == "day=2026-01-00/x.parquet"


def test_what_a_url_keeps_secret_is_not_shown():
    url = "s3://key:secret@bucket/logs/day.parquet?secret_key=x"

    assert shown(url) == "s3://bucket/logs/day.parquet"
    assert name_of(url) == "day.parquet"


def test_folders_name_columns(tmp_path):
    parts = {"a%2Fb": [0.25, 0.5], "__HIVE_DEFAULT_PARTITION__": [0.75], "c": [1.0]}
    for name, scores in parts.items():
        folder = tmp_path / "log" / f"campaign={name}"
        folder.mkdir(parents=True)
        rows = {"time": [1767225600] * len(scores), "score": scores, "outcome": [1] * len(scores)}
        write(folder / "x.parquet", rows)

    assert "campaign=__HIVE_DEFAULT_PARTITION__/x.parquet, row 1: campaign = ''" in error_of(
        tmp_path / "log"
    )
    found = read_log(tmp_path / "log", LogColumns(), Reading(skip_bad=True))
    assert [found.campaigns[row] for row in found.rows] == ["a/b", "a/b", "c"]


def test_what_is_hidden_is_no_part(tmp_path):
    folder = write_parts(tmp_path / "log")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").touch()
    (folder / "_temporary").mkdir()
    (folder / "_temporary/part-9.parquet").touch()

    assert_whole(read_log(folder, LogColumns()))


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({".keep": ""}, "log: the folder holds no log"),
        ({"a.csv": HEAD + ROW, "b.tsv": ""}, "log/b.tsv is of another format than log/a.csv"),
        ({"a.csv": HEAD + ROW, "b.txt": ""}, "log/b.txt: a log's name ends in .parquet, .csv"),
        ({"a.csv": HEAD + ROW, "b.csv": "time,score\n"}, "log/b.csv has no column 'campaign'"),
        ({"a.csv": HEAD + ROW, "b.csv": HEAD + ROW + WRONG}, "log/b.csv, row 2: score = 7"),
        ({"a.csv": HEAD + ROW, "b.csv": HEAD + "1\n"}, "log/b.csv: CSV parse error: row 1: Expe"),
        ({"a.csv": HEAD, "b.csv": HEAD}, "log: the log has no rows"),
        ({"a.parquet": parquet(table(0, 5)), "b.parquet": b"no"}, "log/b.parquet: "),
        ({"d=1/a.csv": HEAD + ROW, "b.csv": HEAD + ROW}, "d=1/a.csv: its folders name d, those"),
        ({"a.csv": "time;campaign;score\n"}, "separated by --delimiter ';'?"),
        ({"a.jsonl": '{"score": 1}\n'}, "log/a.jsonl has no column 'campaign'"),
        (
            {"a.jsonl": json_lines(table(0, 3)) + b"\n\n{oops\n"},
            "log/a.jsonl, line 5: JSON is malformed",
        ),
        ({"a.jsonl": '[{"score": 1},\n'}, "log/a.jsonl: no line is a JSON object with a name; a"),
        (
            {"a.csv": HEAD.encode() + ROW.encode() * 2 + ROW.replace("a", "\xe9").encode("latin1")},
            "log/a.csv, row 3: campaign = b'\\xe9'; a text is UTF-8",
        ),
        (
            {"a.jsonl": json_lines(table(0, 1)).replace(b'"outcome": ', b'"outcome": [1], "x": ')},
            "log/a.jsonl, line 1: expected boolean | number | string | null, got array - at $.",
        ),
    ],
)
def test_a_part_that_is_wrong_is_named(tmp_path, files, expected):
    assert expected in error_of(put(tmp_path / "log", files))


def test_a_line_that_is_no_utf_8_is_named_or_skipped(tmp_path):
    lines = json_lines(table(0, 3)).splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"campaign": "', b'"campaign": "caf\xe9')
    lines.append(b'\n{"time": 1767225600, "campaign": "a", "score": 7, "outcome": 0}\n')
    folder = put(tmp_path / "log", {"a.jsonl": b"".join(lines)})
    reading = Reading(skip_bad=True)

    assert "log/a.jsonl, line 2: " in error_of(folder)
    assert len(read_log(folder, LogColumns(), reading)) == 2
    assert "log/a.jsonl, row 4: score = 7" in reading.skipped.notes()[0]


@pytest.mark.parametrize(("name", "form"), [("a.csv", text), ("a.parquet", parquet)])
def test_a_value_that_is_no_utf_8_is_a_wrong_row(tmp_path, name, form):
    content = form(table(0, 3) | {"campaign": ["b", "caf!", "a"]}).replace(b"caf!", b"caf\xe9")
    folder = put(tmp_path / "log", {name: content})
    reading = Reading(skip_bad=True)

    assert f"log/{name}, row 2: campaign = b'caf\\xe9'; a text is UTF-8" in error_of(folder)
    assert read_log(folder, LogColumns(), reading).campaigns == ("a", "b")
    assert "1 row was skipped: 1 where campaign is wrong" in reading.skipped.notes()[0]


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", zstandard)]
)
def test_a_packed_part_of_nothing_is_passed_over(tmp_path, suffix, pack):
    files = {f"a.csv.{suffix}": pack(b""), "b.csv.gz": gzip.compress((HEAD + ROW).encode())}

    assert len(read_log(put(tmp_path / "log", files), LogColumns())) == 1


def test_the_text_of_a_value_does_not_depend_on_the_others(tmp_path):
    values = ["true", "1.0", '"x"', "2"]
    lines = [
        f'{{"time": 1767225600, "campaign": {value}, "score": 0.5, "outcome": 0}}\n'
        for value in values
    ]
    (tmp_path / "log.jsonl").write_text("".join(lines))

    assert read_log(tmp_path / "log.jsonl", LogColumns()).campaigns == ("1", "2", "true", "x")


def test_nothing_there_is_said(tmp_path):
    assert error_of(tmp_path / "log*.csv").endswith(
        "log*.csv: there is no such file, and none that matches"
    )
    assert "nope://x: Unrecognized filesystem" in error_of("nope://x")
    assert error_of("") == "'': a log is a file, a folder, a pattern or a URL"


def test_another_delimiter(tmp_path):
    path = put(tmp_path, {"log.dat": text(table(0, len(EVENTS)), ";")}) / "log.dat"

    assert_whole(read_log(path, LogColumns(), Reading(delimiter=";")))
    assert "--delimiter goes with CSV and TSV" in error_of(
        put(tmp_path, {"x.jsonl": ""}) / "x.jsonl", Reading(delimiter=";")
    )
    with pytest.raises(CommandError, match="--delimiter ';;': give one character"):
        Reading(delimiter=";;")


def test_values_of_json_may_be_of_many_types(tmp_path):
    lines = (
        '{"time": 1767225600, "campaign": 7, "score": 0.5, "outcome": true}\n'
        '{"time": "2026-01-01T00:00:01Z", "campaign": "x", "score": "0.25", "outcome": 0}\n'
    )

    folder = put(tmp_path, {"log.jsonl": lines, "marked.jsonl": "\ufeff" + lines})
    found, marked = (
        read_log(folder / name, LogColumns()) for name in ("log.jsonl", "marked.jsonl")
    )

    assert found.campaigns == marked.campaigns == ("7", "x")
    assert found.times.tolist() == [1767225600.0, 1767225601.0]
    assert found.scores.tolist() == [0.5, 0.25]
    assert found.outcomes.tolist() == [1.0, 0.0]


def test_what_is_read_is_not_written_to(tmp_path, called):
    log = tmp_path / "log"
    log.mkdir()
    (log / "a.csv").write_text(HEAD + ROW)
    (tmp_path / "link").symlink_to(log)
    for where in (log, tmp_path / "link", tmp_path, f"{tmp_path}/l*"):
        with pytest.raises(CommandError, match=r"--report .*: this is a part of "):
            refuse_inside([where], {"--report": log / "new" / "x.html"})
    refuse_inside([f"{log}/*.csv", log / "a.csv"], {"--report": log / "x.html", "--picture": None})
    refuse_inside([log], {"--output": log / "_hidden" / "bins.parquet"})

    for command in ("lake bins", "lake maps", "backtest", "evaluate"):
        option = "--picture" if command == "evaluate" else "--output"
        run = called(*command.split(), log, option, log / "x.png" if option == "--picture" else log)
        assert (run.returncode, run.stdout) == (2, "")
        assert f"sirocco: {option} {log}" in run.stderr
        assert f"this is a part of {log}, " in run.stderr
    assert [each.name for each in log.iterdir()] == ["a.csv"]
