"""Every part of the benchmarks runs, at a tiny size, and yields its rows. No figure is judged."""

import json
import math
from argparse import Namespace
from collections.abc import Callable

import pytest

from benchmarks import calibrate, fit, grid, ingest, look_up, refit
from benchmarks.__main__ import PARTS
from benchmarks.figures import Cell, Figure, Table
from benchmarks.parts import Part, Result, show
from benchmarks.timing import interleaved

LOOK_UPS = {"sirocco: all", "sirocco: rows", "sirocco: look-up", "numpy.interp", "scikit-learn"}
STORING = {"events/s of a core", "server us", "Redis us"}
REFIT = {"CPU s", "wall s", "fold s", "judge s", "read s", "fit s", "report s", "publish s"}


def numbers(cell: Cell) -> tuple[float, ...]:
    """All numbers of a cell."""
    return tuple(cell) if isinstance(cell, Figure) else (cell,)


def check(rows: Table) -> None:
    """Every cell is a finite number, and none is negative."""
    cells = [number for row in rows.values() for cell in row.values() for number in numbers(cell)]
    assert cells
    assert all(math.isfinite(number) and number >= 0 for number in cells)


def test_look_up_has_a_row_for_the_scalar_and_for_each_batch() -> None:
    rows = look_up.measure(look_up.Sizes(campaigns=5, batches=(1, 40), budget_seconds=0.01))
    check(rows)
    assert list(rows) == ["scalar", "batch of 1", "batch of 40"]
    assert set(rows["batch of 40"]) == LOOK_UPS


def test_fit_has_two_rows_for_each_window() -> None:
    rows = fit.measure(fit.Sizes(samples=(500,), budget_seconds=0.01))
    check(rows)
    assert list(rows) == ["from bins of 500", "from 500 raw samples"]


def test_ingest_stores_in_every_way_what_it_counts() -> None:
    rows = ingest.measure(ingest.Sizes(campaigns=5, events=20, requests=2, rounds=1))
    check(rows)
    assert list(rows) == [
        f"{way}, {kind}" for way in ingest.WAYS for kind in (ingest.PLAIN, ingest.WITH_IDS)
    ]
    assert all(set(row) == STORING for row in rows.values())


def test_calibrate_has_a_row_for_each_server() -> None:
    sizes = calibrate.Sizes(
        campaigns=5, batches=(1, 40), rounds=1, round_seconds=0.001, most_requests=16
    )
    rows = calibrate.measure(sizes)
    check(rows)
    assert list(rows) == list(calibrate.SERVERS)
    assert list(rows["sirocco"]) == ["batch of 1", "batch of 40"]


def test_refit_has_the_time_of_its_stages() -> None:
    rows = refit.measure(refit.Sizes(campaigns=((10, 2),), sample=5))
    check(rows)
    assert set(rows) > REFIT
    ours, naive = "10 campaigns", "10, hashes and scikit-learn, SCALED"
    assert list(rows["CPU s"]) == [ours, naive]
    assert all(rows[stage][ours] for stage in refit.STAGES)
    # Both fit every campaign: they do the same work.
    assert rows["fitted"] == {ours: 10, naive: 10}


def test_grid_has_a_row_for_each_resolution() -> None:
    rows = grid.measure(count=8, resolutions=(3, 7))
    check(rows)
    assert list(rows) == ["raw samples, n = 990", "8 cells an octave", "128 cells an octave"]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_docstring_of_a_part_says_how_to_run_it(part: Part) -> None:
    assert f"    {part.command} [" in part.about


def test_json_holds_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    rows: Table = {"row": {"number": 2.0, "figure": Figure(2.0, 1.0, 3.0)}}
    show([Result(PARTS[0], rows, 1.0, 0.0)], Namespace(json=True))
    said = json.loads(capsys.readouterr().out)
    figure = {"median": 2.0, "low": 1.0, "high": 3.0}
    assert said["parts"] == {PARTS[0].name: {"row": {"number": 2.0, "figure": figure}}}


def test_the_ways_of_a_measurement_are_all_called() -> None:
    calls = {"a": 0, "b": 0}

    def way(name: str) -> Callable[[], None]:
        def call() -> None:
            calls[name] += 1

        return call

    figures = interleaved({name: way(name) for name in calls}, budget_seconds=0.01)
    assert list(figures) == ["a", "b"]
    assert min(calls.values()) > 3
