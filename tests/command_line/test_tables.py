import math
import re

import orjson
import pytest

from app.cli.measure.scorecards import print_rows, show_scorecards


def card(**changes: float) -> dict[str, float]:
    usual = {"n": 521_414, "positives": 13_621, "pcoc": 0.689, "log_loss": 0.11771, "auc": 0.68}
    return {**usual, "gc_3": 0.888, "gc_4": 0.925, "gc_5": 0.947, **changes}


def test_json_is_rows_of_columns_and_the_undefined_is_null(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows({"raw": card(auc=math.nan, gc_3=math.inf), "sir": card()})

    printed = orjson.loads(capsys.readouterr().out)
    assert list(printed) == ["rows"]
    assert list(printed["rows"]) == ["raw", "sir"]
    assert list(printed["rows"]["raw"]) == [*card()]
    assert printed["rows"]["raw"]["auc"] is None
    assert printed["rows"]["raw"]["gc_3"] is None
    assert printed["rows"]["sir"] == card()


def test_json_keeps_every_digit(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows({"raw": card(pcoc=0.1 + 0.2)})

    assert orjson.loads(capsys.readouterr().out)["rows"]["raw"]["pcoc"] == 0.1 + 0.2


def test_a_table_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_scorecards({"raw": card(), "temperature": card(n=98_765_432, positives=999_999)}, "log")

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_a_table_in_a_file_or_a_pipe_is_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no width, and nobody can make it wider."""
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "a method with a name that leaves no room for numbers in a line of 80"
    show_scorecards({name: card(n=98_765_432)}, "log")

    (line,) = (line for line in capsys.readouterr().out.splitlines() if name in line)
    assert "98,765,432" in line


def test_a_table_shows_the_undefined_and_the_infinite(capsys: pytest.CaptureFixture[str]) -> None:
    show_scorecards({"raw": card(auc=math.nan, gc_3=math.inf)}, "log")

    assert capsys.readouterr().out.splitlines()[3].split()[5:7] == ["-", "∞"]


@pytest.mark.parametrize(
    ("column", "form", "raw", "better"),
    [("pcoc", ".3f", 1.3, 0.9), ("log_loss", ".5f", 0.2, 0.1), ("auc", ".3f", 0.6, 0.7)],
)
def test_the_best_value_is_bold_and_the_truth_does_not_compete(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    form: str,
    raw: float,
    better: float,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    perfect = {"pcoc": 1.0, "log_loss": 0.0, "auc": 1.0}[column]
    rows = {"raw": {column: raw}, "sir": {column: better}, "truth": {column: perfect}}
    show_scorecards({name: card(**values) for name, values in rows.items()}, "log")

    printed = capsys.readouterr().out.splitlines()
    bold = [line for line in printed if re.search(rf"\x1b\[1;32m *{better:{form}}", line)]
    assert [line.split()[0] for line in bold] == ["sir"]
