"""The page says what a run measured, and what it missed."""

from datetime import UTC, datetime

from benchmarks.__main__ import PARTS
from benchmarks.figures import Figure, Table
from benchmarks.page import measured_code, page
from benchmarks.parts import Result

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
COMMAND = "python -m benchmarks --write"
CODE = measured_code("abc", "abc")


def written(scalar_ns: float, other_cores: float = 0.0) -> str:
    """A page about one look-up."""
    rows: Table = {"scalar": {"sirocco: all": Figure(scalar_ns, 1.0, 2000.0)}}
    return "\n".join(page([Result(PARTS[0], rows, 1.0, other_cores)], COMMAND, CODE, AT))


def test_a_target_is_met_or_missed() -> None:
    assert "| one scalar look-up | at most 1,000 ns | 400 ns | met |" in written(400.0)
    missed = "| one scalar look-up | at most 1,000 ns | 1,200 ns | **missed** |"
    assert missed in written(1200.0)


def test_what_was_not_measured_is_not_met() -> None:
    lines = [line for line in written(400.0).splitlines() if line.startswith("| refit of")]
    assert len(lines) == 2
    assert all(line.endswith("| - | not measured in this run |") for line in lines)


def test_it_says_when_the_machine_was_busy() -> None:
    assert "No other work ran on the machine." in written(400.0)
    assert "**The machine was busy with other work** during: look_up (0.7 cores)." in written(
        400.0, other_cores=0.7
    )


def test_it_names_the_date_the_commands_and_the_figures() -> None:
    said = written(400.0)
    assert f"Written by `{COMMAND}` on 2026-01-02 at 03:04 UTC" in said
    assert "`python -m benchmarks.look_up`" in said
    assert "| scalar | 400 (1-2,000) |" in said


def test_it_says_which_code_was_measured() -> None:
    assert "* Code: sources abc" in written(400.0)


def test_it_warns_when_the_code_changed_during_the_run() -> None:
    assert measured_code("abc", "def").startswith("**The code changed during the run**")
