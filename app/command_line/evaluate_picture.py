"""The reliability picture of a log of any length."""

from pathlib import Path

import numpy as np

from app.command_line.evaluated_log import EvaluatedLog
from app.command_line.judged import Judged
from app.command_line.judged_hours import RAW
from app.command_line.reliability_picture import draw
from evaluation import EventTable


def draw_evaluated(log: EvaluatedLog, path: Path) -> None:
    """Save the picture of the scores as they are."""
    rows = log.metrics.sketch
    events = EventTable(
        times=np.zeros(len(rows)),
        campaigns=tuple(log.campaign_numbers),
        rows=rows.slices.astype(np.int32),
        scores=rows.scores,
        outcomes=rows.outcomes,
        weights=rows.weights,
    )
    draw(Judged(events, {RAW: events.scores}), (RAW,), log.name, path)
