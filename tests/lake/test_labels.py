"""Labels and trainings of a lake: those of the service on the same events, to the last bit."""

import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.click_log.log import ClickLog
from app.datasets.bin_tables import BinsDigest, read_bins
from app.datasets.click_events import ClickEventColumns, ClickEventReader, file_times
from app.datasets.options import Reading
from app.datasets.parts import parts_of
from app.errors import CommandError
from app.lake.bins import MergedBins
from app.lake.clicks import ClickLake
from app.lake.executors import run_here, run_on_dask
from app.lake.labels import DelayedJob, ModelFile, _settings_of, kept_training, training_digest
from app.lake.tasks import not_done
from app.storage.clicks import OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.event_log import EventLog
from app.storage.lease import Lease
from app.storage.models import Models
from app.storage.redis.client import open_async_redis
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import ClickCloser
from app.worker.model_cache import ModelCache, signing_key
from app.worker.relabelling import LabelHistory
from app.worker.training import Trainer, TrainingTask
from tests.lake.click_lake import HOUR, ClickWorld
from tests.lake.mortal_workers import mortal_cluster
from tests.worker.delayed.click_world import DAY, MIDNIGHT, TARGET, delayed_settings, drawn_stream

AS_OF = MIDNIGHT + 3 * DAY
HOURS = 30


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIROCCO_SIGNING_KEY", "a key of the tests, long enough.")
        yield delayed_settings(data_dir=tmp_path_factory.mktemp("data"), fields=("segment",))


@pytest.fixture(scope="module")
def world():
    return ClickWorld.of(drawn_stream(hours=3 * 24, per_hour=25))


def job_of(source, settings, output, as_of=AS_OF, fields=()):
    columns, post_click = ClickEventColumns(fields=fields), settings.post_click_seconds
    lake = ClickLake(str(source), TARGET, columns, Reading(), post_click)
    return DelayedJob(lake, settings, as_of, str(output))


def trained(job: DelayedJob, run=run_here):
    """The digest of the training of a job."""
    hours = job.training_hours()
    list(run(hours.all))
    task = job.training(hours)
    list(run([task]))
    return training_digest(kept_training(task))


def labelled(job: DelayedJob, run=run_here, fields=()):
    """The digest of the labels of a job."""
    hours = job.label_hours(HOURS)
    list(run(not_done(hours.all, job.output)))
    tasks = job.labels(hours, HOURS, ModelFile.of(job.output, TARGET), fields)
    list(run(tasks))
    return MergedBins(job.output, [task.result for task in tasks], fields).write("labels.parquet")


@pytest.fixture
def online(world, settings, redis_client, redis_url):
    """What the service makes of the events: digests of training and labels."""
    with asyncio.Runner() as runner:
        client = open_async_redis(redis_url)
        events = EventLog(client, 3600)
        for batch in world.batches():
            runner.run(events.append(batch))
        runner.run(client.aclose())
    log = ClickLog.open(settings.click_log)
    versions = Versions(redis_client, settings.versions_kept)
    ClickCloser(
        settings, OpenClicks(redis_client), ConversionLog(redis_client), versions,
        AtlasCache(versions),
    ).run(log, AS_OF, AS_OF)  # fmt: skip
    models, lease = Models(redis_client), Lease(redis_client, "worker", "test", 600)
    assert lease.acquire()
    cache = ModelCache(models, lambda: signing_key(settings), trial=lambda data: None)
    trainer = Trainer(settings, models, cache, lambda: signing_key(settings))
    order = TrainingTask(TARGET, settings.attribution_seconds(TARGET), AS_OF)
    report = trainer.run(log, order, lease.token, lambda: AS_OF)
    cached = cache.newest(TARGET, order.window, AS_OF)
    _, history = LabelHistory(log, cached, TARGET, AS_OF, settings).of(HOURS)
    digest = BinsDigest()
    for hour, table in sorted(history.blocks[0].items()):
        digest.add(TARGET, hour, table)
    assert report["source"] == "model"
    return training_digest(models.load(TARGET, report["version"])), digest.hex


@pytest.fixture(scope="module")
def logs(world, tmp_path_factory):
    return world.write(tmp_path_factory.mktemp("lake") / "logs")


@pytest.fixture(scope="module")
def offline(logs, settings):
    """A job that is done, and the digests of the model and of its labels."""
    job = job_of(logs, settings, logs.parent / "out")
    return job, trained(job), labelled(job)


def test_models_and_labels_are_those_of_the_service(world, settings, tmp_path, online, offline):
    """However the logs are cut into files."""
    job = job_of(world.write(tmp_path / "logs", 5.5 * HOUR), settings, tmp_path / "out")

    assert offline[1:] == (trained(job), labelled(job)) == online


def test_fields_are_kept_apart_and_change_no_labels(offline, logs, settings):
    job, _, digest = offline
    by_field = job_of(logs, settings, job.output, fields=("segment",))

    assert labelled(by_field, fields=("segment",)) == digest
    found = list(read_bins(f"{job.output}/labels.parquet", ["segment"]))
    assert {name for each in found for name in each.rows.fields["segment"].names} == {"", "new"}


def test_what_is_done_is_not_done_again(offline, logs, settings):
    """A conversion that comes late changes its own hour, and the labels."""
    job, _, digest = offline
    hours = job.label_hours(HOURS)
    tasks = [*hours.all, *job.labels(hours, HOURS, ModelFile.of(job.output, TARGET), ())]
    assert not_done(tasks, job.output) == []

    newest = int(AS_OF // HOUR) - 1
    late = pa.table({"click_id": ["click-1750"], "time": [AS_OF - 1], "target": [TARGET]})
    pyarrow.parquet.write_table(late, logs / "conversions/late.parquet")
    again = job_of(logs, settings, job.output)
    changed = not_done(again.label_hours(HOURS).all, job.output)
    assert [(task.kind, task.settings["hour"]) for task in changed] == [("conversions", newest)]
    assert labelled(again) != digest
    (logs / "conversions/late.parquet").unlink()
    assert labelled(job_of(logs, settings, job.output)) == digest


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_workers_of_dask_change_nothing(offline, tmp_path):
    """kill -9 of a worker while hours are joined, of a nanny with its worker while clicks are
    labelled."""
    distributed = pytest.importorskip("distributed", reason="pip install 'sirocco[dask]'")
    job, *digests = offline
    other = replace(job, output=str(tmp_path / "other"))
    with mortal_cluster(distributed) as cluster:
        kills = [cluster.kill_a_worker, cluster.kill_a_nanny]

        def run(tasks):
            for number, told in enumerate(run_on_dask(tasks, cluster.address, 2)):
                if number == 1 and kills:
                    kills.pop(0)()
                yield told

        assert [trained(other, run), labelled(other, run)] == digests
    assert kills == []


def test_a_model_of_later_clicks_is_refused(offline, logs, settings):
    job, *_ = offline
    with pytest.raises(CommandError, match="knows what nobody knew at --as-of"):
        labelled(job_of(logs, settings, job.output, AS_OF - HOUR))


def test_a_model_that_another_key_has_signed_is_refused(offline, monkeypatch):
    job, *_ = offline
    model = ModelFile.of(job.output, TARGET)
    monkeypatch.setenv("SIROCCO_SIGNING_KEY", "another key of the tests, long enough.")
    with pytest.raises(CommandError, match="must be signed with SIROCCO_SIGNING_KEY"):
        model.loaded(job.output, delayed_settings())
    with pytest.raises(CommandError, match="has changed"):
        replace(model, digest="0").loaded(job.output, job.settings)


def test_labels_without_a_model_say_how_to_make_one(settings, tmp_path):
    with pytest.raises(CommandError, match="`sirocco lake train` makes it"):
        ModelFile.of(str(tmp_path), TARGET)


@pytest.mark.parametrize(
    ("log", "column", "value", "said"),
    [
        ("clicks", "score", 1.5, "row 2: score = 1.5; a score must be"),
        ("clicks", "click_id", "", "row 2: click_id = .*click_id must not be empty"),
        ("behaviours", "value", -1.0, "row 2: value = -1.0; the value of a behaviour"),
        ("behaviours", "name", "", "row 2: name = .*a behaviour must have a name"),
        ("conversions", "click_id", None, "row 2: click_id = .*must not be empty"),
    ],
)
def test_bad_rows_are_named(world, settings, tmp_path, log, column, value, said):
    few = ClickWorld({name: rows[:3] for name, rows in world.rows.items()})
    rows = [dict(few.rows["clicks"][0]) if log == "clicks" else dict(few.rows[log][0])] * 2
    few.rows[log][:] = [rows[0], {**rows[1], column: value}]
    logs = few.write(tmp_path / "logs", 100 * DAY)
    (path,) = (logs / log).iterdir()
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).sort_by(column), path)
    job = job_of(logs, settings, tmp_path / "out", MIDNIGHT + DAY)
    with pytest.raises(CommandError, match=said.replace("row 2", "row [123]")):
        list(run_here(job.lake.tasks(*[(MIDNIGHT, MIDNIGHT + DAY)] * 2, job.output).all))


def test_ids_that_one_tool_wrote_as_floats_are_those_that_another_wrote_as_whole_numbers(tmp_path):
    """As pandas does where one was missing."""
    ids, hour = [10**10 + place for place in range(4)], (MIDNIGHT, MIDNIGHT + DAY)
    columns = {"click_id": ids, "time": [MIDNIGHT + 60.0] * 4, "campaign": [7.0, 7.5, 7.0, 7.0]}
    (tmp_path / "clicks").mkdir()
    table = pa.table({**columns, "score": [0.5] * 4})
    pyarrow.parquet.write_table(table, tmp_path / "clicks/0.parquet")
    converted = pa.table({"click_id": [float(one) for one in ids], "time": [MIDNIGHT + 90.0] * 4})
    pyarrow.parquet.write_table(converted, tmp_path / "clicks/1.parquet")
    reader = ClickEventReader(TARGET, ClickEventColumns(), Reading(), hour)

    (clicks,) = reader.clicks([str(tmp_path / "clicks/0.parquet")])
    (conversions,) = reader.conversions([str(tmp_path / "clicks/1.parquet")])

    assert clicks["click_id"].to_pylist() == conversions["click_id"].to_pylist()
    assert clicks["click_id"].to_pylist() == [str(one) for one in ids]
    assert clicks["campaign"].to_pylist() == ["7", "7.5", "7", "7"]


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (pa.array([1e15, 2.0**60]), "click_id = .*floats do not tell whole numbers"),
        (pa.array([["a"], ["b"]]), "'click_id' holds list"),
    ],
)
def test_ids_that_cannot_be_told_apart_are_refused(tmp_path, ids, said):
    columns = {"click_id": ids, "time": [MIDNIGHT + 90.0] * 2}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "1.parquet")
    reader = ClickEventReader(TARGET, ClickEventColumns(), Reading(), (MIDNIGHT, MIDNIGHT + DAY))

    with pytest.raises(CommandError, match=said):
        list(reader.conversions([str(tmp_path / "1.parquet")]))


def test_settings_of_other_targets_do_not_stop_a_job(offline, monkeypatch):
    monkeypatch.setenv("SIROCCO_TARGET_CALIBRATORS", "purchase=sir")
    monkeypatch.setenv("SIROCCO_TARGETS", "view")
    task = offline[0].training(offline[0].training_hours())

    own = _settings_of(task)

    assert (own.delayed_targets, own.target_calibrators) == ((TARGET,), {})
    of_click = {**task.settings["settings"], "attribution_hours": {}}
    other = {**task.settings, "settings": of_click, "target": "click"}
    assert _settings_of(msgspec.structs.replace(task, settings=other)).targets == ("impression",)


@pytest.mark.parametrize(
    ("times", "options", "said"),
    [
        ([float(MIDNIGHT)], {"write_statistics": False}, "has no smallest and largest value"),
        (["2026-03-01T00:00:00Z"], {}, "it is a timestamp or a number"),
        ([1.0], {}, "its smallest or largest time is wrong: the year must be from 2000"),
    ],
)
def test_times_that_nothing_tells_are_an_error(settings, tmp_path, times, options, said):
    (tmp_path / "clicks").mkdir()
    pyarrow.parquet.write_table(pa.table({"time": times}), tmp_path / "clicks/0.parquet", **options)
    with pytest.raises(CommandError, match=said):
        job_of(tmp_path, settings, tmp_path / "out")


def test_a_timestamp_is_a_time(tmp_path):
    moments = [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (3, 1, 2)]
    for kind in ("us", "ns", "ms"):
        column = pa.array(moments, pa.timestamp(kind, "UTC"))
        pyarrow.parquet.write_table(pa.table({"time": column}), tmp_path / "0.parquet")
        (found,) = file_times(parts_of(str(tmp_path)), "time", Reading())
        assert (found.first, found.last) == (moments[1].timestamp(), moments[0].timestamp())


def test_a_join_without_duckdb_names_the_extra(logs, settings, tmp_path, monkeypatch):
    job = job_of(logs, settings, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(CommandError, match=r"pip install 'sirocco\[lake\]'"):
        list(run_here(job.training_hours().all[:1]))
