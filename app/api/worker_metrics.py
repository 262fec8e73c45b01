"""Gauges over all API processes: what they serve, and what they use of the machine."""

import time
from collections import Counter
from collections.abc import Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.presence import Presence
from app.api.worker_records import Record


class WorkerCollector(Collector):
    """Reads what every live process last said; the one that answers says it anew first."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families; whichever process is asked says the same."""
        self._presence.tell()
        live = dict(self._presence.records.live())
        yield from _processes(live, labelled=not self._presence.is_alone)
        serving = [record for record in live.values() if record.serving]
        yield _gauge("sirocco_workers", "API processes that serve now.", len(serving))
        yield _by_version(serving)
        connections = sum(record.connections for record in live.values())
        yield _gauge("sirocco_connections", "Open connections.", connections)
        # One that still starts or already drains is judged only where no other is left.
        yield from _in_force(serving or list(live.values()), time.time())


def _by_version(serving: list[Record]) -> Metric:
    family = GaugeMetricFamily(
        "sirocco_workers_serving", "API processes that serve the version.", labels=["version"]
    )
    for version, number in sorted(Counter(record.version for record in serving).items()):
        family.add_metric([version], number)
    return family


def _in_force(records: list[Record], now: float) -> Iterator[Metric]:
    up = min(record.store_up for record in records)
    yield _gauge("sirocco_store_up", "Whether the store answers.", up)
    info = GaugeMetricFamily("sirocco_map_version_info", "Version in force.", labels=["version"])
    for version in sorted({record.version for record in records}):
        info.add_metric([version], 1)
    yield info
    age = GaugeMetricFamily("sirocco_map_age_seconds", "Since the version's publish.")
    since = [record.published_at for record in records if record.published_at is not None]
    if since:
        age.add_metric([], max(0.0, now - min(since)))
    yield age


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, float(value))


def _processes(live: dict[int, Record], *, labelled: bool) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    for row, record in live.items():
        labels = {"worker": str(row)} if labelled else {}
        for found in _process(record.process):
            empty = Metric(found.name, found.documentation, found.type)
            family = families.setdefault(found.name, empty)
            for sample in found.samples:
                family.add_sample(sample.name, labels, sample.value)
    yield from families.values()


def _process(process: int) -> list[Metric]:
    return list(ProcessCollector(pid=lambda: process, registry=None).collect())
