"""Small click logs of the synthetic platform."""

from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.datasets.clicks import write_click_log
from evaluation import ClickPlatform, ClickStream

SHORT = {"SIROCCO_ATTRIBUTION_HOURS": "conversion=24", "SIROCCO_MIN_TRAINING_CONVERSIONS": "20"}
"""Settings under which four days are enough."""

DAYS = 4


@cache
def short(seed: int) -> ClickStream:
    """Four days of two campaigns."""
    return (
        ClickPlatform(campaigns=2, clicks_per_hour=60, cvr=0.2, seed=seed)
        .hours(0, 24 * DAYS)
        .stream
    )


def write_short(path: Path, seed: int = 1) -> Path:
    """The same in a file, conversions known to the end."""
    write_click_log(path, [short(seed)], known_until=ClickPlatform().start + (DAYS + 7) * 86_400.0)
    return path


def write_rows(path: Path, **changed: object) -> Path:
    """Two clicks, the first with a conversion; columns changed, or left out where None."""
    columns: dict[str, object] = {
        "time": [1_767_225_600.0, 1_767_225_700.0],
        "campaign": ["a", "b"],
        "score": [0.5, 0.25],
        "converted_at": [1_767_225_660.0, None],
        "behaviour.page_views": [3.0, None],
        "feature.device": ["phone", None],
    }
    columns.update(changed)
    pq.write_table(pa.table({k: v for k, v in columns.items() if v is not None}), path)
    return path
