"""Scorecards as tables and as JSON, of backtests and of delayed ones."""

import math
import re

import orjson
import pytest

from app.cli.measure.delayed_backtest import mean_of, print_delayed_json, show_delayed, spread_of
from app.cli.measure.scorecards import print_rows, show_scorecards


def card(**changes: float) -> dict[str, float]:
    usual = {"n": 521_414, "positives": 13_621, "pcoc": 0.689, "log_loss": 0.11771, "auc": 0.68}
    return {**usual, "gc_3": 0.888, "gc_4": 0.925, "gc_5": 0.947, **changes}


def test_json_is_rows_of_columns_and_the_undefined_is_null(capsys):
    print_rows({"raw": card(auc=math.nan, gc_3=math.inf), "sir": card()})

    printed = orjson.loads(capsys.readouterr().out)
    assert list(printed) == ["rows"]
    assert list(printed["rows"]) == ["raw", "sir"]
    assert list(printed["rows"]["raw"]) == [*card()]
    assert printed["rows"]["raw"]["auc"] is None
    assert printed["rows"]["raw"]["gc_3"] is None
    assert printed["rows"]["sir"] == card()


def test_json_keeps_every_digit(capsys):
    print_rows({"raw": card(pcoc=0.1 + 0.2)})

    assert orjson.loads(capsys.readouterr().out)["rows"]["raw"]["pcoc"] == 0.1 + 0.2


def test_a_table_in_a_file_or_a_pipe_is_not_cut(capsys, monkeypatch):
    """It has no width, and nobody can make it wider."""
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "a method with a name that leaves no room for numbers in a line of 80"
    show_scorecards({name: card(n=98_765_432)}, "log")

    (line,) = (line for line in capsys.readouterr().out.splitlines() if name in line)
    assert "98,765,432" in line


def test_a_table_shows_the_undefined_and_the_infinite(capsys):
    show_scorecards({"raw": card(auc=math.nan, gc_3=math.inf)}, "log")

    assert capsys.readouterr().out.splitlines()[3].split()[5:7] == ["-", "∞"]


@pytest.mark.parametrize(
    ("column", "form", "raw", "better"),
    [("pcoc", ".3f", 1.3, 0.9), ("log_loss", ".5f", 0.2, 0.1), ("auc", ".3f", 0.6, 0.7)],
)
def test_the_best_value_is_bold_and_the_truth_does_not_compete(
    capsys, monkeypatch, column, form, raw, better
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    perfect = {"pcoc": 1.0, "log_loss": 0.0, "auc": 1.0}[column]
    rows = {"raw": {column: raw}, "sir": {column: better}, "truth": {column: perfect}}
    show_scorecards({name: card(**values) for name, values in rows.items()}, "log")

    printed = capsys.readouterr().out.splitlines()
    bold = [line for line in printed if re.search(rf"\x1b\[1;32m *{better:{form}}", line)]
    assert [line.split()[0] for line in bold] == ["sir"]


def rows(**gc_3: float) -> dict[str, dict[str, float]]:
    """Rows whose GC-N are all the same."""
    return {
        row: {"n": 100.0, "pcoc": 1.5, "gc_3": value, "gc_4": value, "gc_5": value}
        for row, value in gc_3.items()
    }


def test_gc_n_is_compared_with_no_calibration(capsys):
    """The paper's Table 2, its row of PCCEM at N = 3."""
    show_delayed(
        {"log": rows(none=4.46, stc=5.67, worst=9.0, pccem=0.5, oracle=math.inf)}, "A title"
    )

    title, _, _, none, stc, worst, pccem, oracle, *_ = capsys.readouterr().out.splitlines()
    assert title == "A title"
    assert none.split() == ["none", "1.500", "4.460", "4.460", "4.460"]
    assert stc.split()[:4] == ["stc", "1.500", "5.670", "(+27.1%)"]
    assert worst.split()[:4] == ["worst", "1.500", "9.000", "(+102%)"]
    assert pccem.split()[:4] == ["pccem", "1.500", "0.500", "(-88.8%)"]
    assert oracle.split() == ["oracle", "1.500", "∞", "∞", "∞"]


def test_without_a_number_to_compare_with_there_is_no_comparison(capsys):
    show_delayed({"log": rows(none=math.nan, pccem=0.5)}, "A title")

    assert "%" not in capsys.readouterr().out


def test_several_logs_are_a_mean_and_a_standard_deviation(capsys):
    show_delayed({"a": rows(none=4.0, pccem=0.4), "b": rows(none=6.0, pccem=0.6)}, "Mean")

    said = capsys.readouterr().out
    assert "pccem  1.500  0.500 (-90.0%)" in " ".join(said.split("\n")).replace("   ", "  ")
    assert "Standard deviation over the 2 logs" in said
    assert [line.split() for line in said.splitlines()][-1] == ["pccem", "0.000", *["0.141"] * 3]


def test_means_and_spreads():
    """An infinite value spoils both, a single log has no spread."""
    logs = [rows(a=1.0, b=math.inf), rows(a=4.0, b=1.0), rows(a=1.0, b=1.0)]

    assert mean_of(logs)["a"]["gc_3"] == 2.0
    assert spread_of(logs)["a"]["gc_3"] == pytest.approx(math.sqrt(3.0))
    assert mean_of(logs)["b"]["gc_3"] == math.inf
    assert math.isnan(spread_of(logs)["b"]["gc_3"])
    assert math.isnan(spread_of(logs[:1])["a"]["gc_3"])


WIDE = card(n=98_765_432, positives=999_999)
WIDE_ROWS = rows(none=4.0, stc=54.123, pccem_posterior=0.5, oracle=0.4)


@pytest.mark.parametrize(
    "show",
    [
        lambda: show_scorecards({"raw": card(), "temperature": WIDE}, "log"),
        lambda: show_delayed({"log": WIDE_ROWS}, "A title"),
    ],
    ids=["scorecards", "delayed"],
)
def test_a_table_fits_a_terminal_of_80_columns(capsys, monkeypatch, show):
    monkeypatch.setenv("COLUMNS", "80")
    show()

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_json_of_one_log_is_that_of_any_table(capsys):
    print_delayed_json({"log": rows(none=1.0)})

    assert orjson.loads(capsys.readouterr().out) == {"rows": rows(none=1.0)}


def test_json_of_several_logs(capsys):
    print_delayed_json({"a": rows(none=1.0), "b": rows(none=3.0)})

    answer = orjson.loads(capsys.readouterr().out)
    assert answer["rows"] == rows(none=2.0)
    assert answer["spread"]["none"]["gc_3"] == pytest.approx(math.sqrt(2.0))
    assert answer["logs"] == {"a": rows(none=1.0), "b": rows(none=3.0)}
