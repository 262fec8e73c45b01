"""`sirocco evaluate` on logs that are broken, bare or odd: an error of one line, or an answer that
says what it lacks."""

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.cli.measure import evaluate
from app.datasets import evaluation_log
from evaluation import auc, pcoc
from tests.command_line.conftest import Answered
from tests.command_line.logs import write

HEAD = "time,campaign,score,outcome,bid\n"
ROW = "1767225600,a,0.25,1,2\n"
SIZE = 12
SCORES = np.arange(SIZE) / 32
OUTCOMES = (np.arange(SIZE) % 3 == 0).astype(float)


def good(size: int = SIZE) -> dict[str, Any]:
    return {
        "time": 1_767_225_600 + 600 * np.arange(size),
        "campaign": ["a", "b"] * (size // 2),
        "score": np.resize(SCORES, size),
        "outcome": np.resize(OUTCOMES, size),
        "bid": np.resize([1.0, 2.0, 0.5], size),
    }


@pytest.fixture
def measured(tmp_path: Path, answered: Answered) -> Callable[..., Any]:
    """What the command says about columns."""
    path = tmp_path / "log.parquet"
    return lambda columns, *options: answered("evaluate", write(path, columns), *options)


def text(tmp_path: Path, content: str, name: str = "log.csv") -> Path:
    path = tmp_path / name
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("time,ad,pctr\n1,a,0.5\n", "has no column 'score': name the score column with --score."),
        ("score,outcome,campaign,campaign\n1,1,a,a\n", "log.csv has 2 columns named 'campaign'"),
        (f"{HEAD}{ROW}1767225600,a,1.5,1,2\n", "log.csv, row 2: score = 1.5; a score must be"),
        (f"{HEAD}{ROW}1767225600,a,0.5,-1,2\n", "log.csv, row 2: outcome = -1.0; an outcome"),
        (f"{HEAD}{ROW}1767225600,a,0.5,1,-3\n", "log.csv, row 2: bid = -3.0; a bid is a number"),
        (f"{HEAD}{ROW}1767225600,a,0.2_5,1,2\n", "row 2: score = '0.2_5'; a score must be"),
        (f"{HEAD}{ROW}1767225600,a,0.\u0662,1,2\n", "row 2: score = '0.\u0662'; a score must be"),
        (f"{HEAD}{ROW}1767225600,a,0.5,1,true\n", "log.csv, row 2: bid = 'true'; a bid is a"),
        (f"{HEAD}{ROW}1767225600,,0.5,1,2\n", "log.csv, row 2: campaign = ''; a campaign must"),
        (f"{HEAD}{ROW}1767225600000,a,0.5,1,2\n", "look like milliseconds: give --time-unit ms"),
    ],
)
def test_a_broken_text_file_is_one_line(tmp_path, refused, content, expected):
    assert expected in refused("evaluate", text(tmp_path, content))


@pytest.mark.parametrize(
    ("percent", "rule"),
    [
        ((), "a score must be a number in [0, 1]"),
        (("--percent",), "with --percent a score must be a number in [0, 100]"),
    ],
)
def test_truth_values_are_no_scores(tmp_path, refused, percent, rule):
    """Whoever names the column of the outcome would see a perfect model."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"score": true, "outcome": true}\n{"score": false, "outcome": false}\n')
    table = write(tmp_path / "log.parquet", {"score": [True, False], "outcome": [True, False]})

    told = f"row 1: score = true; {rule}"
    assert refused("evaluate", log, *percent) == f"sirocco: log.jsonl, {told}"
    assert refused("evaluate", table, *percent) == f"sirocco: log.parquet, {told}"


def test_truth_values_are_no_bids(tmp_path, refused):
    path = write(tmp_path / "log.parquet", good() | {"bid": OUTCOMES == 1.0})

    assert "bid = true; a bid is a number" in refused("evaluate", path)


@pytest.mark.parametrize("option", ["--campaign", "--time", "--bid", "--group", "--by"])
def test_a_column_that_is_named_must_be_there(tmp_path, refused, option):
    """Only those not asked for by name may be missing: a slip is no wish."""
    path = write(tmp_path / "log.parquet", good())

    assert f"has no column 'kampagne': name the {option[2:]} column" in refused(
        "evaluate", path, option, "kampagne"
    )


@pytest.mark.parametrize(
    ("name", "column", "value", "expected"),
    [
        ("log.csv", "score", "much", "score = 'much'; a score must be a number in [0, 1]"),
        ("log.csv", "outcome", "yes", "outcome = 'yes'; an outcome must be a number in [0, 1]"),
        ("log.csv", "time", "noon", "time = 'noon'; a time is a timestamp"),
        ("log.csv.gz", "bid", "-1", "bid = -1.0; a bid is a number from 0"),
        ("log.parquet", "score", "much", "score = 'much'; a score must be a number in [0, 1]"),
    ],
)
def test_a_bad_value_deep_in_the_file_is_named_with_its_row(
    tmp_path, refused, monkeypatch, name, column, value, expected
):
    """Batches of 10,000 rows: the fifth has it."""
    monkeypatch.setattr(evaluate, "BATCH_ROWS", 10_000)
    monkeypatch.setattr(evaluate, "BLOCK_BYTES", 250_000)
    columns = {"score": 0.5, "outcome": 1, "time": 1_767_225_600, "bid": 2}
    rows = {key: [str(usual)] * 50_000 for key, usual in columns.items()}
    rows[column][41_234] = value
    path = tmp_path / name
    if name == "log.parquet":
        write(path, rows)
    else:
        lines = [",".join(rows), *map(",".join, zip(*rows.values(), strict=True))]
        content = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)

    assert f"row 41235: {expected}" in refused("evaluate", path)


@pytest.mark.slow
def test_a_bad_number_in_a_late_row_group_is_named_by_the_real_command(tmp_path, sirocco):
    columns = good(300_000)
    columns["score"][287_654] = 1.25
    log = write(tmp_path / "log.parquet", columns, row_group_size=70_000)

    run = sirocco("evaluate", log)

    assert run.returncode == 2
    assert run.stderr.splitlines()[-1] == (
        "sirocco: log.parquet, row 287655: score = 1.25; a score must be a number in [0, 1];"
        " --percent reads 0 to 100"
    )


@pytest.mark.parametrize("code", ["utf-16", "latin-1"])
def test_names_of_columns_that_are_no_utf_8(tmp_path, refused, code):
    (path := tmp_path / "log.csv").write_bytes("score,outcome,caf\xe9\n0.1,0,a\n".encode(code))

    assert refused("evaluate", path).endswith("log.csv: the names of its columns are no UTF-8")


@pytest.mark.parametrize("name", ["log.csv.gz", "log.parquet"])
def test_a_truncated_file_is_one_line(tmp_path, refused, name):
    path = tmp_path / name
    if name == "log.parquet":
        write(path, good(5_000))
    else:
        path.write_bytes(gzip.compress((HEAD + ROW * 50_000).encode()))
    path.write_bytes(path.read_bytes()[:-100])

    assert str(path) in refused("evaluate", path)


def test_parquet_without_a_row(tmp_path, refused):
    columns = {name: pa.array([], pa.float64()) for name in ("score", "outcome", "bid")}

    assert "the log has no rows" in refused("evaluate", write(tmp_path / "log.parquet", columns))


@pytest.mark.parametrize("column", ["score", "outcome", "campaign", "time", "bid"])
def test_nulls_are_refused(tmp_path, refused, column):
    columns = good()
    columns[column] = [*list(columns[column])[:-1], None]

    assert f"row 12: {column} = ''; " in refused(
        "evaluate", write(tmp_path / "log.parquet", columns)
    )


@pytest.mark.parametrize(
    ("outcome", "missing"), [(0.0, {"pcoc", "auc", "rig", "nmse"}), (1.0, {"auc", "rig", "nmse"})]
)
def test_one_class_only_is_told_and_what_it_leaves_undefined_is_null(
    measured, called, tmp_path, outcome, missing
):
    found = measured({**good(), "outcome": np.full(SIZE, outcome)})

    raw = found["rows"]["raw"]
    assert {name for name in ("pcoc", "log_loss", "mae", *missing) if raw[name] is None} == missing
    assert any(note.startswith(f"Every outcome is {outcome:.0f}: ") for note in found["notes"])
    run = called("evaluate", tmp_path / "log.parquet")
    assert "nan" not in run.stdout
    assert f"Every outcome is {outcome:.0f}: " in run.stderr
    assert ("0: PCOC is infinite; RIG, NMSE, AUC and" in run.stderr) == (outcome == 0.0)


def test_one_row_is_a_log(measured, called, tmp_path):
    columns = {name: column[:1] for name, column in good().items()}

    raw = measured({**columns, "score": [0.5]})["rows"]["raw"]

    assert raw["pcoc"] == 0.5
    assert raw["auc"] is None
    assert called("evaluate", tmp_path / "log.parquet", "--report", "r.html").returncode == 0


def test_groups_of_one_row_have_no_gauc(measured):
    found = measured({**good(), "request": [f"r{i}" for i in range(SIZE)]}, "--group", "request")

    raw = found["rows"]["raw"]
    assert raw["gauc"] is None
    assert raw["gauc_left_out"] == 1.0
    assert any("GAUC leaves out 100.0%" in note for note in found["notes"])


def test_all_equal_scores_rank_nothing(measured):
    raw = measured({**good(), "score": np.full(SIZE, 0.25)})["rows"]["raw"]

    assert raw["auc"] == 0.5
    assert raw["partial_auc"] == pytest.approx(0.05)


def test_scores_of_zero_and_one_are_scores(measured):
    raw = measured({**good(), "score": OUTCOMES * 1.0 - 0.0})["rows"]["raw"]

    assert raw["auc"] == 1.0
    assert raw["log_loss"] < 1e-9


def test_minus_zero_is_zero(measured):
    raw = measured({**good(), "score": np.full(SIZE, -0.0)})["rows"]["raw"]

    assert raw["auc"] == 0.5


def test_bids_of_nothing_leave_cs_auc_undefined_and_say_so(measured):
    found = measured({**good(), "bid": np.zeros(SIZE)})

    assert found["rows"]["raw"]["cs_auc"] is None
    assert any("no positive has a bid" in note for note in found["notes"])


def test_pairs_that_cs_auc_pays_though_they_tie_are_told(measured):
    found = measured({**good(), "score": np.zeros(SIZE)})

    assert found["rows"]["raw"]["cs_auc"] == 1.0
    assert any("100.0% of what csAUC decides about" in note for note in found["notes"])


def test_fractional_outcomes_have_no_cs_auc_and_say_so(measured):
    found = measured({**good(), "outcome": np.full(SIZE, 0.25)})

    assert found["rows"]["raw"]["cs_auc"] is None
    assert any("neither 0 nor 1" in note for note in found["notes"])


def kinds() -> dict[str, dict[str, Any]]:
    campaigns = pa.array(["a", "b"] * (SIZE // 2))
    with_unused = pa.DictionaryArray.from_arrays([0, 2] * (SIZE // 2), ["a", "unused", "b"])
    thousandths = [Decimal(round(score * 100_000)) / 100_000 for score in SCORES.tolist()]
    times = pa.array(1_767_225_600 + 600 * np.arange(SIZE))
    return {
        "dictionary": {"campaign": campaigns.dictionary_encode()},
        "unused words of a dictionary": {"campaign": with_unused},
        "large text": {"campaign": campaigns.cast(pa.large_string())},
        "numbers in a dictionary": {"score": pa.array(SCORES).dictionary_encode()},
        "decimals": {"score": pa.array(thousandths, pa.decimal128(6, 5))},
        "float32": {"score": pa.array(SCORES, pa.float32())},
        "float16": {"score": pa.array(SCORES.astype(np.float16))},
        "int8": {"outcome": pa.array(OUTCOMES.astype(np.int8))},
        "truth values": {"outcome": pa.array(OUTCOMES == 1.0)},
        "words for truth values": {"outcome": ["True" if y else "false" for y in OUTCOMES]},
        "text": {"score": [f" {score!r} " for score in SCORES.tolist()]},
        "timestamps": {"time": times.cast(pa.timestamp("s"))},
        "timestamps in a dictionary": {
            "time": times.cast(pa.timestamp("s", "UTC")).cast(pa.string()).dictionary_encode()
        },
        "text of seconds": {"time": times.cast(pa.string())},
    }


@pytest.mark.parametrize("kind", kinds())
def test_columns_of_every_type_say_the_same(measured, kind):
    plain = measured(good())

    found = measured({**good(), **kinds()[kind]})

    assert list(found["campaigns"]) == ["a", "b"]
    assert list(found["hours"]) == list(plain["hours"])
    ours, theirs = (each["rows"]["raw"] for each in (found, plain))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == (None if value is None else pytest.approx(value, rel=1e-12)), name
    assert found["notes"] == plain["notes"]


def test_a_column_of_lists_is_no_cut(tmp_path, refused):
    path = write(tmp_path / "log.parquet", {**good(), "tags": [["x"]] * SIZE})

    assert "column 'tags' holds list<element: string>; slices are named by" in refused(
        "evaluate", path, "--by", "tags"
    )


@pytest.mark.parametrize(
    ("column", "values", "hint"),
    [
        ("price", [i / 7 for i in range(SIZE)], ": cut them into ranges first"),
        ("user", [f"u{i}" for i in range(SIZE)], "too many to compare"),
    ],
)
def test_a_cut_has_a_bounded_number_of_values(
    tmp_path, answered, refused, monkeypatch, column, values, hint
):
    monkeypatch.setattr(evaluation_log, "MOST_VALUES", 10)
    path = write(tmp_path / "log.parquet", {**good(), column: values})

    said = refused("evaluate", path, "--by", column)

    assert f"column '{column}' has more than 10 values" in said
    assert said.endswith(hint)
    monkeypatch.setattr(evaluation_log, "MOST_VALUES", SIZE)
    assert len(answered("evaluate", path, "--by", column)["by"][column]) == SIZE


def test_values_of_every_type_name_slices(measured):
    columns = {
        **good(),
        "flag": pa.array([True, None] * (SIZE // 2)),
        "nothing": pa.nulls(SIZE),
        "size": [1, 2, 300] * (SIZE // 3),
    }
    by = measured(columns, "--by", "flag", "--by", "nothing", "--by", "size", "--by", "campaign")[
        "by"
    ]

    assert list(by["flag"]) == ["(none)", "true"]
    assert list(by["nothing"]) == ["(none)"]
    assert list(by["size"]) == ["1", "2", "300"]
    own = np.arange(SIZE) % 2 == 0
    assert by["campaign"]["a"]["pcoc"] == pytest.approx(pcoc(SCORES[own], OUTCOMES[own]))


def test_rows_without_a_group_are_in_none(measured):
    users = pa.array(["u", "u", None, ""] * (SIZE // 4))

    raw = measured({**good(), "user": users}, "--group", "user")["rows"]["raw"]

    own = np.arange(SIZE) % 4 < 2
    assert raw["gauc"] == pytest.approx(auc(SCORES[own], OUTCOMES[own]))
    assert raw["gauc_left_out"] == pytest.approx(0.5)


def test_a_campaign_that_was_never_expected_to_be_clicked_is_drawn(tmp_path, called):
    """At the end of the axis: its PCOC is 0."""
    columns = good(600)
    columns["score"] = np.where(np.arange(600) % 2, 0.0, columns["score"])
    log = write(tmp_path / "log.parquet", {**columns, "outcome": np.arange(600) % 4 < 2})
    run = called("evaluate", log, "--picture", "x.png")

    assert (run.returncode, (tmp_path / "x.png").exists()) == (0, True), run.stderr
