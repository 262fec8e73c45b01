"""The audit log: no change without an entry, and no entry altered without a trace."""

import json
import resource
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.access.audit import AuditLog, AuditUnwritable, read_entry, verified
from app.storage import keys


@pytest.fixture
def file(tmp_path):
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(redis_client, file):
    return AuditLog(redis_client, file, lambda: 1_800_000_000.25)


def fill(log, number):
    for place in range(number):
        log.record("ops", f"r{place}", "set-override", target=f"click:{place}", after={"x": 1.5})


def test_an_entry_says_who_what_and_from_what_to_what(log, file):
    with log.change("ops", "r1", "set-override", target="click:a", before="sir", after="pooled"):
        pass

    (entry,) = log.newest(10)
    assert (entry.seq, entry.at, entry.who, entry.what) == (
        1,
        1_800_000_000.25,
        "ops",
        "set-override",
    )
    assert (entry.target, entry.before, entry.after) == ("click:a", "sir", "pooled")
    assert entry.request_id == "r1"
    assert [read_entry(line) for line in file.read_bytes().splitlines()] == [entry]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_change_that_fails_has_an_entry_that_says_so(log):
    with pytest.raises(ZeroDivisionError), log.change("ops", "r", "rotate-key", target="k"):
        raise ZeroDivisionError

    assert [entry.what for entry in log.newest(10)] == ["rotate-key-failed", "rotate-key"]


def test_no_change_is_made_that_the_file_cannot_tell(redis_client, tmp_path):
    log = AuditLog(redis_client, tmp_path)
    made = []

    with (
        pytest.raises(AuditUnwritable, match="cannot be written: Is a directory"),
        log.change("ops", "r", "retrain", target="click"),
    ):
        made.append("a change")

    assert made == []
    assert [entry.what for entry in log.newest(10)] == ["retrain-failed", "retrain"]


def test_no_change_is_made_of_which_the_file_has_room_for_a_half(log, file):
    """Nor does the half stay, behind which no line could be read."""
    fill(log, 1)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 50, hard))
    made = []
    try:
        with pytest.raises(AuditUnwritable, match="No space"), log.change("o", "r", "a", target=""):
            made.append("a change")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    fill(log, 1)

    assert made == []
    assert [read_entry(line).seq for line in file.read_bytes().splitlines()] == [1, 4]


def test_half_a_line_that_a_crash_left_takes_no_other_with_it(log, file):
    file.write_bytes(b'{"seq":1,"at":18')
    fill(log, 2)

    assert [read_entry(line).seq for line in file.read_bytes().splitlines()[1:]] == [1, 2]


def test_what_is_written_verifies_and_pages_backwards(log):
    fill(log, 5)

    assert log.verify() == (5, None)
    assert [entry.seq for entry in log.newest(2)] == [5, 4]
    assert [entry.seq for entry in log.newest(2, before=4)] == [3, 2]


def test_many_at_one_time_make_one_chain(log, file):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: fill(log, 5), range(8)))

    assert log.verify() == (40, None)
    lines = file.read_bytes().splitlines()
    entries = sorted(map(read_entry, lines), key=lambda entry: entry.seq)
    assert verified(entries) == (40, None)


def test_every_alteration_is_found(log, redis_client):
    fill(log, 5)
    third = json.loads(redis_client.lindex(keys.AUDIT, 2))

    for field, value in third.items():
        altered = value + 1 if isinstance(value, int | float) else f"{value}x"
        redis_client.lset(keys.AUDIT, 2, json.dumps({**third, field: altered}))
        assert log.verify().wrong, field
    redis_client.lset(keys.AUDIT, 2, b"\xff")
    assert "an entry cannot be read" in log.verify().wrong
    redis_client.lset(keys.AUDIT, 2, json.dumps(third))
    assert log.verify() == (5, None)


@pytest.mark.parametrize(
    ("first", "last", "wrong"),
    [
        (0, -2, "entry 5: is missing, and all up to 5"),
        (1, -1, "entry 1: is missing, and all before 2"),
        (1, 0, "entry 1: is missing, and all up to 5"),
    ],
    ids=["the end", "the beginning", "all"],
)
def test_what_is_cut_off_is_found(log, redis_client, first, last, wrong):
    fill(log, 5)
    redis_client.ltrim(keys.AUDIT, first, last)

    assert log.verify().wrong == wrong


def test_what_is_taken_from_the_middle_is_found(log, redis_client):
    fill(log, 5)
    redis_client.lrem(keys.AUDIT, 1, redis_client.lindex(keys.AUDIT, 2))

    assert log.verify() == (2, "entry 4: does not follow the one before")


def test_the_newest_are_kept_and_the_chain_goes_on(log, monkeypatch):
    monkeypatch.setattr("app.access.audit.MOST_ENTRIES", 3)
    fill(log, 5)

    assert [entry.seq for entry in log.newest(10)] == [5, 4, 3]
    assert log.verify() == (3, None)


def test_what_is_too_large_to_keep_is_named_by_its_digest(log):
    log.record("ops", "r", "retrain", target="click", after=["c" * 50] * 100)

    (entry,) = log.newest(1)
    assert entry.after.keys() == {"bytes", "sha256"}
    assert log.verify() == (1, None)
