"""What a soak must not miss: wrong answers, errors, waiting, growth, and the effect of refits."""

import mmap
import os
import socket
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import sleep

import numpy as np
import orjson
import pytest

from benchmarks.core.traffic import random_maps
from benchmarks.figures import middle
from benchmarks.http.bodies import Ids, ScoresRequest
from benchmarks.http.load import HOST, post
from benchmarks.machine import first_in_line
from benchmarks.report.targets import TARGETS
from benchmarks.soak.answers import JSON_FORM, Calibration, wrong_answers
from benchmarks.soak.figures import Run, echo_row, rows_of, stops_row
from benchmarks.soak.open_loop import Kind, Load, Record, Response
from benchmarks.soak.versions import megabytes
from benchmarks.store import STOP_SECONDS, Store, private_store
from calibrators import Atlas
from tests.api.running_service import eventually

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nsirocco-version: 7\r\n\r\nok"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"
KINDS = (Kind("calibrate 1", 0.5, [b""]), Kind("events 100", 0.5, [b""]))
MEGABYTE = 1_000_000
BUSY_SECONDS = 0.02
STANDING_STILL = """
local function now() local time = redis.call('TIME') return time[1] * 1000 + time[2] / 1000 end
local behind = now() + 80
while now() < behind do end
"""


@contextmanager
def scripted(
    answer: bytes | None, seconds: float = 0.0, heard: Counter[int] | None = None
) -> Iterator[int]:
    """The port of a server that answers each message so, after so long, or hangs up; it counts in
    `heard` what came over each connection."""
    heard = Counter() if heard is None else heard
    with socket.create_server((HOST, 0)) as listener:
        thread = Thread(target=serve, args=(listener, answer, seconds, heard), daemon=True)
        thread.start()
        yield listener.getsockname()[1]


def serve(
    listener: socket.socket, answer: bytes | None, seconds: float, heard: Counter[int]
) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        talk = (connection, answer, seconds, heard)
        Thread(target=converse, args=talk, daemon=True).start()


def converse(
    connection: socket.socket, answer: bytes | None, seconds: float, heard: Counter[int]
) -> None:
    with connection:
        number = connection.fileno()
        while connection.recv(1 << 16) and answer is not None:
            heard[number] += 1
            sleep(seconds)
            # In two pieces, as answers may come.
            connection.sendall(answer[:10])
            connection.sendall(answer[10:])


def loaded(answer: bytes | None, kinds: tuple[Kind, ...]) -> Load:
    """A load after a moment against such a server."""
    with scripted(answer) as port:
        load = Load(port, kinds, 2, 1)
        load.run(1_000, 0.1)
        load.close()
    return load


def kinds_of(body: bytes) -> tuple[Kind, ...]:
    return (Kind("calibrate 1", 1.0, [post("/", body)]),)


def test_every_answer_is_kept_with_its_version_and_its_latency():
    load = loaded(OK, kinds_of(b"question"))

    assert set(load.answers) == {Response(0, 0, b"7", b"ok")}
    assert load.errors == 0
    assert load.answers.total() == len(load.records[0].latencies) > 0
    assert min(load.records[0].latencies) > 0
    assert len(load.lateness) + load.waited == load.answers.total()


def test_answers_that_lie_there_unread_are_not_the_servers_latency():
    """The load is busy for longer than a server takes, each time before it sends."""

    def late(message: bytes, number: int) -> bytes:
        sleep(BUSY_SECONDS)
        return message

    load = loaded(OK, (Kind("events 100", 1.0, [post("/", b"x")], late),))

    assert len(load.read_lateness) == load.answers.total()
    assert max(load.read_lateness) > BUSY_SECONDS / 2
    assert min(load.records[0].latencies) < BUSY_SECONDS / 2


def test_what_waits_for_a_busy_connection_counts_from_when_it_was_due():
    """Ten times as many requests as the server can answer: each waits for all before it."""
    with scripted(OK, BUSY_SECONDS) as port:
        load = Load(port, kinds_of(b"question"), 1, 1)
        load.run(10 / BUSY_SECONDS, 10 * BUSY_SECONDS)
        load.close()

    assert load.waited > len(load.lateness)
    assert max(load.records[0].latencies) > 10 * BUSY_SECONDS


@pytest.mark.parametrize("answer", [REFUSED, None], ids=["refused", "hung up"])
def test_what_is_no_200_is_an_error_and_the_load_goes_on(answer):
    load = loaded(answer, kinds_of(b"question"))

    assert load.errors == len(load.records[0].latencies) > 1
    assert not load.answers
    assert 0 < len(load.first_errors) <= 10
    assert all(" UTC, after " in error for error in load.first_errors)


@pytest.mark.parametrize("answer", [OK, REFUSED], ids=["answered", "refused"])
def test_saturation_records_nothing_but_what_was_refused(answer):
    with scripted(answer) as port:
        load = Load(port, kinds_of(b"question"), 2, 1)
        assert load.saturate(0.05) > 0
        load.close()

    assert not load.records[0].latencies
    assert not load.answers
    assert not load.errors
    assert bool(load.saturated_errors) is (answer is REFUSED)


def test_what_a_store_stood_still_for_is_counted():
    with private_store() as store:
        store.watch_stops()
        assert stops_row(store.stops())["stops"] == 0
        store.client.eval(STANDING_STILL, 0)
        row = stops_row(store.stops())

    assert (row["stops"], row["stops of the disk"]) == (1, 0)
    assert row["longest ms"] >= 1e3 * STOP_SECONDS


def test_messages_that_must_differ_do():
    seen: list[int] = []

    def varied(message: bytes, number: int) -> bytes:
        seen.append(number)
        return message

    loaded(OK, (Kind("events 100", 1.0, [post("/", b"x")], varied),))

    assert seen == list(range(len(seen)))
    assert seen


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with private_store() as opened:
        opened.publish(atlas(1))
        yield opened


def atlas(seed: int) -> Atlas:
    return Atlas.build(random_maps(3, seed))


def answer_of(probabilities: list[float], version: str) -> Response:
    body = orjson.dumps({"probabilities": probabilities, "version": version})
    return Response(0, 0, b"", body)


def wrong(answers: list[Response], store: Store) -> tuple[int, int]:
    question = ScoresRequest(["campaign-1", "campaign-2"], np.array([0.1, 0.2]), Ids(0, {}))
    calibration = Calibration(KINDS[0], JSON_FORM, [question])
    return wrong_answers([calibration], answers, store, "click")


def test_an_answer_that_is_off_by_one_bit_is_wrong(store):
    """As is one that mixes the maps of two versions."""
    version = store.client.get("sirocco:{maps}:current").decode()
    right = [atlas(1).at("campaign-1", 0.1), atlas(1).at("campaign-2", 0.2)]
    near = [right[0], float(np.nextafter(right[1], 2.0))]
    mixed = [right[0], atlas(2).at("campaign-2", 0.2)]

    assert wrong([answer_of(right, version)], store) == (0, 1)
    for told in (near, mixed, right[:1]):
        assert wrong([answer_of(told, version)], store) == (1, 1)


def test_events_that_were_not_all_accepted_are_wrong(store):
    told = [
        {"accepted": 1, "duplicates": duplicates, "rejected": rejected}
        for duplicates, rejected in ((0, []), (1, []), (0, [{"index": 0, "error": "late"}]))
    ]
    answers = [Response(1, 0, b"", orjson.dumps(about)) for about in told]

    assert wrong(answers, store) == (2, 0)


def test_refits_are_told_from_quiet_time_and_memory_by_its_growth():
    """100 s of requests; the refit is felt from 30 s to 41 s, a second after its end."""
    scheduled = np.arange(0.0, 100.0, 0.1)
    latencies = np.where((scheduled >= 30) & (scheduled < 41), 0.003, 0.002)
    records = [Record(array("d", scheduled), array("d", latencies)), Record()]
    told = [
        {"kind": "memory", "at": float(at), "bytes": [(100 + (at >= 75)) * MEGABYTE, MEGABYTE]}
        for at in range(100)
    ]
    told += [{"kind": "filters", "at": at, "bytes": (at >= 75) * MEGABYTE} for at in (0, 74, 75)]
    told += [{"kind": "asked", "at": 30.0}, {"kind": "done", "at": 40.0, "error": "lost"}]
    told += [{"kind": "asked", "at": 99.99}]
    taken = [0.5] * 31 + [0.75] * 69
    told += [{"kind": "stolen", "at": float(at), "seconds": taken[at]} for at in range(100)]
    load = Load.__new__(Load)
    load.records, load.lateness, load.waited, load.errors = records, array("d", [0.5]), 3, 2
    load.saturated_errors = 5
    load.read_lateness = array("d", [0.25])

    echo = Load.__new__(Load)
    echo.records = [Record(array("d", scheduled), array("d", latencies / 2))]

    run = Run(100 / 60, 20.0, 0.5, 0.1, told, 0.9, wrong=1, versions=4)
    rows = rows_of(run, load, KINDS, echo)

    whole, all_of = rows["whole run"], rows["all calibrations"]
    assert (whole["errors"], whole["wrong answers"], whole["versions"]) == (3, 1, 4)
    assert whole["errors, saturated"] == 5
    assert whole["server MB grown, %"] == pytest.approx(1)
    assert whole["server MB grown but for filters of ids, %"] == pytest.approx(0)
    assert whole["worker MB grown, %"] == 0
    assert (whole["load late, p99 ms"], whole["no free connection"]) == (500, 3)
    assert whole["load slow to read, p99 ms"] == 250
    assert whole["server cores, saturated"] == 0.9
    assert all_of == rows["calibrate 1"]
    assert all_of["p99 in refits, ms"] == pytest.approx(3)
    assert all_of["p99 otherwise, ms"] == pytest.approx(2)
    assert all_of["refits move p99, %"] == pytest.approx(50)
    assert all_of["p99.9 / p50"] == pytest.approx(1.5)
    assert whole["stolen by the host, s"] == 0.25
    assert rows["events 100"]["requests"] == 0
    assert middle(rows["minute 1"]["worst 10 s, p99 ms"]) == pytest.approx(3)
    assert middle(rows["minute 2"]["p99 ms"]) == pytest.approx(2)
    assert middle(rows["minute 1"]["echo, p99.9 ms"]) == pytest.approx(1.5)
    assert middle(rows["minute 2"]["echo, p99.9 ms"]) == pytest.approx(1)
    median_minute = next(target for target in TARGETS if "in the median minute" in target.what)
    assert median_minute.found({"soak": rows}) == pytest.approx(2)


def test_seconds_in_which_the_host_took_the_core_are_told_apart():
    """It did so between 50 s and 51 s, and for a second after it requests wait in line."""
    scheduled = np.arange(0.0, 100.0, 0.1)
    latencies = np.where((scheduled >= 50) & (scheduled < 52), 0.05, 0.002)
    taken = [{"kind": "stolen", "at": float(at), "seconds": 0.2 * (at > 50)} for at in range(100)]
    load = Load.__new__(Load)
    load.records, load.errors, load.waited = (
        [Record(array("d", scheduled), array("d", latencies))],
        0,
        0,
    )

    row = echo_row(Run(100 / 60, 20.0, 0.5, 0.1, taken), load)

    assert row["p99.9 ms"] == pytest.approx(50)
    assert row["p99.9 but in seconds stolen, ms"] == pytest.approx(2)
    nothing = echo_row(Run(100 / 60, 20.0, 0.5, 0.1, []), load)
    assert nothing["p99.9 but in seconds stolen, ms"] == pytest.approx(50)


def test_the_echo_has_a_row_of_its_own():
    """It knows refits, too: those of the service beside it."""
    load = loaded(OK, kinds_of(b"question"))
    began, ended = load.records[0].scheduled[0], load.records[0].scheduled[-1]
    told = [
        {"kind": "asked", "at": (began + ended) / 2},
        {"kind": "done", "at": ended, "error": ""},
    ]

    row = echo_row(Run(1.0, 2_000.0, 0.5, 0.1, told), load)

    assert row["requests"] == load.answers.total()
    assert (row["errors"], row["no free connection"]) == (0, load.waited)
    longest = max(load.records[0].latencies) * 1e3
    assert 0 < middle(row["p50 ms"]) <= middle(row["p99.9 ms"]) <= longest
    assert 0 < middle(row["p99 in refits, ms"]) <= longest
    assert 0 < middle(row["p99 otherwise, ms"]) <= longest


def test_who_is_first_in_line_stands_where_it_stood_afterwards():
    before = os.sched_getscheduler(0)
    with first_in_line(os.getpid()) as is_first:
        assert (os.sched_getscheduler(0) != before) is is_first
    assert os.sched_getscheduler(0) == before


def test_without_permission_nobody_is_first(monkeypatch):
    def refused(process_id: int, policy: int, place: os.sched_param) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with first_in_line(os.getpid()) as is_first:
        assert not is_first


def test_connections_are_taken_in_turns():
    """A server closes what is idle for long, and a request on its way there would be an error."""

    def in_turns() -> bool:
        """Unless the machine holds up one of the threads that answer."""
        heard: Counter[int] = Counter()
        with scripted(OK, heard=heard) as port:
            load = Load(port, kinds_of(b"question"), 5, 1)
            load.run(500, 0.2)
            load.close()
        return len(heard) == 5 and min(heard.values()) > heard.total() / 10

    eventually(in_turns)


def test_memory_of_a_process_grows_by_what_it_holds():
    before, of_threads = megabytes(os.getpid())
    # New pages: the allocator may have as much free, and resident, from tests before.
    with mmap.mmap(-1, 64 * MEGABYTE) as held:
        for _ in range(64):
            held.write(bytes(MEGABYTE))
        after, _ = megabytes(os.getpid())
    # Other threads of the tests may take or give back a little meanwhile.
    assert 50 < after - before < 96
    assert 0.0 <= of_threads < before
