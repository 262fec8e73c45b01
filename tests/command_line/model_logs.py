"""Logs of the same impressions under two models."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.command_line import logs
from tests.command_line.logs import START

Scores = NDArray[np.float64]


def expit(odds: Scores) -> Scores:
    scores: Scores = 1 / (1 + np.exp(-odds))
    return scores


def impressions(rows: int = 4_000, seed: int = 0, days: int = 4) -> dict[str, Any]:
    """Columns of a log whose scores are right, and `odds`, their log-odds."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-1.5, 1.0, rows)
    return {
        "time": np.sort(START + rng.uniform(0, days * 86_400, rows)).round(3),
        "campaign": rng.choice(["x", "y", "z"], rows),
        "score": expit(odds),
        "outcome": (rng.random(rows) < expit(odds)).astype(int),
        "odds": odds,
    }


def write(path: Path, columns: dict[str, Any], **changes: Any) -> Path:
    """The columns with changes as Parquet; a change to None leaves a column out."""
    held = {name: column for name, column in {**columns, **changes}.items() if column is not None}
    held.pop("odds", None)
    return logs.write(path, held)


def two_logs(folder: Path, shift: float = 0.0, noise: float = 0.0, **options: Any) -> list[Path]:
    """A's scores are right; B's log-odds are off by a shift and by noise."""
    columns = impressions(**options)
    error = np.random.default_rng(7).normal(0, 1, len(columns["odds"])) * noise
    scores = expit(columns["odds"] + shift + error)
    return [
        write(folder / "a.parquet", columns),
        write(folder / "b.parquet", columns, score=scores),
    ]
