"""`POST /v1/admin/bins`: bins of any engine, each hour of a source and partition once."""

import json
import time

import numpy as np
import orjson
import pytest

from app.access.audit import AuditLog
from app.datasets.bin_tables import TargetBins
from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.statistics.breakdowns import DeclaredFields
from calibrators import Atlas, BinsTable, CalibrationMap
from calibrators.fields.bin_rows import BinRows
from tests.api.running_service import serving

NOW = int(time.time() // 3600)
PATH = "/v1/admin/bins?source=warehouse&partition=p"
ROW = {
    "hour": NOW - 1, "target": "click", "campaign": "a", "cell": 2213, "count": 3_000_000_000,
    "score_sum": 30_200_000, "positives": 1_000_000_000,
}  # fmt: skip


@pytest.fixture(scope="module")
def running(redis_url_of_module):
    with serving(
        Settings(port=0, fields="device", max_body_bytes=65536), redis_url_of_module
    ) as it:
        yield it


@pytest.fixture
def service(running):
    running.store.flushall()
    return running


def hour_of(hour: int, seed: int = 0) -> TargetBins:
    rng = np.random.default_rng(seed)
    table = BinsTable.from_columns(
        ["a", "b", "ü"], rng.integers(0, 3, 90), rng.random(90), np.ones(90), np.zeros(90)
    )
    return TargetBins("click", hour, BinRows.of_table(table))


def lines(*hours: TargetBins) -> bytes:
    return b"\n".join(orjson.dumps(row) for found in hours for row in found.as_json())


def posted(service, content, path=PATH, kind="application/x-ndjson"):
    return service.http.post(path, content=content, headers={"content-type": kind})


def test_hours_are_added_once_and_told(service):
    hours = [hour_of(NOW - 2), hour_of(NOW - 1, 1)]
    first, again = posted(service, lines(*hours)), posted(service, lines(*hours))

    rows = sum(len(found.rows) for found in hours)
    assert first.json() == {"loaded": 2, "duplicates": 0, "too_old": 0, "rows": rows}
    assert again.json() == {"loaded": 0, "duplicates": 2, "too_old": 0, "rows": rows}
    for found in hours:
        assert service.bins("click", found.hour) == found.rows.table()


def test_a_conflict_names_source_partition_and_hour(service):
    posted(service, lines(hour_of(NOW - 1)))
    other = posted(service, lines(hour_of(NOW - 1, 1)))

    assert other.status_code == 409
    assert other.json()["type"] == "urn:sirocco:problem:bins-conflict"
    assert f"partition 'p': other bins of target 'click', hour {NOW - 1}" in other.json()["detail"]
    assert service.bins("click", NOW - 1) == hour_of(NOW - 1).rows.table()


def test_hours_that_no_refit_looks_at_are_left_out(service):
    old = NOW - 1 - max(service.settings.window_hours, service.settings.history_hours)
    answer = posted(service, lines(hour_of(old), hour_of(NOW - 1)))

    assert answer.json() == {**answer.json(), "loaded": 1, "too_old": 1}
    assert service.bins("click", old) == BinsTable.empty()


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"target": "conversion"}, "rows[1].target", "must be a target that is not delayed: click"),
        ({"campaign": ""}, "rows[1].campaign", "must have 1 to 256 bytes"),
        ({"hour": NOW + 24}, "rows[1].hour", "not in the future"),
        ({"hour": 1.5}, "rows[1].hour", "must be a whole number"),
        ({"cell": 3074}, "rows[1].cell", "from 0 to 3073"),
        ({"count": 3}, "rows[1].score_sum", "score_sum / count must lie in the cell"),
        ({"score_sum": 10_000_000}, "rows[1].score_sum", "must lie in the cell"),
        ({"positives": -1}, "rows[1].positives", "from 0"),
        ({"count": 9_300_000_000_000_000_000}, "rows[1].count", "9.2e18"),
        ({"fields": {"placement": "top"}}, "rows[1].fields.placement", "device"),
        ({"extra": 1}, "rows[1].extra", ""),
    ],
)
@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/json"])
def test_a_bad_row_is_named_with_field_rule_and_value(service, change, field, rule, kind):
    rows = [ROW, {**ROW, **change}]
    listed = b"\n".join(map(orjson.dumps, rows)) if "nd" in kind else orjson.dumps(rows)
    answer = posted(service, listed, kind=kind)

    assert answer.status_code == 422, answer.text
    found, name = answer.json(), field.removeprefix("rows[1].")
    assert found["field"] == field
    assert rule in found["rule"]
    assert found["value"] == (json.dumps(rows[1][name]) if name in ROW else None)
    assert service.stored_keys == []


@pytest.mark.parametrize("parts", [1, 2])
def test_a_row_of_a_sum_without_room_is_named(service, parts):
    """Whether it is too much by itself or with others of its bin."""
    factor = 10**8 // parts
    sums = {name: factor * ROW[name] for name in ("count", "score_sum", "positives")}
    large = {**ROW, "campaign": "b", **sums}
    rows = [{**ROW, "hour": NOW - 2}, ROW, *[large] * parts]

    answer = posted(service, b"\n".join(map(orjson.dumps, rows)))

    assert answer.status_code == 422
    assert (answer.json()["field"], answer.json()["value"]) == ("rows[2].count", str(sums["count"]))
    assert "hours are kept" in answer.json()["rule"]


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [(b"{}", "application/json", "rows"), (b"[]", "application/x-ndjson", "rows[0]")],
)
def test_what_are_no_rows_is_called_so(service, body, kind, field):
    answer = posted(service, body, kind=kind)

    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_by_the_clock_of_events_an_hour_may_not_be_seconds(event_clock_service):
    """The newest hour says what time it is."""
    answer = posted(event_clock_service, orjson.dumps({**ROW, "hour": NOW * 3600}))
    assert (answer.status_code, answer.json()["field"]) == (422, "rows[0].hour")
    assert posted(event_clock_service, orjson.dumps({**ROW, "hour": NOW + 24})).is_success


def test_a_body_may_be_no_larger_than_any(service):
    answer = posted(service, lines(*(hour_of(NOW - back) for back in range(1, 20))))

    assert answer.status_code == 413
    assert service.stored_keys == []


def test_fields_are_summed_by_the_maps_in_force(service):
    half = CalibrationMap(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    service.publish({"click": Atlas.build({}, half)})
    posted(service, orjson.dumps({**ROW, "fields": {"device": "ios"}}))
    store = BinsStore(service.store, 3600, fields=DeclaredFields.of(service.settings))
    table = store.field_tables("click", NOW - 1).fields["device"]

    assert table.campaigns == ("ios",)
    assert table.total().total_score == 1.5


def test_the_audit_log_names_who_loaded_what(service):
    posted(service, lines(hour_of(NOW - 1)))
    (entry,) = AuditLog(service.store, None).newest(1)

    assert (entry.what, entry.target) == ("load-bins", "click")
    assert entry.after["source"] == "warehouse"
    assert entry.after["hours"] == 1


@pytest.mark.parametrize("query", ["source=a", "partition=a", "source=&partition=a"])
def test_source_and_partition_have_names(service, query):
    answer = posted(service, orjson.dumps(ROW), f"/v1/admin/bins?{query}")

    assert answer.status_code == 422
