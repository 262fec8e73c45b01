"""The page says what was measured, when, of which code, and what it missed."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from benchmarks.figures import Figure, Table
from benchmarks.parts import PARTS
from benchmarks.report.page import DOCS, other_machines, page, tables_of, write_page
from benchmarks.report.results import Result, Sources, save, saved
from benchmarks.report.targets import TARGETS

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SCALAR = next(target for target in TARGETS if target.what == "one scalar look-up")


def result_of(part: str, rows: Table, other_cores: float = 0.0, after: str = "abc") -> Result:
    """What a part might have yielded."""
    return Result(
        part=part,
        title=f"Title of {part}",
        about=f"About {part}.",
        command=f"python -m benchmarks {part}",
        rows=rows,
        seconds=12.0,
        other_cores=other_cores,
        measured_at=AT,
        machine="a machine",
        versions={"numpy": "2.1"},
        sources=Sources("abc", after),
    )


def look_up(scalar_ns: float, other_cores: float = 0.0, after: str = "abc") -> Result:
    """A result of one look-up."""
    rows: Table = {"scalar": {"sirocco: all": Figure(scalar_ns, 1.0, 2000.0)}}
    return result_of("look_up", rows, other_cores, after)


def written(*results: Result) -> str:
    """The page of the results."""
    return "\n".join(page(results))


def line_of(target: str, said: str) -> str:
    """The one line about the target."""
    (line,) = (line for line in said.splitlines() if line.startswith(f"| {target} |"))
    return line


def test_a_target_is_met_or_missed():
    within, above = SCALAR.limit * 0.8, SCALAR.limit * 1.2
    assert line_of(SCALAR.what, written(look_up(within))).endswith("| met |")
    assert line_of(SCALAR.what, written(look_up(above))).endswith("| **missed** |")


def test_what_was_not_measured_is_not_met():
    said = written(result_of("fit", {}))
    assert all(line_of(target.what, said).endswith("| - | not measured |") for target in TARGETS)


def test_a_text_in_place_of_a_figure_is_not_measured():
    """A peer that does not install meets no target and misses none."""
    said = written(result_of("look_up", {"scalar": {"sirocco: all": "does not start"}}))
    assert line_of(SCALAR.what, said).endswith("| - | not measured |")


def test_it_says_when_the_machine_was_busy():
    assert "No other work ran on the machine." in written(look_up(400.0))
    assert "**The machine was busy with other work** (0.7 cores)." in written(look_up(400.0, 0.7))


def test_each_part_has_its_own_command_and_date_and_its_figures_beside_the_page():
    said = written(look_up(400.0))
    assert "`python -m benchmarks look_up` on 2026-01-02 at 03:04 UTC; it took 12 s." in said
    assert "[Figures](benchmarks/look_up.json)" in said
    assert "About look_up." in said


def test_a_target_is_met_where_it_is_on_every_machine():
    other = {"machine": "slower", "about": "busy", "found": {SCALAR.what: SCALAR.limit * 2}}
    said = "\n".join(page([look_up(SCALAR.limit * 0.8)], [other]))
    line = line_of(SCALAR.what, said)
    assert line.endswith(
        f"| {SCALAR.limit * 0.8:,.0f} ns | {SCALAR.limit * 2:,.0f} ns | **missed** |"
    )
    assert "* slower: busy" in said


def test_it_says_which_code_was_measured():
    assert "Code: sources abc." in written(look_up(400.0))
    assert "**The code changed during the run**, from sources abc to def." in written(
        look_up(400.0, after="def")
    )


def test_it_says_that_parts_ran_on_different_versions():
    other = result_of("fit", {})
    changed = replace(other, versions={"numpy": "2.2"})
    assert "* Versions: numpy 2.1 or 2.2" in written(look_up(400.0), changed)


def test_ratios_can_be_targets():
    ratios: Table = {"ours over theirs": {"batch of 1": 0.5}}
    assert tables_of([replace(look_up(400.0), ratios=ratios)])["look_up ratios"] == ratios


def test_a_result_comes_back_as_it_was_kept(tmp_path):
    rows: Table = {"scalar": {"sirocco: all": Figure(1.5, 1.0, 2.0), "number": 3.0, "text": "none"}}
    result = result_of("look_up", rows)
    save(result, tmp_path)
    assert saved(tmp_path) == {"look_up": result}


def test_one_part_measured_anew_leaves_the_others(tmp_path):
    """The page is of all files, whichever was written last."""
    folder = tmp_path / "benchmarks"
    for result in (result_of("fit", {"a": {"b": 1.0}}), look_up(400.0), look_up(300.0)):
        save(result, folder)
    write_page(tmp_path)
    said = (tmp_path / "benchmarks.md").read_text()
    assert "| 300 ns |" in line_of(SCALAR.what, said)
    assert said.index("Title of look_up") < said.index("Title of fit")


def test_the_page_is_that_of_the_files():
    """After a change of a target or of a file: `python -m benchmarks.report.page`."""
    found = saved()
    results = [found[name] for name in PARTS if name in found]
    said = "\n".join(page(results, other_machines(DOCS / "benchmarks"))) + "\n"
    assert (DOCS / "benchmarks.md").read_text() == said


@pytest.mark.parametrize("name", sorted(saved()))
def test_every_file_is_of_a_part(name):
    assert name in PARTS
    assert saved()[name].part == name
