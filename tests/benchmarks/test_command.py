"""`python -m benchmarks`: which parts run, what is kept, what the exit code says."""

import json

import pytest

import benchmarks.__main__ as command
from benchmarks.figures import Table
from benchmarks.parts import PARTS, Part
from benchmarks.report.page import write_page
from benchmarks.report.results import Result, save


@pytest.fixture
def kept(monkeypatch) -> list[str]:
    """Names of the parts whose results are kept; the parts are made up, and `fit` fails."""
    names: list[str] = []

    def part_of(name: str) -> Part:
        def measure() -> Table:
            if name == "fit":
                raise RuntimeError("no fit today")
            return {"row": {"column": 1.0}}

        return Part(name, f"Title of {name}", "About.", measure)

    def keep(result: Result) -> None:
        names.append(result.part)

    monkeypatch.setattr(command, "part_of", part_of)
    monkeypatch.setattr(command, "keep", keep)
    return names


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of the command."""
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    return command.main()


def test_the_named_parts_are_run_in_the_order_of_the_command(monkeypatch, kept):
    assert run(monkeypatch, "refit", "calibrate", "--write") == 0
    assert kept == ["refit", "calibrate"]


def test_without_a_name_all_parts_are_run_and_a_failure_does_not_stop_them(
    monkeypatch, kept, capsys
):
    """What was measured before and after it is kept, and the exit code tells."""
    assert run(monkeypatch, "--write") == 1
    assert kept == [name for name in PARTS if name != "fit"]
    said = capsys.readouterr()
    assert "no fit today" in said.err
    assert "Title of refit" in said.out


def test_nothing_is_kept_unless_asked_for(monkeypatch, kept):
    assert run(monkeypatch, "refit") == 0
    assert kept == []


def test_an_unknown_part_is_refused_before_any_is_run(monkeypatch, kept, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "refit", "refits", "--write")
    assert kept == []
    assert "no such part: refits" in capsys.readouterr().err


def test_one_part_writes_its_file_and_the_page(monkeypatch, tmp_path):
    """`python -m benchmarks <part> --write` is enough to measure one part anew."""
    monkeypatch.setattr(command, "save", lambda result: save(result, tmp_path / "benchmarks"))
    monkeypatch.setattr(command, "write_page", lambda: write_page(tmp_path))
    part = Part("fit", "A title", "About.", lambda: {"row": {"column": 1.5}})
    monkeypatch.setattr(command, "part_of", lambda name: part)
    assert run(monkeypatch, "fit", "--write") == 0
    assert "## A title" in (tmp_path / "benchmarks.md").read_text()
    kept = json.loads((tmp_path / "benchmarks" / "fit.json").read_text())
    assert {"column": 1.5} in [*kept["rows"].values()]
