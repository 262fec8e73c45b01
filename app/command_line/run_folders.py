"""Folders of logs, one for each training run of a model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.command_line.compare_run import CompareRun
from app.command_line.compared import sample_notes
from app.command_line.compared_runs import ComparedRuns
from app.command_line.errors import CommandError
from app.command_line.table_files import delimiter_of
from evaluation.model_comparison import A, B, compared_models


def runs_of(path: Path) -> list[Path]:
    """The logs of a folder by name, or the one log; a `CommandError` for a folder without any."""
    if not path.is_dir():
        return [path]
    logs = [file for file in sorted(path.iterdir()) if file.is_file() and _is_log(file)]
    if not logs:
        raise CommandError(f"{path}: the folder holds no log (.parquet, .csv or .tsv)")
    return logs


def compare_runs(run: CompareRun, a: Path, b: Path) -> ComparedRuns:
    """Every run of both models, each on the rows of the first run of A."""
    paths = {A: runs_of(a), B: runs_of(b)}
    reference = paths[A][0]
    warnings: list[str] = []
    metrics: dict[str, dict[str, Mapping[str, float]]] = {A: {}, B: {}}
    for side, files in paths.items():
        for file in files:
            log = run.read(run.file(reference, A), run.file(file, side))
            models = compared_models(log, bias_share=run.bias_share, seed=run.seed)
            metrics[side][file.name] = models[B].metrics
            warnings = sample_notes(log, "logs have")
    names = {A: _named(a, paths[A]), B: _named(b, paths[B])}
    return ComparedRuns(names, metrics, run.seed, run.bias_share, warnings)


def _named(path: Path, runs: Sequence[Path]) -> str:
    return f"{path}, {len(runs)} {'run' if len(runs) == 1 else 'runs'}"


def _is_log(path: Path) -> bool:
    try:
        delimiter_of(path)
    except CommandError:
        return False
    return not path.name.startswith(".")
