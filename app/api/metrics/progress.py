"""Gauges of the refit that is under way."""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.api.metrics.counters import gauge
from app.api.snapshot import Refresher


class ProgressCollector(Collector):
    """How far the worker said it was, in its last sign of life that the refresher has read."""

    def __init__(self, refresher: Refresher, targets: tuple[str, ...]) -> None:
        self._refresher = refresher
        self._targets = targets

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Of each target that the settings name; of none while there is no worker."""
        said = self._refresher.worker.get("progress", {})
        samples = (([target], said.get(target)) for target in self._targets)
        text = "Share of the target that the refit under way has fitted; 1 while it is not fitted."
        yield gauge("sirocco_refit_progress_ratio", text, ["target"], samples)
