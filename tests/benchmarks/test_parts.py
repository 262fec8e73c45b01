"""Every part of the benchmarks runs, at a tiny size, and yields its rows. No figure is judged."""

import json
import math
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from shutil import which

import numpy as np
import pytest

from app.api.cockpit.page import page_files
from benchmarks.__main__ import part_of
from benchmarks.core import (
    click_log,
    delayed,
    drift,
    evaluate,
    fields,
    fit,
    grid,
    labels,
    lake,
    look_up,
    metrics,
    pace,
    pccem,
    pooled,
    refit,
)
from benchmarks.core.folds import WORKERS, folds
from benchmarks.figures import Figure, Table, middle
from benchmarks.http import connections, encodings, ingest, memory, page, refresh
from benchmarks.http.servers import Started
from benchmarks.parts import PARTS, Part, run
from benchmarks.peers.environments import NotInstalled
from benchmarks.report.charts import drawings_of
from benchmarks.report.printing import print_json, print_tables
from benchmarks.soak import mixed_load, soak
from benchmarks.store import Store
from benchmarks.timing import interleaved
from pccem import TrainingRules
from tests.benchmarks.cells import check
from tests.benchmarks.test_page import result_of

LOOK_UPS = {
    *("sirocco: all", "sirocco: rows", "sirocco: look-up", "sirocco: look-up in numpy"),
    *("numpy.interp", "scikit-learn"),
}
STORING = {"events/s of a core", "server us", "Redis us", "wall us"}
OneProcess = Callable[..., AbstractContextManager[ProcessPoolExecutor]]
REFIT = {"CPU s", "wall s", "fold s", "evaluate s", "read s", "fit s", "report s", "publish s"}


def test_look_up_has_a_row_for_the_scalar_and_for_each_batch():
    sizes = look_up.Sizes(
        campaigns=5,
        batches=(1, 40),
        handfuls=(2,),
        others=(1, 7),
        other_batch=20,
        own_knots=(30,),
        budget_seconds=0.01,
        netcal=False,
    )
    rows = look_up.measure(sizes)
    check(rows)
    batches = ["batch of 1", "batch of 40"]
    others = ["20 of one map", "20 of 7 campaigns"]
    own = "own knots, batch of 30"
    assert list(rows) == ["scalar", *batches, "2 as lists", *others, own]
    assert all(set(rows[name]) == LOOK_UPS for name in (*batches, *others, own))
    assert set(rows["2 as lists"]) == {"sirocco: few", "sirocco: many"}
    ((_, points),) = drawings_of(result_of("look_up", rows))
    assert points


def test_a_peer_that_cannot_be_had_is_told_in_its_cells(monkeypatch):
    def refused(name: str) -> None:
        raise NotInstalled(f"{name} does not install")

    monkeypatch.setattr(look_up, "PeerCalibrator", refused)

    with look_up.Netcal() as peer:
        assert peer.nanoseconds(np.array([0.5]), [1]) == "netcal does not install"


def test_refresh_has_a_row_for_each_size_of_a_version(monkeypatch):
    """One cold start is that of all rows: a process takes a second of CPU until it is ready."""
    start_one, found = refresh._start, list[Started]()

    def start(store: Store) -> Started:
        if not found:
            found.append(start_one(store))
        return found[0]

    monkeypatch.setattr(refresh, "_start", start)
    rows = refresh.measure(refresh.Sizes(maps=((5, 3),), starts=1, services=1))
    for row in rows.values():
        # Of so few maps the memory is beneath that of chance, either way.
        assert isinstance(row.pop("bytes a map in a process"), float)
    check(rows)
    assert list(rows) == ["5 maps", "5 maps, own knots"]
    names = {"by notice, p50 ms", "by polling, p99 ms", "cold start, s", "worst pause, ms"}
    assert all(names <= {*row} for row in rows.values())


@pytest.mark.skipif(
    not (which("chromium") or which("chromium-browser")), reason="no browser: install chromium"
)
def test_the_page_has_a_row_for_each_view_within_its_budget_of_bytes():
    """Times are for the benchmark alone. The status is a request more than there are files."""
    rows = page.measure(page.Sizes(campaigns=50, rounds=1))
    check(rows)
    assert list(rows) == ["overview", "campaigns"]
    files = len(page_files()) - 1
    assert [row["requests"] for row in rows.values()] == [files + 1, files + 2]
    assert all(0.0 < middle(row["kB"]) < 100.0 for row in rows.values())


def test_encodings_have_a_row_for_each_batch():
    rows = encodings.measure(encodings.Sizes(campaigns=5, batches=(1, 50), budget_seconds=0.01))
    check(rows)
    assert list(rows) == ["batch of 1", "batch of 50"]
    forms = {"JSON", "MessagePack", "binary, names", "Arrow, ids", "binary, ids", "look-up"}
    assert set(rows["batch of 50"]) == forms


def test_fit_has_two_rows_for_each_window():
    rows = fit.measure(fit.Sizes(binned=(500,), raw=(500,), peers=(), budget_seconds=0.01))
    check(rows)
    assert list(rows) == ["from bins of 500", "from 500 raw samples"]


def test_ingest_stores_in_every_way_what_it_counts():
    rows = ingest.measure(ingest.Sizes(campaigns=5, batches={1: 3, 1_000: 1}, rounds=1))
    check(rows)
    for name, way in ingest.WAYS.items():
        found = {row for row in rows if row.startswith(f"{name}, ")}
        batches = ["1,000"] if way.compared else ["1", "1,000"]
        assert found >= {f"{name}, {kind}, batch of {n}" for kind in way.kinds for n in batches}
    assert all(set(row) == STORING for row in rows.values())


def test_soak_has_a_row_for_the_whole_each_kind_and_each_minute():
    """Memory may shrink, and refits may do no harm: of all numbers only these may be negative."""
    sizes = soak.Sizes(
        minutes=0.02,
        campaigns=20,
        hours=2,
        messages=5,
        connections=4,
        ramp_seconds=0.2,
        refit_seconds=1.0,
        turn_seconds=0.3,
        aside_seconds=0.2,
    )
    rows = soak.measure(sizes)
    kinds = [*(name for name, *_ in mixed_load.ASKED), f"events {mixed_load.EVENTS}"]
    aside = ["raw ASGI echo", "store stood still", "work", "scheduling stall"]
    assert list(rows) == ["whole run", *kinds, "all calibrations", "minute 1", *aside]
    grown = ("server MB grown", "server MB grown but for filters of ids", "worker MB grown")
    signed = {f"{what}, %" for what in (*grown, "refits move p99")}
    check({name: {k: v for k, v in row.items() if k not in signed} for name, row in rows.items()})
    whole = rows["whole run"]
    assert (whole["errors"], whole["wrong answers"]) == (0, 0)
    assert middle(whole["versions"]) >= 1
    assert middle(rows["calibrate 1"]["p50 ms"]) <= middle(rows["calibrate 1"]["p99.9 ms"])
    assert {"p50 ms", "p99 ms", "p99.9 ms", "server MB"} < set(rows["minute 1"])
    assert rows["raw ASGI echo"]["errors"] == 0


def test_refit_has_the_time_of_its_stages():
    """Memory may shrink by chance: of so few campaigns that is as much as it grows."""
    rows = refit.measure(refit.Sizes(campaigns=((10, 2),), sample=5))
    check({name: row for name, row in rows.items() if name != "grown MB"})
    assert set(rows) > REFIT
    ours, naive = "10 campaigns", "10, hashes and scikit-learn, SCALED"
    pooled = "10 campaigns, pooled"
    assert list(rows["CPU s"]) == [ours, naive, pooled]
    assert all(rows[stage][column] for stage in refit.STAGES for column in (ours, pooled))
    # All fit every campaign: they do the same work.
    assert rows["fitted"] == {ours: 10, naive: 10, pooled: 10}


def test_pccem_measures_training_scoring_and_labels():
    rules = TrainingRules(min_clicks=2, min_conversions=1, num_threads=1)
    rows = pccem.measure(pccem.Sizes(clicks=(1_500,), budget_seconds=0.01, rules=rules))
    check(rows)
    ours, plain = "1,500 clicks", "1,500, plain"
    assert set(rows["training wall s"]) == set(rows["scoring clicks/s of a core"]) == {ours, plain}
    assert rows["rounds"][ours] == rows["rounds"][plain]
    # Young clicks that converted count too.
    used = rows["delays: conversions used"]
    assert middle(used[ours]) > middle(used[plain])


def test_click_log_closes_and_labels_all_clicks():
    sizes = click_log.Sizes(open=(300,), labelled=(300, 600), trained_on=3_000)
    rows = click_log.measure(sizes)
    check(rows)
    assert set(rows["Redis bytes per open click"]) == {"300 clicks"}
    assert list(rows["refit CPU s"]) == ["300 clicks", "600 clicks"]
    assert all(rows[stage]["600 clicks"] for stage in click_log.STAGES)


def test_labels_of_several_workers_are_those_of_one():
    rows = labels.measure(labels.Sizes(clicks=600, trained_on=3_000, workers=(1, 2), worth_it=1))
    check({name: {k: v for k, v in row.items() if k != "tables"} for name, row in rows.items()})
    alone, two = rows["600 clicks, 1 workers"], rows["600 clicks, 2 workers"]
    assert alone["tables"] == two["tables"]
    assert two["others, CPU s"] > 0 == alone["others, CPU s"]


def test_pace_has_a_row_for_each_stream():
    sizes = pace.Sizes(1, 150, ("3 times shorter",), days=10, evaluated=1, threads=1)
    rows = pace.measure(sizes)
    check(rows)
    assert list(rows) == ["3 times shorter"]
    assert {"LTC, GC-3", "posterior, PCOC"} < {*rows["3 times shorter"]}
    assert len(pace.streams(sizes, 0)) == 10


def test_delayed_has_a_row_for_each_way_of_labelling():
    """Cuts and shares may be below 0; with little traffic, GC-N may be undefined."""
    sizes = delayed.Sizes(seeds=1, days=10, judged=0.5, clicks_per_hour=150, threads=1)
    rows = delayed.measure_large(sizes)
    ours = ["none", "stc", "ltc", *delayed.RULES, "oracle"]
    blind = [f"{name}; {what}" for what in delayed.SIGHTS for name in delayed.RULES]
    assert list(rows) == [*ours, *blind]
    assert set(rows["pccem"]) == {"PCOC", "GC-3", "GC-4", "GC-5", *delayed.OF_RULES}
    assert middle(rows["pccem"]["closed, %"]) == 0
    assert 0.5 < middle(rows["pccem_posterior"]["PCOC"]) < 2 < middle(rows["none"]["PCOC"])
    assert 0 < middle(rows["pccem; model without both"]["labels off, %"]) < 100


def test_grid_has_a_row_for_each_resolution():
    rows = grid.measure(count=8, resolutions=(3, 7))
    check(rows)
    assert list(rows) == ["raw samples, n = 990", "8 cells an octave", "128 cells an octave"]


def test_metrics_has_a_row_for_each_metric_size_and_rate():
    sizes = metrics.Sizes(rows=2_000, fewer_rows=500, groups=8, sample=2, rounds=2)
    rows = metrics.measure(sizes)
    check(rows)
    assert {"peer / sirocco", "sirocco / numpy"} < set(rows["auc, 2,000, 50%"])
    assert {f"cs_auc, {n}, {rate}" for n in ("500", "2,000") for rate in ("1%", "50%")} < set(rows)
    assert {f"{name}, 2,000, 8 groups" for name in ("gc_n", "gauc", "gcs_auc")} < set(rows)
    assert all(cells for cells in rows.values())


def test_evaluate_runs_the_command_on_each_log():
    rows = evaluate.measure(evaluate.Sizes(parquet=(2_000,), csv=1_000))
    check(rows)
    ours = "2,000 rows, Parquet"
    assert list(rows) == [ours, f"{ours}, by country", "1,000 rows, CSV"]
    assert set(rows[ours]) == {"wall s", "CPU s", "peak MB", "log MB"}


@pytest.fixture(scope="module")
def one_process() -> Iterator[OneProcess]:
    """One for all rows, where a part starts one for each: a start takes a second of CPU."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        yield lambda *_: nullcontext(process)


def test_fields_has_a_row_for_each_way(monkeypatch, one_process):
    monkeypatch.setattr(fields, "ProcessPoolExecutor", one_process)
    rows = fields.measure((20_000,))
    check(rows)
    ways = [f"{truth}: {way}" for truth in ("calibrated", "wrong") for way in ("rows", "cells")]
    assert list(rows) == [f"20,000 rows, {way}" for way in ways]
    by_rows, cells = (rows[f"20,000 rows, wrong: {way}"] for way in ("rows", "cells"))
    assert by_rows["segments"] == cells["segments"]
    assert middle(cells["off by, %"]) < 5


def test_the_lake_has_a_row_for_each_number_of_fields(monkeypatch, one_process):
    monkeypatch.setattr(lake, "ProcessPoolExecutor", one_process)
    rows = lake.measure(rows=2_000, files=2)
    check(rows)
    assert list(rows) == [f"2,000 rows, {n}" for n in ("0 fields", "1 field", "2 fields")]
    assert all(row["rows"] == 2_000 for row in rows.values())
    sizes = [middle(row["MB of bins"]) for row in rows.values()]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("name", PARTS)
def test_the_docstring_of_a_part_says_how_to_run_it(name):
    part = part_of(name)
    assert part.name == name
    assert f"    {part.command} [" in part.about


PART = Part(
    "look_up",
    "A title",
    "What it does.\n\n    python -m benchmarks look_up [--json]\n",
    measure=lambda: {"row": {"number": 2.0, "figure": Figure(2.0, 1.0, 3.0), "text": "none"}},
    measure_large=lambda: {"large": {"number": 4.0}},
    ratios=lambda rows: {"half": {"number": middle(next(iter(rows.values()))["number"]) / 2}},
)


def test_json_holds_every_cell(capsys):
    print_json([run(PART)])
    said = json.loads(capsys.readouterr().out)
    figure = {"median": 2.0, "low": 1.0, "high": 3.0}
    assert said["parts"] == {"look_up": {"row": {"number": 2.0, "figure": figure, "text": "none"}}}
    assert said["ratios"] == {"look_up": {"half": {"number": 1.0}}}
    assert datetime.fromisoformat(said["measured_at"]["look_up"]).tzinfo == UTC


def test_tables_hold_every_cell(capsys):
    print_tables([run(PART)])
    said = capsys.readouterr().out
    assert all(words in said for words in ("A title", "2 (1-3)", "none", "Ratios", "half"))


def test_a_table_that_is_too_wide_is_cut_by_columns_or_turned(capsys):
    """No cell is empty then, and none is cut short."""
    wide = {f"column {number}": number for number in range(14)}
    rows: Table = {"all": wide, "one": {"other": 1.0}, "two": {"other": 2.0}}
    print_tables([replace(run(PART), rows=rows, ratios={})])
    lines = capsys.readouterr().out.splitlines()

    assert [line.split("│")[1:3] for line in lines if "column 13" in line] == [
        [" column 13 ", "  13 "]
    ]
    assert [line.split()[1:4:2] for line in lines if "one" in line or "two" in line] == [
        ["one", "1"],
        ["two", "2"],
    ]
    assert " - " not in "\n".join(lines)


def test_a_large_run_says_so():
    large = run(PART, large=True)
    assert large.rows == {"large": {"number": 4.0}}
    assert large.command == "python -m benchmarks look_up --large"
    assert run(PART).command == "python -m benchmarks look_up"


def test_a_run_of_some_minutes_says_so():
    part = replace(PART, measure_minutes=lambda minutes: {"row": {"minutes": minutes}}, ratios=None)
    result = run(part, minutes=5.0)
    assert result.rows == {"row": {"minutes": 5.0}}
    assert result.command == "python -m benchmarks look_up --minutes 5"


def test_what_is_told_of_a_part_ends_before_its_command():
    assert run(PART).about == "What it does."


def test_progress_goes_to_standard_error(capsys):
    """Standard output is the figures'."""
    run(PART)
    said = capsys.readouterr()
    assert said.out == ""
    begun, done = (line.split(" ", 1)[1] for line in said.err.splitlines())
    assert begun == "look_up ..."
    # On a busy machine it may be one more.
    assert re.fullmatch(r"look_up: \d+ s", done)


def test_the_ways_of_a_measurement_are_all_called():
    calls = {"a": 0, "b": 0}

    def way(name: str) -> Callable[[], None]:
        def call() -> None:
            calls[name] += 1

        return call

    figures = interleaved({name: way(name) for name in calls}, budget_seconds=0.01)
    assert list(figures) == ["a", "b"]
    assert min(calls.values()) > 3


def test_memory_has_a_row_for_each_kind():
    rows = memory.measure(3_000)

    assert rows["id, packed"]["bytes"] < rows["id"]["bytes"] < rows["id, not packed yet"]["bytes"]
    assert rows["event"]["bytes"] > 20


def test_each_number_of_workers_has_its_figures():
    """It raises where an event is lost or doubled."""
    found = folds(2_000)

    assert len(found) == len(WORKERS)
    for row in found.values():
        assert 0.0 < row["busiest, s"] <= row["all, s"]


def test_false_alarms_delays_and_what_is_saved_are_measured():
    rows = drift.measure(count=8, traffic=(100,), refits=2, minutes=(60, 15))

    def cell(row: str) -> float:
        return middle(rows[row]["100 an hour"])

    assert rows.popitem()[1]["above the bound"] == 0

    names = list(rows)
    assert [name.split(",")[0] for name in names[:4]] == ["false alarms per 100 campaign-days"] * 4
    assert cell("hours until a jump x 6 is found, median") <= 2
    late = "hour weights on, hours 3-4"
    hourly, often = (cell(f"excess, refits every {m} min, {late}") for m in (60, 15))
    assert often < hourly


def test_a_client_is_measured_alone_and_beside_every_crowd():
    crowds = {"idle": 30, "slow-heads": 20, "half-bodies": 10, "dropped": 50}

    sizes = connections.Sizes(crowds, {"echo": "uvicorn-echo"}, requests=5, rounds=1)
    rows = connections.measure(sizes)

    assert list(rows) == [
        "alone",
        "beside 30 idle",
        "beside 20 with a byte a second",
        "beside 10 half bodies",
        "beside 50 dropped a second",
        "echo",
    ]
    times = {connections.CPU, connections.P50, connections.P99}
    assert set(rows["alone"]) == times
    assert set(rows["beside 30 idle"]) == times | {connections.MEMORY}
    assert all(middle(cell) >= 0 for row in rows.values() for cell in row.values())


def test_pooled_has_a_row_for_each_number_of_campaigns_and_of_hours():
    """Seconds of each method, and what each adds to the memory; over two days of the pooled method
    alone, which remembers as many hours."""
    rows = pooled.measure(pooled.Sizes(campaigns=(3, 5), two_days=(3,)))

    assert list(rows) == ["3 campaigns", "5 campaigns", "3 campaigns, 48 h"]
    seconds = {"pooled, cold s", "pooled, warm s"}
    assert seconds | {"sir s", "beta s"} <= {*rows["3 campaigns"]}
    assert {*rows["3 campaigns, 48 h"]} == seconds | {"pooled, cold, grown MB"}
    figures = [middle(cell) for row in rows.values() for cell in row.values()]
    assert all(math.isfinite(figure) for figure in figures)
