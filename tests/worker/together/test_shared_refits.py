"""Workers that refit together through a real Redis: what they share, and who does which part of it;
the maps are those of one worker alone."""

import logging
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from app.storage.experiments import CHALLENGER_OF
from app.storage.keys import JOINT_REFIT, SHARDS, TargetHour, lease
from app.storage.lease import PLACES, Call, JointRefits, Member, packed, unpacked
from app.worker.monitoring import RawWindow, TargetReport
from app.worker.together import _BESIDES, _REPORT, code_in, shards_of_worker
from calibrators import Atlas, CalibrationMap, History
from calibrators.bins.model_versions import named
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.peers import NotDivided
from calibrators.pooled import state_space
from tests.worker.together.conftest import (
    CAMPAIGNS,
    HOURS,
    NEWEST,
    TARGET,
    alone,
    alone_on_stored,
    history_of,
    hour_table,
    put,
    refit,
    told,
)


@pytest.mark.parametrize("calibrator", [pytest.param("pooled", marks=pytest.mark.slow), "sir"])
def test_three_workers_make_the_maps_of_one(stored, workers, caplog, calibrator):
    """Again and again, from what the first remembers; and nothing of it is left in the store."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    expected = alone_on_stored(workers, calibrator)

    with caplog.at_level(logging.INFO), workers.helping(helpers):
        assert told(refit(first, calibrator)) == expected
        assert told(refit(first, calibrator))[0] is not None

    assert caplog.text.count("helped with the refit of click") == 4
    assert not stored.keys("sirocco:{maps}:joint_refit*")
    assert not stored.exists(*(lease(place) for place in PLACES))


def by_field(hour: int) -> FieldTables:
    """Campaigns on two devices, one of which is clicked half as often again."""
    rows, devices = np.repeat(np.arange(CAMPAIGNS), 4), np.tile([0, 0, 1, 1], CAMPAIGNS)
    scores = np.full(len(rows), 0.1)
    clicks = np.random.default_rng(hour).binomial(4, scores * (1 + 0.5 * devices)) * 1.0
    campaigns = FieldColumn(hour_table(hour).campaigns, rows)
    columns = {"device": FieldColumn(("tv", "web"), devices)}
    return FieldTables.from_events(
        campaigns, columns, (), (scores, np.full(len(rows), 4.0), clicks)
    )


@pytest.mark.slow
def test_effects_of_fields_are_those_that_one_worker_finds(stored, workers, caplog):
    """Only who leads reads the sums by field."""
    workers.settings = workers.settings.model_copy(update={"fields": ("device",)})
    first, helper = workers.worker("first"), workers.worker("second")
    history = replace(history_of(first), fields=by_field)
    expected = first.methods.of("pooled").refit(history, trial=True)

    with caplog.at_level(logging.INFO), workers.helping([helper]):
        found = first.methods.refit("pooled", TARGET, history, True)

    assert told(found) == told(expected)
    assert found.notes["fields"]["device"]["kept"] == 2
    assert "helped with the refit of click" in caplog.text


def test_maps_on_trial_are_fitted_to_the_campaigns_of_all(stored, workers):
    """By a name that no events have."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    expected = alone_on_stored(workers, "sir")

    with workers.helping(helpers):
        found = first.methods.refit("sir", CHALLENGER_OF(TARGET), history_of(first), True)

    assert told(found) == expected


@pytest.mark.parametrize("calibrator", [pytest.param("pooled", marks=pytest.mark.slow), "sir"])
def test_the_report_is_that_of_one_worker(stored, workers, calibrator):
    """Each evaluates its own shards; who leads only adds up."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    halved = Atlas.build({}, CalibrationMap.proportional(0.5))
    hours, report = range(NEWEST - 2, NEWEST + 1), TargetReport(first.settings, first.bins)
    for hour in hours:
        raw = first.bins.shards_of_hour(TARGET, hour)
        first.bins.write_calibrated(TARGET, hour, map(halved.calibrated, raw))
    alone, together = RawWindow(hours, 20), RawWindow(hours, 20)
    expected = report.of(TARGET, alone)

    with workers.helping(helpers):
        first.refit(TARGET, calibrator, history_of(first, together), None, True)
    assert (together.complete, alone.complete) == (True, False)
    found = report.of(TARGET, together)

    assert (found["top"], found["judged_until"]) == (expected["top"], expected["judged_until"])
    for span, kind in product(("hour", "window"), ("raw", "calibrated")):
        for name, value in expected[span][kind].items():
            # Floors are means over draws, of each worker's campaigns anew.
            near = value and pytest.approx(value, rel=0.2 if "floor" in name else 1e-12)
            assert found[span][kind][name] == near, name


def test_what_a_helper_sets_aside_is_reported(stored, workers):
    """The last shards are never those of who leads."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    stored.hset(TargetHour(SHARDS - 1, TARGET, NEWEST).bins, "table", b"damaged")

    with workers.helping(helpers):
        first.refit(TARGET, "sir", history_of(first), None, True)

    (found,) = first.bins.damage.emptied()
    assert (found["shard"], found["hour"], found["target"]) == (SHARDS - 1, NEWEST, TARGET)


def test_nobody_is_called_where_there_is_nobody(stored, workers):
    first = workers.worker("first")

    assert first.refit(TARGET, "pooled", history_of(first), None, True) is None
    assert not stored.exists(JOINT_REFIT)


def test_few_campaigns_are_left_to_one(redis_client, workers):
    put(redis_client, NEWEST, hour_table(NEWEST, 40))
    first, helper = workers.worker("first"), workers.worker("second")
    first.worth_it = 41

    assert first.refit(TARGET, "pooled", history_of(first), None, True) is None
    assert not helper.help()


@pytest.mark.parametrize("count", range(1, SHARDS + 1))
def test_every_shard_has_one_worker(count):
    """In the order of the workers; the first has no more than any other."""
    parts = [shards_of_worker(place, count) for place in range(count)]

    assert [shard for part in parts for shard in part] == list(range(SHARDS))
    assert len(parts[0]) <= min(map(len, parts[1:]), default=SHARDS)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_all_are_done_at_about_the_same_time(count):
    """The first has less to fit for what it does besides; reports even what whole shards leave."""
    fitted = [shards_of_worker(place, count) for place in range(count)]
    reported = [shards_of_worker(place, count, report=True) for place in range(count)]
    work = [len(fit) + _REPORT * len(of) for fit, of in zip(fitted, reported, strict=True)]
    work[0] += _BESIDES

    assert [shard for part in reported for shard in part] == list(range(SHARDS))
    assert max(work) * count / sum(work) < 1.03


@pytest.mark.slow
def test_the_busiest_campaigns_are_filtered_once_by_all_together(stored, workers, monkeypatch):
    first, helper = workers.worker("first"), workers.worker("second")
    filtered, gains = [], state_space._gains

    def counting(models, series, ages):
        filtered.append(len(series.variances))
        return gains(models, series, ages)

    monkeypatch.setattr(state_space, "_gains", counting)
    alone(workers)
    by_one = sorted(campaigns for campaigns in filtered if campaigns > 1)
    filtered.clear()
    with workers.helping([helper]):
        refit(first)

    assert sum(by_one) >= CAMPAIGNS
    assert sorted(campaigns for campaigns in filtered if campaigns > 1) == by_one


def test_only_what_is_stored_is_divided(workers):
    first, _ = workers.worker("first"), workers.worker("second")

    assert first.refit(TARGET, "pooled", History(1.0, []), None, True) is None


def version_of_a_model(client: Any) -> None:
    table = hour_table(NEWEST)
    names = [named(name, "v2") if n % 2 else name for n, name in enumerate(table.campaigns)]
    put(client, NEWEST, table.renamed(names))


def another_model(client: Any) -> None:
    put(client, NEWEST, hour_table(NEWEST, shift=1.5))


def only_a_few(client: Any) -> None:
    for hour in range(NEWEST - HOURS + 1, NEWEST + 1):
        put(client, hour, hour_table(hour, 150))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            version_of_a_model, "versions of the model score side by side", marks=pytest.mark.slow
        ),
        pytest.param(another_model, "another model may score", marks=pytest.mark.slow),
        (only_a_few, "150 campaigns are too few"),
    ],
)
def test_what_cannot_be_divided_is_fitted_by_one(stored, workers, caplog, change, reason):
    """All find it out together, or from one of them."""
    change(stored)
    first, helper = workers.worker("first"), workers.worker("second")
    expected = alone(workers)

    with caplog.at_level(logging.INFO), workers.helping([helper]):
        assert told(refit(first)) == expected

    assert f"{TARGET} is refitted by one worker: {reason}" in caplog.text
    assert "helped with" not in caplog.text


def test_workers_with_other_settings_or_code_do_not_come(stored, workers, caplog):
    first, newer = workers.worker("first"), workers.worker("newer")
    changed = ({"history_hours": 7}, {"fields": ("device",)}, {"group_field": "device"})
    others = [workers.worker(str(c), workers.settings.model_copy(update=c)) for c in changed]
    newer.code = "of another build"

    with workers.helping([*others, newer]):
        assert first.refit(TARGET, "pooled", history_of(first), None, True) is None
    assert caplog.text.count("a refit of workers with other settings or code is left to them") == 4


def test_builds_of_one_version_are_told_apart(tmp_path):
    """They may divide the shards in two ways: nobody would fit what neither takes."""
    found = set()
    for build, cost in (("one", "2.2"), ("the same", "2.2"), ("other", "1.1")):
        file = tmp_path / build / "app/worker/together.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"_BESIDES = {cost}")
        found.add(code_in(tmp_path / build))

    assert len(found) == 2


CALL = Call("id", TARGET, "pooled", 1.0, 0, 1, False, (0, 1), "likeness")


def test_a_call_is_read_as_it_was_made(redis_client):
    refits, members = JointRefits(redis_client), [Member("worker", "1:first")]
    refits.call(CALL._replace(members=members))

    assert refits.called() == CALL._replace(members=members)


PARTS = [
    (np.arange(6.0).reshape(2, 3), np.array([True, False])),
    (),
    (np.empty((0, 4)), np.array([7], np.int64), np.frombuffer(b"name", np.uint8)),
]


def test_parts_are_read_as_they_were_told():
    found = unpacked(packed(PARTS))

    assert [[(a.dtype, a.tolist()) for a in part] for part in found] == [
        [(a.dtype, a.tolist()) for a in part] for part in PARTS
    ]


def test_every_damaged_byte_of_parts_is_noticed():
    data = packed(PARTS)
    for at in range(len(data)):
        with pytest.raises(NotDivided, match="damaged"):
            unpacked(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    for cut in range(len(data)):
        with pytest.raises(NotDivided, match="damaged"):
            unpacked(data[:cut])
