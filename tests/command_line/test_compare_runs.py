"""`sirocco compare` of folders: training runs of two models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli.measure.compare import CompareRun, compare_runs
from app.cli.measure_logs import CompareOptions, PairedColumnOptions
from app.results.comparison import CALIBRATED, PLAIN, ComparedRuns
from evaluation import calibrated_losses, log_loss, metric_accuracy
from tests.command_line.model_logs import expit, impressions, write


def folders(
    folder: Path, runs: int = 6, noise: float = 0.6, level: float = 0.4, rows: int = 1_500
) -> tuple[Path, Path]:
    """Runs whose level is off by chance; B's ranking is noisy besides."""
    columns, rng = impressions(rows), np.random.default_rng(5)
    for side, worse in (("a", 0.0), ("b", noise)):
        (folder / side).mkdir()
        for run in range(runs):
            error = rng.normal(0, level) + worse * rng.normal(0, 1, rows)
            scores = expit(columns["odds"] + error)
            write(folder / side / f"run-{run}.parquet", columns, score=scores)
    (folder / "a" / "notes.txt").write_text("no log")
    return folder / "a", folder / "b"


def runs_of(a: list[float], b: list[float], calibrated: tuple[list[float], list[float]]) -> Any:
    """Runs with these log losses, plain and calibrated."""
    sides = {"A": (a, calibrated[0]), "B": (b, calibrated[1])}
    return ComparedRuns(
        {"A": "a", "B": "b"},
        {
            side: {
                f"{run}": {PLAIN: plain, CALIBRATED: other}
                for run, (plain, other) in enumerate(zip(*values, strict=True))
            }
            for side, values in sides.items()
        },
        0,
        0.1,
    )


def test_metric_accuracy_over_all_pairs_of_runs(tmp_path, answered):
    """Of the plain and the calibrated loss on the same rows; every log of a folder is a run."""
    found = answered("compare", *folders(tmp_path))

    assert [len(runs) for runs in found["runs"].values()] == [6, 6]
    for name in (PLAIN, CALIBRATED):
        a, b = ([run[name] for run in found["runs"][side].values()] for side in "AB")
        expected = metric_accuracy(a, b)
        assert found["metric_accuracy"][name]["value"] == pytest.approx(expected.value)
        assert found["rows"]["A"][name] == pytest.approx(np.mean(a))
        assert found["spread"]["B"][name] == pytest.approx(np.std(b, ddof=1))
    assert found["better"] == "A"


def test_a_volatile_level_makes_the_calibrated_metric_the_better_one(tmp_path, answered):
    """Runs differ in their level by chance, models in their ranking."""
    found = answered("compare", *folders(tmp_path, level=0.8))

    accuracy = found["metric_accuracy"]
    assert accuracy[CALIBRATED]["value"] == 1.0
    assert accuracy[PLAIN]["value"] < 1.0
    assert found["spread"]["A"][CALIBRATED] < 0.2 * found["spread"]["A"][PLAIN]
    assert "The calibrated log loss says so more often, in 100.0%" in found["verdict"]


def test_every_run_is_measured_on_the_same_rows(tmp_path, answered):
    """With one split into bias rows and the rest."""
    a, _ = folders(tmp_path, runs=2, rows=400)
    columns = impressions(400)
    run = write(tmp_path / "one.parquet", columns, score=columns["score"] / 2)

    found = answered("compare", a, run, "--seed", 3)

    scores, y = columns["score"] / 2, columns["outcome"]
    expected = calibrated_losses(scores, y, "log", seed=3)
    metrics = found["runs"]["B"]["one.parquet"]
    assert metrics["log_loss"] == pytest.approx(log_loss(scores, y))
    assert metrics[CALIBRATED] == pytest.approx(expected.value)
    assert found["spread"]["B"][CALIBRATED] is None


def test_a_sample_of_long_logs_is_told(tmp_path):
    """The same rows of every run."""
    a, b = folders(tmp_path, runs=2, rows=900)
    given = CompareOptions(draws=0, bias_share=0.2, json=True)
    run = CompareRun(given, PairedColumnOptions(), most_rows=500)

    found = compare_runs(run, a, b)

    assert found.warnings[0].startswith("The logs have 900 rows.")
    assert len({metrics["positives"] for metrics in found.runs["A"].values()}) == 1


def test_runs_must_hold_the_same_impressions(tmp_path, refused):
    a, b = folders(tmp_path, runs=2, rows=60)
    columns = impressions(60)
    write(b / "run-9.parquet", columns, outcome=1 - columns["outcome"])

    said = refused("compare", a, b)

    assert "in run-0.parquet and" in said
    assert "in run-9.parquet" in said


def test_the_folder_of_a_url_holds_runs_too(tmp_path, answered):
    a, b = folders(tmp_path, runs=2, rows=400)
    (b / "_part.parquet").write_text("is being written")

    there, here = (answered("compare", *logs) for logs in ((f"file://{a}", f"file://{b}"), (a, b)))

    assert there["names"] == {"A": f"file://{a}, 2 runs", "B": f"file://{b}, 2 runs"}
    assert there["runs"] == here["runs"]


def test_a_folder_without_logs(tmp_path, refused):
    a, _ = folders(tmp_path, runs=1, rows=60)
    (tmp_path / "none").mkdir()

    assert "none: the folder holds no log" in refused("compare", a, tmp_path / "none")


def test_the_plain_metric_decides_who_is_better():
    """Where the calibrated one disagrees that is said, and nothing is flipped."""
    runs = runs_of([1.0, 2.0], [3.0, 4.0], ([5.0, 6.0], [1.0, 2.0]))

    assert runs.better == "A"
    assert runs.accuracy(CALIBRATED).value == 0.0
    assert "The calibrated log loss disagrees: it puts B first, in 100.0% of the pairs." in (
        runs.conclusion
    )


def test_accuracy_is_that_of_the_better_model():
    """B is, so shares and their intervals are turned round."""
    runs = runs_of([3.0, 4.0, 2.0], [1.0, 2.5, 1.5], ([3.0, 4.0, 2.0], [1.0, 2.5, 1.5]))

    accuracy, turned = runs.accuracy(PLAIN), runs.share_of_a(PLAIN)
    assert runs.better == "B"
    assert (accuracy.value, accuracy.lower, accuracy.upper) == pytest.approx(
        (1 - turned.value, 1 - turned.upper, 1 - turned.lower)
    )
    assert runs.conclusion.startswith("B is better, as far as these runs tell")
    assert "no more often" in runs.conclusion


def test_a_draw_is_a_draw():
    runs = runs_of([1.0, 4.0], [2.0, 3.0], ([1.0, 1.0], [1.0, 1.0]))

    assert runs.better is None
    assert runs.conclusion.startswith("A and B cannot be told apart")


def test_an_undefined_metric_is_no_draw():
    runs = runs_of([np.nan, 1.0], [1.0, 2.0], ([1.0, 1.0], [1.0, 1.0]))

    assert runs.conclusion.startswith("Who is better is not known: the log loss of a run")


def test_an_undefined_calibrated_metric_is_told():
    runs = runs_of([1.0] * 9, [2.0] * 9, ([np.nan] * 9, [1.0] * 9))

    assert np.isnan(runs.accuracy(CALIBRATED).value)
    assert "The calibrated log loss is undefined: give a larger --bias-share." in runs.conclusion
    assert runs.conclusion.startswith("A is better: a run of it has the lower log loss in 100.0%")


def test_tables_and_page(tmp_path, called):
    """In 80 columns, and the runs of both as charts."""
    run = called("compare", *folders(tmp_path, runs=3), "--report", "page.html")

    assert max(map(len, run.stdout.split("B: ")[1].split("\n\n")[0].splitlines()[1:])) <= 80
    assert "metric accuracy" in run.stdout
    assert "Mean and standard deviation over the runs." in run.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "calibrated log loss of every run" in page
    assert page.count("<svg") >= 3
