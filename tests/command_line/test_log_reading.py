"""What the options of reading do, and what rows may stand for."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.datasets.impressions import LogColumns, read_log
from app.datasets.options import Reading
from app.errors import CommandError
from tests.command_line.logs import columns, events, write, write_log

HEAD = "time,campaign,score,outcome\n"
GOOD = "1767225600,a,0.5,1\n"
START = 1767225600.0
ONE = {"campaign": ["a"], "score": [1], "outcome": [1]}


def csv(tmp_path: Path, rows: str, head: str = HEAD) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(head + rows)
    return path


def times(path: Path, **how: Any) -> list[float]:
    return read_log(path, LogColumns(), Reading(**how)).times.tolist()


@pytest.mark.parametrize(
    ("unit", "number"), [("s", "1767225600.5"), ("ms", "1767225600500"), ("us", "1767225600500000")]
)
def test_times_in_a_unit(tmp_path, unit, number):
    path = csv(tmp_path, f"{number},a,0.5,1\n")

    assert times(path, time_unit=unit) == [START + 0.5]


@pytest.mark.parametrize("dated", [["2026-01-01"], [date(2026, 1, 1)]])
def test_dates_without_an_hour_are_told(tmp_path, answered, dated):
    path = write(tmp_path / "log.parquet", {**ONE, "day": dated})

    notes = answered("evaluate", path, "--time", "day")["notes"]

    assert [note for note in notes if note.startswith("Column 'day' has dates without an hour")]
    reading = Reading()
    read_log(csv(tmp_path, "2026-01-01T00:00,a,0.5,1\n1767225600,a,0.5,1\n"), LogColumns(), reading)
    assert not reading.skipped.notes()


@pytest.mark.parametrize("number", [1767225600500, 1767225600500000, 1767225600500000000])
def test_numbers_of_parquet_have_a_unit_too(tmp_path, number):
    path = write(tmp_path / "log.parquet", {**ONE, "time": [number]})
    unit = {13: "ms", 16: "us", 19: "ns"}[len(str(number))]

    assert times(path, time_unit=unit) == [START + 0.5]
    with pytest.raises(CommandError, match=f"give --time-unit {unit}"):
        times(path)


def test_a_unit_that_is_too_small_is_guessed(tmp_path):
    with pytest.raises(CommandError, match="these look like seconds: give --time-unit s"):
        times(csv(tmp_path, GOOD), time_unit="ms")
    with pytest.raises(CommandError, match="--time-unit 'hours': must be one of s, ms, us, ns"):
        Reading(time_unit="hours")


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("2026-07-01T02:00:00", -2),
        ("2026-01-01 01:00:00", -1),
        ("2026-01-01T01:00:00Z", 0),
        (" 2026-01-01T01:00:00", -1),
        ("2025-10-26T02:30:00", -2),
        ("2025-03-30T02:30:00", -1.5),
    ],
)
def test_times_without_a_zone_are_of_the_zone_given(tmp_path, text, hours):
    path = csv(tmp_path, f"{text},a,0.5,1\n")

    assert times(path, time_zone="Europe/Vienna") == [times(path)[0] + 3600 * hours]


def test_timestamps_without_a_zone_are_of_the_zone_given(tmp_path):
    path = tmp_path / "log.parquet"
    for zone, shift in ((None, 3600), ("UTC", 0)):
        moment = pa.array([int(START)], pa.timestamp("s", zone))
        write(path, {**ONE, "time": moment})
        assert times(path, time_zone="Europe/Vienna") == [START - shift]
    with pytest.raises(CommandError, match="--time-zone 'Mars/Base': give a name such as"):
        Reading(time_zone="Mars/Base")


def test_percent(tmp_path):
    path = csv(tmp_path, "1767225600,a,12.5,1\n1767225600,a,100,1\n")

    assert read_log(path, LogColumns(), Reading(percent=True)).scores.tolist() == [0.125, 1.0]
    with pytest.raises(CommandError, match=r"row 1: score = 12.5; .* --percent reads 0 to 100"):
        read_log(path, LogColumns())
    path.write_text(f"{HEAD}1767225600,a,101,1\n")
    with pytest.raises(CommandError, match=r"with --percent a score must be a number in"):
        read_log(path, LogColumns(), Reading(percent=True))


BAD = (
    f"{GOOD}1767225600,a,7,1\n1767225600,,0.5,1\n{GOOD}1767225600,a,0.5\n1767225600,a,,1\n"
    f"noon,a,0.5,1\n1767225600,a,much,1\n1767225600,a,8,9\n{GOOD}"
)


def test_bad_rows_are_skipped_and_counted(tmp_path):
    reading = Reading(skip_bad=True)

    found = read_log(csv(tmp_path, BAD), LogColumns(), reading)

    assert len(found) == 3
    assert reading.skipped.reasons == {
        "a line has 4 values": 1,
        "campaign is empty": 1,
        "score is empty": 1,
        "score is wrong: a score must be a number in [0, 1]": 1,
        "score is wrong: a score must be a number in [0, 1]; --percent reads 0 to 100": 2,
        "time is wrong: a time is a timestamp, RFC 3339 text (without a zone: UTC) or seconds"
        " since 1970": 1,
    }
    assert "log.csv, row 3: campaign = ''" in reading.skipped.notes()[0]


def test_a_log_of_bad_rows_says_why_none_is_left(tmp_path):
    with pytest.raises(CommandError, match=r"no row of the log is left\. 1 row was skipped"):
        read_log(csv(tmp_path, "x,a,0.5,1\n"), LogColumns(), Reading(skip_bad=True))


def test_commands_say_what_they_skipped(tmp_path, answered):
    found = answered("evaluate", csv(tmp_path, BAD), "--skip-bad")

    assert found["rows"]["raw"]["n"] == 3
    assert found["notes"][0].startswith("7 rows were skipped: ")
    assert set(found["campaigns"]) == {"a"}


def weighted(tmp_path: Path) -> dict[str, Path]:
    """Rows, the same with a weight each, counts of impressions and clicks, and those one by one."""
    table = events(9, 300)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, len(table))
    clicks = np.minimum(rng.binomial(weights, 0.3), weights)
    held = {**columns(table), "bid": rng.lognormal(size=len(table)), "weight": weights}
    single = {name: np.repeat(column, weights) for name, column in held.items()}
    first = np.repeat(np.cumsum(weights) - weights, weights)
    single["outcome"] = np.arange(len(first)) - first < np.repeat(clicks, weights)
    del single["weight"]
    logs = {
        "rows": {name: np.repeat(column, weights) for name, column in held.items()},
        "weights": held,
        "counts": {**{n: c for n, c in held.items() if n != "outcome"}, "clicks": clicks},
        "single": single,
    }
    return {name: write(tmp_path / f"{name}.parquet", log) for name, log in logs.items()}


def assert_close(found: Any, expected: Any, without: str = "") -> None:
    assert found.keys() >= {name for name in expected if not without or without not in name}
    for name, value in expected.items():
        if without and without in name:
            continue
        assert found[name] == pytest.approx(value, rel=1e-6, nan_ok=True), name


def test_a_weight_is_that_many_rows(tmp_path, answered):
    logs = weighted(tmp_path)

    one = answered("evaluate", logs["rows"])
    other = answered("evaluate", logs["weights"], "--weights", "weight")

    assert_close(other["rows"]["raw"], one["rows"]["raw"])
    assert other["campaigns"].keys() == one["campaigns"].keys()


def test_counts_are_that_many_impressions(tmp_path, answered):
    logs = weighted(tmp_path)
    options = ("--impressions", "weight", "--clicks", "clicks")

    one = answered("evaluate", logs["single"])["rows"]["raw"]
    other = answered("evaluate", logs["counts"], *options)["rows"]["raw"]

    # csAUC needs outcomes of 0 and 1, a count has a rate.
    assert_close(other, one, without="cs_auc")
    backtest = ("--window", "3h", "--calibrators", "sir,isotonic", "--draws", "0")
    one = answered("backtest", logs["single"], *backtest)["rows"]
    other = answered("backtest", logs["counts"], *backtest, *options)["rows"]
    for name, card in one.items():
        assert_close(other[name], card)


@pytest.mark.parametrize(("weight", "said"), [(1e12, "1000000000000.0: a"), (3e9, "a bin holds")])
def test_weights_that_no_bin_can_hold_are_said_to_be(tmp_path, refused, weight, said):
    rows = [f"{START + 60 * n},a,0.5,{n % 2},{weight}\n" for n in range(400)]
    log = csv(tmp_path, "".join(rows), "time,campaign,score,outcome,w\n")
    options = ("--window", "3h", "--calibrators", "sir", "--draws", "0", "--weights", "w")

    error = refused("backtest", log, *options)

    assert said in error
    assert "dividing all weights by one number helps" in error


@pytest.mark.parametrize(
    ("head", "row", "columns", "expected"),
    [
        ("n,k", "3,4", {"impressions": "n", "clicks": "k"}, "k = 4.0; clicks are a whole number"),
        ("n,k", "1.5,1", {"impressions": "n", "clicks": "k"}, "n = 1.5; a count is a whole number"),
        ("w", "-1", {"weights": "w"}, "w = -1.0; a weight is a number from 0 to 1e12"),
        ("w", "2e12", {"weights": "w"}, "w = 2000000000000.0; a weight is a number from 0 to"),
        (
            "w",
            "0",
            {"weights": "w"},
            "the log has no rows that count: w = 0 in each; in one it must",
        ),
        ("w", "1", {"weights": "x"}, "name the weights column with --weights"),
    ],
)
def test_weights_that_cannot_be(tmp_path, head, row, columns, expected):
    path = csv(tmp_path, f"1767225600,a,0.5,1,{row}\n", f"{HEAD.strip()},{head}\n")

    with pytest.raises(CommandError) as caught:
        read_log(path, LogColumns(**columns))
    assert expected in str(caught.value)


@pytest.mark.parametrize("command", ["evaluate", "backtest"])
def test_the_first_wrong_row_is_named_whichever_column_is_read_first(tmp_path, refused, command):
    rows = f"{START},a,0.5,1\n{START},a,0.5,x\n{START},a,1.5,1\n{START},,0.5,1\nnoon,a,0.5,1\n"
    assert "row 2: outcome = 'x'" in refused(command, csv(tmp_path, rows))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("compare", "a", "b", "--weights", "w"), "--weights does not go with compare: its boot"),
        (("compare", "a", "b", "--skip-bad"), "--skip-bad does not go with compare: the row"),
        (("replay", "a", "--weights", "w"), "--weights does not go with a replay"),
        (("readout", "a", "--weights", "w"), "--weights does not go with a readout"),
        (("auction", "a", "--clicks", "w", "--impressions", "i"), "--impressions does not go"),
        (("behaviours", "a", "--behaviour", "x", "--weights", "w"), "--weights does not go with"),
        (("backtest", "a", "--delayed", "--weights", "w"), "--weights does not go with --delayed"),
        *(
            ((command, "a", *wrong), f"{wrong[-2]} {why}")
            for command in ("backtest", "replay")
            for wrong, why in (
                (("--delayed", "--outcome", "x"), "does not go with --delayed"),
                (("--delayed", "--bid", "x"), "does not go with --delayed"),
                (("--converted", "x"), "goes with --delayed only"),
            )
        ),
        (("evaluate", "a", "--clicks", "w"), "--impressions and --clicks go together"),
        (("evaluate", "a", "--clicks", "c", "--impressions", "i", "--weights", "w"), "--weights"),
        *(
            ((*command, "--clicks", "c", "--impressions", "i", "--outcome", "o"), "--outcome does")
            for command in (
                ("evaluate", "a"),
                ("backtest", "a"),
                ("lake", "bins", "a", "--output", "o"),
            )
        ),
    ],
)
def test_what_does_not_go_together(refused, arguments, expected):
    assert expected in refused(*arguments)


def test_every_command_reads_a_folder(tmp_path, answered):
    log = tmp_path / "log"
    log.mkdir()
    table = events(9, 300)
    half = np.arange(len(table)) < len(table) // 2
    write_log(log / "a.parquet", table.select(half))
    write_log(log / "b.parquet", table.select(~half))

    assert answered("evaluate", log)["rows"]["raw"]["n"] == len(table)
    found = answered("backtest", log, "--window", "3h", "--calibrators", "sir", "--draws", "0")
    assert found["rows"]["raw"]["n"] > 0
    found = answered("compare", f"{log}/*", f"{log}/*", "--draws", "0")
    assert found["rows_in_log"] == len(table)
    arms = ("--arm", "campaign", "--cost", "score", "--control", "campaign-1")
    found = answered("readout", log, *arms)
    assert sum(row["n"] for row in found["rows"].values()) == len(table)
