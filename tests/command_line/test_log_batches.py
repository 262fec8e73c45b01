"""A log in batches has the rows of the log, in order, once each."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.options import Reading
from app.datasets.reading import LogReader
from app.datasets.tables import LogRows
from app.errors import CommandError

ROWS = 5_000
TYPES = {"score": pa.float64(), "campaign": pa.string()}


def columns() -> dict[str, list[Any]]:
    return {
        "score": [i / ROWS for i in range(ROWS)],
        "campaign": [f"c{i % 7}" for i in range(ROWS)],
    }


def write(path: Path, **extra: list[Any]) -> Path:
    table = {**columns(), **extra}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(table), path, row_group_size=1_800)
        return path
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path, types: Any = None) -> list[LogRows]:
    file = LogReader(path, lambda *_: ["score", "campaign"], types or TYPES, ("campaign",))
    return list(file.batches(1_000, 20_000))


def values(batches: list[LogRows], name: str) -> list[Any]:
    return [value for batch in batches for value in batch.columns[name].to_pylist()]


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.csv.gz"])
def test_every_row_comes_once_and_in_order(tmp_path, name):
    """And the share that is done rises to one."""
    batches = read(write(tmp_path / name, other=["x"] * ROWS))

    assert values(batches, "score") == columns()["score"]
    assert values(batches, "campaign") == columns()["campaign"]
    assert all(set(batch.columns) == {"score", "campaign"} for batch in batches)
    starts = [batch.first for batch in batches]
    assert len(starts) > 2
    assert starts == [sum(len(batch) for batch in batches[:i]) for i in range(len(batches))]
    done = [batch.done for batch in batches]
    assert done == sorted(done)
    assert done[0] > 0.0
    assert done[-1] == 1.0


def test_words_of_parquet_stay_a_dictionary(tmp_path):
    batch = read(write(tmp_path / "log.parquet"))[0]

    assert pa.types.is_dictionary(batch.columns["campaign"].type)


def test_what_is_no_number_turns_the_rest_into_text(tmp_path):
    scores: list[Any] = columns()["score"]
    scores[4_321] = "much"
    batches = read(write(tmp_path / "log.csv", score=scores))

    kinds = [batch.columns["score"].type for batch in batches]
    assert kinds[0] == pa.float64()
    assert kinds[-1] == pa.string()
    assert [float(value) for value in values(batches, "score")[:4_321]] == scores[:4_321]
    assert values(batches, "score")[4_321] == "much"
    assert len(values(batches, "score")) == ROWS


def test_a_row_of_another_length_is_named(tmp_path):
    path = write(tmp_path / "log.csv")
    lines = path.read_text().splitlines()
    lines[4_000] = "0.5"
    path.write_text("\n".join(lines))

    with pytest.raises(CommandError, match=r"log.csv: CSV parse error: row 4000: Expected 2"):
        read(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [300, 1 << 20])
def test_rows_have_the_same_number_whatever_is_left_out_before_them(tmp_path, end, size):
    """That of the file, where empty lines, and ends of lines in quotes, are no rows."""
    rows = [f'0.5,"{"x" * 20}{end}{i}"' for i in range(1, 61)]
    rows[2] = rows[32] = rows[50] = "0.5,a,b"
    rows[29] = rows[39] = rows[59] = "7,a"
    rows[5] += end
    log = tmp_path / "log"
    log.mkdir()
    for name in ("a.csv", "b.csv"):
        (log / name).write_bytes(end.join(["score,campaign", *rows, ""]).encode())
    reading = Reading(skip_bad=True)
    file = LogReader(log, lambda *_: ["score", "campaign"], TYPES, (), reading)
    named: list[str] = []
    reading.skipped.add = lambda _, __, examples: named.extend(examples)  # type: ignore[method-assign]

    kept = [
        len(some) for _, some in file.parsed(lambda rows: rows.column("score").scores(), 9, size)
    ]

    told = [
        f"log/{name}, row {row}" for name in ("a.csv", "b.csv") for row in (3, 30, 33, 40, 51, 60)
    ]
    assert sorted(each.partition(":")[0] for each in named) == sorted(told)
    assert sum(kept) == 108


@pytest.mark.parametrize("size", [32, 1 << 20])
@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize(
    ("rows", "line"),
    [('0.5,"a\n' * 3, 4), ('0.5,"a"b\n', 4), ('0.5,"a\nb"\n"0.5"5,c\n', 6), ('0.5,"a', 4)],
)
def test_a_misplaced_quote_is_named_with_its_line(tmp_path, rows, line, skip_bad, size):
    """Arrow takes other lines, or "b", for a part of the value."""
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(f'score,campaign\n0.5,5" disk\n0.5,a\n{rows}'.encode()))
    log = LogReader(path, lambda *_: ["score", "campaign"], TYPES, (), Reading(skip_bad=skip_bad))

    with pytest.raises(CommandError, match=rf"log.csv.gz, line {line}: .*; a value in quotes ends"):
        list(log.batches(1_000, size))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_values_of_several_lines_may_lie_across_blocks(tmp_path, end):
    names = [f'{i},{end}5" ""x{"y" * (i % 40)}' for i in range(ROWS)]
    lines = ['"score",campaign', *(f'0.5,"{name.replace(chr(34), chr(34) * 2)}"' for name in names)]
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbf" + end.join(lines).encode())

    batches = read(tmp_path / "log.csv")

    assert len(batches) > 2
    assert values(batches, "campaign") == names


def test_a_file_is_closed_when_no_one_reads_on(tmp_path):
    file = LogReader(write(tmp_path / "log.csv"), lambda *_: ["score"], TYPES)
    batches = file.batches(100, 5_000)
    assert next(batches).first == 0
    batches.close()  # type: ignore[attr-defined]
