"""Bins of a lake: the same to the last bit however they were made, and nothing is made twice."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.datasets.bin_tables import BinsDigest, read_bins
from app.datasets.impressions import LogColumns, read_log
from app.datasets.options import Reading
from app.errors import CommandError
from app.lake.bins import BinsSettings, MergedBins
from app.lake.executors import run_here, run_in_processes, run_on_dask
from app.lake.tasks import PartitionTask, not_done, partitions_of, run_task
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.redis.client import open_async_redis
from calibrators.fields.sums import FieldTables
from evaluation.backtest.backtest import bins_by_hour
from tests.lake.conftest import impressions
from tests.lake.mortal_workers import die, die_once, interrupt_parent_and_stay, mortal_cluster

SETTINGS = BinsSettings("click", LogColumns(), Reading())


def tasks_of(log: Path, output: Path, settings: BinsSettings = SETTINGS) -> list[PartitionTask]:
    return [settings.task(partition, str(output)) for partition in partitions_of(str(log))]


def digest_of(tasks: list[PartitionTask], fields: tuple[str, ...] = ()) -> str:
    merged = MergedBins(tasks[0].output, [task.result for task in tasks], fields)
    return merged.write("bins.parquet")


def expected(log: Path) -> str:
    """What the offline backtest makes of the whole log."""
    digest = BinsDigest()
    for hour, table in sorted(bins_by_hour(read_log(log, LogColumns())).items()):
        digest.add("click", hour, table)
    return digest.hex


def test_bins_are_those_of_the_backtest_and_of_the_online_path(log, tmp_path, redis_client):
    tasks = tasks_of(log, tmp_path / "out")
    assert sum(told["rows"] for told in run_here(tasks)) == 6000

    table, online = read_log(log, LogColumns()), BinsDigest()
    batch = EventBatch()
    columns = (table.hours, table.rows, table.scores, table.outcomes)
    for hour, row, score, outcome in zip(*(each.tolist() for each in columns), strict=True):
        batch.add("click", hour, table.campaigns[row], score, 1.0, outcome)
    url = redis_client.connection_pool.connection_kwargs["path"]
    with asyncio.Runner() as runner:
        client = open_async_redis(f"unix://{url}")
        runner.run(EventLog(client, 3600).append(batch))
        runner.run(client.aclose())
    store = BinsStore(redis_client, 3600)
    store.fold()
    for hour in store.hours("click"):
        online.add("click", hour, store.hour("click", hour))

    assert digest_of(tasks) == expected(log) == online.hex


def test_fields_are_kept_apart_and_change_no_bins(log, tmp_path):
    settings = replace(SETTINGS, columns=LogColumns(fields=("device",)))
    tasks = tasks_of(log, tmp_path / "out", settings)
    list(run_here(tasks))

    assert digest_of(tasks, ("device",)) == expected(log)
    events = read_log(log, settings.columns)
    hours = events.hours
    for found in read_bins(tmp_path / "out/bins.parquet", ["device"]):
        some = events.select(hours == found.hour)
        campaigns = type(some.fields["device"])(some.campaigns, some.rows.astype(np.int64))
        weights = (some.scores, some.counts, some.positives)
        whole = FieldTables.from_events(campaigns, some.fields, (), weights)
        made = found.rows.by_field(["device"], ())
        assert made.fields == whole.fields
        assert made.campaigns == whole.campaigns


def test_what_is_done_is_not_done_again(log, tmp_path):
    output = tmp_path / "out"
    tasks = tasks_of(log, output)
    list(run_here(tasks[:2]))

    assert not_done(tasks, str(output)) == tasks[2:]
    with (log / "part-0.parquet").open("ab") as file:
        file.write(b"")
    os.utime(log / "part-0.parquet", ns=(1, 1))
    changed = tasks_of(log, output)
    assert [task.result for task in changed[1:]] == [task.result for task in tasks[1:]]
    assert not_done(changed, str(output)) == [changed[0], *tasks[2:]]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_child_costs_no_partition(log, tmp_path):
    """Whoever dies in the middle, the digest is that of the log."""
    tasks = tasks_of(log, tmp_path / "out")
    marker = tmp_path / "died"
    made = list(run_in_processes(tasks, 2, partial(die_once, str(marker))))

    assert marker.exists()
    assert len(made) == 4
    assert digest_of(tasks) == expected(log)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_children_that_die_again_and_again_end_the_job(log, tmp_path):
    tasks = tasks_of(log, tmp_path / "out")
    with pytest.raises(CommandError, match="killed 3 times"):
        list(run_in_processes(tasks, 1, die))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of Ctrl-C, whatever others in this process have made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.SIG_DFL)


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_what_children_are_at(log, tmp_path, interruptible):
    """A partition may take minutes; the child here never ends."""
    tasks = tasks_of(log, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        list(run_in_processes(tasks, 1, interrupt_parent_and_stay))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_bad_row_of_another_process_is_named(log, tmp_path):
    table = impressions(50, 9)
    table = table.set_column(2, "score", pa.array([0.5] * 41 + [1.5] + [0.5] * 8))
    pyarrow.parquet.write_table(table, log / "part-9.parquet")
    with pytest.raises(CommandError, match=r"part-9.parquet, row 42: score = 1.5"):
        list(run_in_processes(tasks_of(log, tmp_path / "out"), 1, _nothing))


def _nothing() -> None:
    """Of a child."""


def test_a_damaged_result_is_named(log, tmp_path):
    tasks = _made(tasks_of(log, tmp_path / "out"))
    (tmp_path / "out" / tasks[0].result).write_bytes(b"PAR1")

    with pytest.raises(CommandError, match=f"{tasks[0].result} in --output, which may be deleted"):
        digest_of(tasks)


def test_a_text_without_a_byte_is_an_hour_without_events(tmp_path):
    head = "time,campaign,score,outcome\n"
    (tmp_path / "log").mkdir()
    (tmp_path / "log/0.csv").write_text("")
    (tmp_path / "log/1.csv").write_text(f"{head}1767225600,a,0.5,1\n")
    tasks = tasks_of(tmp_path / "log", tmp_path / "out")
    list(run_here(tasks))

    assert len(tasks) == 1
    assert digest_of(tasks) == expected(tmp_path / "log")


@pytest.mark.parametrize(("weights", "files"), [([1e11], 1), ([5e9, 5e9], 1), ([5e9], 2)])
def test_more_than_bins_can_hold_is_an_error(tmp_path, weights, files):
    (tmp_path / "log").mkdir()
    rows = "".join(f"1767225600,a,0.5,1,{weight}\n" for weight in weights)
    for file in range(files):
        text = f"time,campaign,score,outcome,w\n{rows}"
        (tmp_path / f"log/{file}.csv").write_text(text)
    weighted = replace(SETTINGS, columns=LogColumns(weights="w"))

    with pytest.raises(CommandError, match=r"9\.2e9"):
        digest_of([*_made(tasks_of(tmp_path / "log", tmp_path / "out", weighted))])


def _made(tasks):
    list(run_here(tasks))
    return tasks


def test_an_empty_part_has_no_bins(log, tmp_path):
    before = expected(log)
    pyarrow.parquet.write_table(impressions(0, 1), log / "part-9.parquet")
    tasks = tasks_of(log, tmp_path / "out")
    list(run_here(tasks))

    assert digest_of(tasks) == before


@settings(max_examples=10)
@given(data=st.data())
def test_any_cut_of_the_log_gives_the_same(tmp_path_factory, data):
    """Rows in any order in any number of parts, some of which are made twice."""
    folder = tmp_path_factory.mktemp("cut")
    rows = impressions(300, data.draw(st.integers(0, 9)))
    order = data.draw(st.permutations(range(300)))
    cuts = sorted(data.draw(st.lists(st.integers(0, 300), max_size=4)))
    (folder / "log").mkdir()
    for part, (start, end) in enumerate(zip([0, *cuts], [*cuts, 300], strict=True)):
        some = rows.take(np.array(order[start:end], np.int64))
        pyarrow.parquet.write_table(some, folder / f"log/{part}.parquet")
    tasks = tasks_of(folder / "log", folder / "out")
    for task in [*tasks, data.draw(st.sampled_from(tasks))]:
        run_task(task.spec())
    found = digest_of(tasks)
    shutil.rmtree(folder / "log")
    (folder / "log").mkdir()
    pyarrow.parquet.write_table(rows, folder / "log/0.parquet")

    assert found == expected(folder / "log")


def test_shares_of_pods_are_all_of_the_partitions(log, tmp_path):
    tasks = tasks_of(log, tmp_path / "out")
    shares = [[task for task in tasks if task.belongs_to(index, 3)] for index in range(3)]

    assert sorted(task.result for share in shares for task in share) == sorted(
        task.result for task in tasks
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_of_dask_may_be_killed(tmp_path):
    """kill -9 of a worker in the middle of a job, then of a worker and its nanny."""
    distributed = pytest.importorskip("distributed", reason="pip install 'sirocco[dask]'")
    log = tmp_path / "log"
    log.mkdir()
    for part in range(24):
        pyarrow.parquet.write_table(impressions(5_000, part), log / f"part-{part:02}.parquet")
    tasks = tasks_of(log, tmp_path / "out")
    with mortal_cluster(distributed) as cluster:
        made = run_on_dask(tasks, cluster.address, 2)
        told = [next(made)]
        cluster.kill_a_worker()
        told += [next(made), next(made)]
        cluster.kill_a_nanny()
        told += list(made)

    assert len(told) == 24
    assert digest_of(tasks) == expected(log)
