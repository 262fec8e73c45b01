import math

import orjson
import pytest

from app.cli.measure.delayed_backtest import mean_of, print_delayed_json, show_delayed, spread_of

Card = dict[str, float]


def rows(**gc_3: float) -> dict[str, Card]:
    """Rows whose GC-N are all the same."""
    return {
        row: {"n": 100.0, "pcoc": 1.5, "gc_3": value, "gc_4": value, "gc_5": value}
        for row, value in gc_3.items()
    }


def test_gc_n_is_compared_with_no_calibration(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_without_a_number_to_compare_with_there_is_no_comparison(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_delayed({"log": rows(none=math.nan, pccem=0.5)}, "A title")

    assert "%" not in capsys.readouterr().out


def test_several_logs_are_a_mean_and_a_standard_deviation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_delayed({"a": rows(none=4.0, pccem=0.4), "b": rows(none=6.0, pccem=0.6)}, "Mean")

    said = capsys.readouterr().out
    assert "pccem  1.500  0.500 (-90.0%)" in " ".join(said.split("\n")).replace("   ", "  ")
    assert "Standard deviation over the 2 logs" in said
    assert [line.split() for line in said.splitlines()][-1] == ["pccem", "0.000", *["0.141"] * 3]


def test_a_table_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_delayed({"log": rows(none=4.0, stc=54.123, pccem_posterior=0.5, oracle=0.4)}, "A title")

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_means_and_spreads() -> None:
    """An infinite value spoils both, a single log has no spread."""
    logs = [rows(a=1.0, b=math.inf), rows(a=4.0, b=1.0), rows(a=1.0, b=1.0)]

    assert mean_of(logs)["a"]["gc_3"] == 2.0
    assert spread_of(logs)["a"]["gc_3"] == pytest.approx(math.sqrt(3.0))
    assert mean_of(logs)["b"]["gc_3"] == math.inf
    assert math.isnan(spread_of(logs)["b"]["gc_3"])
    assert math.isnan(spread_of(logs[:1])["a"]["gc_3"])


def test_json_of_one_log_is_that_of_any_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_delayed_json({"log": rows(none=1.0)})

    assert orjson.loads(capsys.readouterr().out) == {"rows": rows(none=1.0)}


def test_json_of_several_logs(capsys: pytest.CaptureFixture[str]) -> None:
    print_delayed_json({"a": rows(none=1.0), "b": rows(none=3.0)})

    answer = orjson.loads(capsys.readouterr().out)
    assert answer["rows"] == rows(none=2.0)
    assert answer["spread"]["none"]["gc_3"] == pytest.approx(math.sqrt(2.0))
    assert answer["logs"] == {"a": rows(none=1.0), "b": rows(none=3.0)}
