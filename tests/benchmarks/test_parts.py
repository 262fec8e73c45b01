"""Every part of the benchmarks runs, at a tiny size, and yields its rows. No figure is judged."""

import json
import math
from argparse import Namespace
from collections.abc import Callable

import pytest

from benchmarks import (
    calibrate,
    click_log,
    delayed,
    evaluate,
    fit,
    grid,
    ingest,
    look_up,
    metrics,
    pccem,
    refit,
)
from benchmarks.__main__ import PARTS
from benchmarks.figures import Cell, Figure, Table, middle
from benchmarks.parts import Part, Result, show
from benchmarks.timing import interleaved
from pccem import TrainingRules

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


def test_pccem_measures_training_scoring_and_labels() -> None:
    rules = TrainingRules(min_clicks=2, min_conversions=1, num_threads=1)
    rows = pccem.measure(pccem.Sizes(clicks=(3_000,), budget_seconds=0.01, rules=rules))
    check(rows)
    ours, plain = "3,000 clicks", "3,000, plain"
    assert set(rows["training wall s"]) == set(rows["scoring clicks/s of a core"]) == {ours, plain}
    assert rows["rounds"][ours] == rows["rounds"][plain]
    # Young clicks that converted count too.
    used = rows["delays: conversions used"]
    assert middle(used[ours]) > middle(used[plain])


def test_click_log_closes_and_labels_all_clicks() -> None:
    sizes = click_log.Sizes(open=(300,), labelled=(300, 600), trained_on=3_000)
    rows = click_log.measure(sizes)
    check(rows)
    assert set(rows["Redis bytes per open click"]) == {"300 clicks"}
    assert list(rows["refit CPU s"]) == ["300 clicks", "600 clicks"]
    assert all(rows[stage]["600 clicks"] for stage in click_log.STAGES)


def test_delayed_has_a_row_for_each_way_of_labelling() -> None:
    """Cuts and shares may be below 0; with little traffic, GC-N may be undefined."""
    sizes = delayed.Sizes(seeds=1, days=10, judged=1, clicks_per_hour=150, threads=1)
    rows = delayed.measure_large(sizes)
    ours = ["none", "stc", "ltc", *delayed.RULES, "oracle"]
    blind = [f"{name}; {what}" for what in delayed.SIGHTS for name in delayed.RULES]
    assert list(rows) == [*ours, *blind]
    assert set(rows["pccem"]) == {"PCOC", "GC-3", "GC-4", "GC-5", *delayed.OF_RULES}
    assert middle(rows["pccem"]["closed, %"]) == 0
    assert 0.5 < middle(rows["pccem_posterior"]["PCOC"]) < 2 < middle(rows["none"]["PCOC"])
    assert 0 < middle(rows["pccem; model without both"]["labels off, %"]) < 100


def test_grid_has_a_row_for_each_resolution() -> None:
    rows = grid.measure(count=8, resolutions=(3, 7))
    check(rows)
    assert list(rows) == ["raw samples, n = 990", "8 cells an octave", "128 cells an octave"]


def test_metrics_has_a_row_for_each_metric_size_and_rate() -> None:
    sizes = metrics.Sizes(rows=2_000, fewer_rows=500, groups=8, sample=2, rounds=2)
    rows = metrics.measure(sizes)
    check(rows)
    assert {"peer / sirocco", "sirocco / numpy"} < set(rows["auc, 2,000, 50%"])
    assert {f"cs_auc, {n}, {rate}" for n in ("500", "2,000") for rate in ("1%", "50%")} < set(rows)
    assert {f"{name}, 2,000, 8 groups" for name in ("gc_n", "gauc", "gcs_auc")} < set(rows)
    assert all(cells for cells in rows.values())


def test_evaluate_runs_the_command_on_each_log() -> None:
    rows = evaluate.measure(evaluate.Sizes(parquet=(2_000,), csv=1_000))
    check(rows)
    ours = "2,000 rows, Parquet"
    assert list(rows) == [ours, f"{ours}, by country", "1,000 rows, CSV"]
    assert set(rows[ours]) == {"wall s", "CPU s", "peak MB", "log MB"}


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
