"""What one of several API processes says of all of them."""

import os
import time
from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest

from app.api.application import create_app
from app.api.metrics.workers import WorkerRecord, WorkerSlot, new_file
from app.api.resources import Resources
from app.settings import Settings

NOWHERE = "unix:///nowhere/redis.sock"
ROWS = 3
OURS, OTHER, SPARE = range(ROWS)


@pytest.fixture
def file() -> Iterator[int]:
    """What the processes share."""
    made = new_file(ROWS)
    yield made
    os.close(made)


@pytest.fixture
def resources(file: int) -> Resources:
    """Of a process in the first row, which serves no version."""
    return resources_in(file, OURS)


def resources_in(file: int, row: int) -> Resources:
    app = create_app(Settings(), NOWHERE, WorkerSlot.shared(file, ROWS, row))
    found: Resources = app.state.resources
    found.status.serving = True
    return found


def tell(resources: Resources, row: int, **said: object) -> None:
    """Another process says something of itself; it is our parent, for want of another."""
    usual = WorkerRecord(os.getppid(), 5, True, True, time.time() - 100, "000002-b")
    resources.status.table.write(row, usual._replace(**said))


def sample(resources: Resources, name: str, **labels: str) -> float | None:
    found: float | None = resources.metrics.registry.get_sample_value(f"sirocco_{name}", labels)
    return found


def test_processes_that_serve_are_counted_by_version(resources):
    tell(resources, OTHER)
    tell(resources, SPARE, serving=False, version="000001-a")

    assert sample(resources, "workers") == 2
    assert sample(resources, "workers_serving", version="none") == 1
    assert sample(resources, "workers_serving", version="000002-b") == 1
    assert sample(resources, "workers_serving", version="000001-a") is None
    assert sample(resources, "map_version_info", version="000002-b") == 1


def test_the_store_is_up_when_every_process_reaches_it(resources):
    tell(resources, OTHER, store_up=True)
    one_is_cut_off = sample(resources, "store_up")
    resources.refresher.store_up = True

    assert (one_is_cut_off, sample(resources, "store_up")) == (0, 1)


def test_a_process_that_still_starts_is_not_judged(resources):
    """It serves nobody: neither its store nor its version matter."""
    resources.refresher.store_up = True
    tell(resources, OTHER, serving=False, store_up=False, published_at=1.0)

    assert sample(resources, "store_up") == 1
    assert sample(resources, "map_age_seconds") is None


def test_a_process_alone_in_its_end_still_answers_for_itself(resources):
    resources.refresher.store_up = True
    resources.status.serving = False

    assert sample(resources, "workers") == 0
    assert sample(resources, "store_up") == 1


def test_the_age_is_that_of_the_oldest_version(resources):
    tell(resources, OTHER, published_at=time.time() - 100)
    tell(resources, SPARE, published_at=time.time() - 5000)

    age = sample(resources, "map_age_seconds")

    assert age is not None
    assert 5000 <= age < 5060


def test_what_the_dead_last_said_is_forgotten(resources):
    tell(resources, OTHER)
    before = [sample(resources, name) for name in ("workers", "connections")]

    resources.status.table.clear(OTHER)

    assert before == [2, 5]
    assert [sample(resources, name) for name in ("workers", "connections")] == [1, 0]
    assert sample(resources, "workers_serving", version="000002-b") is None


def test_memory_is_told_by_worker(resources):
    tell(resources, OTHER)

    text = generate_latest(resources.metrics.registry).decode()

    assert 'process_resident_memory_bytes{worker="0"} ' in text
    assert 'process_cpu_seconds_total{worker="1"} ' in text
    assert text.count("# TYPE process_cpu_seconds_total counter") == 1


def test_a_process_alone_needs_no_number():
    resources = create_app(Settings(), NOWHERE).state.resources

    assert "\nprocess_cpu_seconds_total " in generate_latest(resources.metrics.registry).decode()


def test_refused_versions_do_not_fall_with_a_process(resources, file):
    """Nor what its garbage collector did: the successor's figures come on top."""
    resources.refresher.refused_versions = 2
    assert sample(resources, "refused_versions_total") == 2
    successor = resources_in(file, OURS)
    successor.refresher.refused_versions = 3

    assert sample(successor, "refused_versions_total") == 5


@pytest.mark.parametrize(
    ("others_serve", "store_seen", "may_serve"),
    [(False, False, True), (True, False, False), (True, True, True)],
)
def test_a_process_without_a_version_leaves_requests_to_those_that_have_one(
    resources, others_serve, store_seen, may_serve
):
    """A replacement that starts while the store is away would serve the identity."""
    tell(resources, OTHER, serving=others_serve)
    resources.status.update()
    resources.refresher.store_seen = store_seen

    assert resources.status.may_serve is may_serve
