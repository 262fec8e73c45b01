"""Clicks, behaviours and conversions of days, as events of the service and as files of a lake."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from app.storage.batch import EventBatch
from app.storage.blocks import StoredConversion
from app.storage.clicks import OpenClick
from evaluation.backtest.click_history import ClickStream
from tests.worker.delayed.click_world import CAMPAIGNS, TARGET

HOUR = 3600.0
LOGS = ("clicks", "behaviours", "conversions")
Row = dict[str, Any]


@dataclass(frozen=True)
class ClickWorld:
    """The rows of the three logs."""

    rows: Mapping[str, list[Row]]

    @classmethod
    def of(cls, stream: ClickStream, seed: int = 1) -> "ClickWorld":
        """Page views in and out of the post-click window, repeats of each kind of row, conversions
        before their click and without one."""
        rng = np.random.default_rng(seed)
        rows: dict[str, list[Row]] = {log: [] for log in LOGS}
        for place, at in enumerate(stream.clicks.clicked_at.tolist()):
            name = f"click-{place}"
            rows["clicks"].append(_click(stream, place, name, at))
            for _ in range(rng.integers(0, 4)):
                view = {"click_id": name, "time": at + rng.uniform(0, 1.2 * HOUR)}
                view |= {"name": str(rng.choice(["pages", "cart"])), "value": rng.exponential()}
                rows["behaviours"].append(view)
            if not np.isnan(stream.delay[place]):
                converted = at + float(stream.delay[place])
                rows["conversions"].append({"click_id": name, "time": converted})
        for log in LOGS:
            rows[log] += rows[log][::50]
        late = [{**row, "time": row["time"] + 60} for row in rows["conversions"][::9]]
        early = [{**row, "time": row["time"] - 9 * HOUR} for row in rows["conversions"][::31]]
        orphan = {"click_id": "nobody", "time": rows["clicks"][9]["time"]}
        rows["conversions"] += [*late, *early, orphan]
        return cls(rows)

    def batches(self) -> Iterator[EventBatch]:
        """Requests of a thousand events: clicks, then behaviours, then conversions."""
        for log in LOGS:
            for first in range(0, len(self.rows[log]), 1000):
                batch = EventBatch()
                for place, row in enumerate(self.rows[log][first : first + 1000]):
                    _add(batch, log, place, row)
                yield batch

    def write(self, folder: Path, seconds: float = HOUR) -> Path:
        """Files of so many seconds of each log, rows in any order; returns the folder."""
        rng = np.random.default_rng(2)
        for log, rows in self.rows.items():
            (folder / log).mkdir(parents=True)
            by_part = defaultdict(list)
            for place in rng.permutation(len(rows)).tolist():
                by_part[int(rows[place]["time"] // seconds)].append(rows[place])
            for part, some in by_part.items():
                pyarrow.parquet.write_table(_table(log, some), folder / log / f"{part}.parquet")
        return folder


def _click(stream: ClickStream, place: int, name: str, at: float) -> Row:
    columns = stream.clicks.features.columns
    device = columns["feature.device"]
    return {
        "click_id": name,
        "time": at,
        "campaign": CAMPAIGNS[stream.clicks.rows[place]],
        "score": float(stream.clicks.scores[place]),
        "feature.age": float(columns["feature.age"][place]) if place % 7 else None,
        "feature.device": device.categories[device.codes[place]] if place % 5 else None,
        "segment": ("new", "")[place % 2],
    }


def _add(batch: EventBatch, log: str, place: int, row: Row) -> None:
    name, at = row["click_id"], row["time"]
    if log == "clicks":
        features = {
            key.removeprefix("feature."): value
            for key, value in row.items()
            if key.startswith("feature.") and value is not None
        }
        fields = {"segment": row["segment"]} if row["segment"] else {}
        scores = {TARGET: row["score"]}
        click = OpenClick(name, row["campaign"], at, scores, features, fields=fields)
        batch.add_click(place, click, opens=True)
    elif log == "behaviours":
        batch.add_behaviour(place, name, row["name"], at, row["value"])
    else:
        batch.add_conversion(place, StoredConversion(name, TARGET, at))


def _table(log: str, rows: list[Row]) -> Any:
    table = pa.Table.from_pylist(rows)
    if log == "conversions":
        # Of two targets; those of the other are none of ours.
        others = [{**row, "target": "other"} for row in rows[:3]]
        table = pa.Table.from_pylist([*({**row, "target": TARGET} for row in rows), *others])
    return table
