"""kill -9 of `sirocco up`, its API, its worker and its Redis, at any moment, under load.

No kill waits for the service to be ready: many hit processes that start, load their file, or are
just taken over. Every request is sent again until it is acknowledged; in the end the bins and the
click log must hold each event exactly once.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final

import httpx
import orjson
import redis

from app.click_log.log import ClickLog
from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.redis.client import open_redis
from research.faults.acknowledged import DELAYED, SECONDS_BACK, TARGET, Acknowledged, Batch
from research.faults.service import PROCESSES, STANDBY, Service, seconds_of_life

_HOUR: Final = 3600
_YOUNG_SECONDS: Final = 2.0
"""A process that is killed so soon was not ready yet."""
_AGAIN_SECONDS: Final = 0.05
_END_SECONDS: Final = 600.0
_KEEP_DAYS: Final = 2
ENVIRONMENT: Final = {
    "SIROCCO_ATTRIBUTION_HOURS": f"{DELAYED}=24",
    "SIROCCO_POST_CLICK_MINUTES": "1",
    "SIROCCO_REFIT_DELAY_SECONDS": "0",
    "SIROCCO_REFIT_MINUTES": "1",
    "SIROCCO_FOLD_SECONDS": "0.5",
    "SIROCCO_LEASE_SECONDS": "2",
    "SIROCCO_MIN_SAMPLES": "100",
}
"""Short lives, so that kills meet every phase: a refit a minute, a fold twice a second."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`kills` of processes, or as many as there are in `seconds`; on average `pause` seconds apart,
    at least `events` between two kills on average over the run. With a `standby` there are two
    workers."""

    kills: int
    seed: int
    events: int = 5000
    pause: float = 1.0
    clients: int = 3
    seconds: float = inf
    standby: bool = False


@dataclass(slots=True)
class Outcome:
    """What came of it. `lost` and `doubled` are events; `amiss` says what else was wrong.

    `ended` is what `sirocco up` said when it ended by itself, as it may behind a killed one.
    """

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: int = 0
    clicks: int = 0
    retries: int = 0
    answers: int = 0
    ended: list[str] = field(default_factory=list)
    seconds: float = 0.0
    lost: float = 0.0
    doubled: float = 0.0
    amiss: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every guarantee was kept."""
        return not (self.lost or self.doubled or self.amiss)


def run(plan: Plan, folder: Path, port: int, tell: Callable[[int], None]) -> Outcome:
    """Kill, and count what is there in the end; `tell` is given the number of kills so far."""
    service = Service(folder, port, ENVIRONMENT, plan.standby)
    acknowledged, calibrations, outcome = Acknowledged(), Calibrations(service.url), Outcome()
    began = time.monotonic()
    service.start()
    try:
        with _at_work(plan, service, acknowledged, calibrations):
            for kill in _kills(plan, service, acknowledged, tell):
                outcome.kills[kill] += 1
        _wait_until(lambda: service.status().get("status") == "ready", "ready in the end")
        _compare(service, acknowledged, outcome)
    finally:
        service.stop()
    outcome.events, outcome.retries = acknowledged.events, acknowledged.retries
    outcome.answers, outcome.ended = calibrations.answers, service.ended
    outcome.amiss += acknowledged.wrong + calibrations.wrong
    outcome.seconds = time.monotonic() - began
    return outcome


def _kills(
    plan: Plan, service: Service, acknowledged: Acknowledged, tell: Callable[[int], None]
) -> Iterator[tuple[str, str]]:
    """Kill, and give who it was and whether it was starting or running."""
    random, end = Random(plan.seed), time.monotonic() + plan.seconds
    processes = (*PROCESSES, STANDBY) if plan.standby else PROCESSES
    for number in range(1, plan.kills + 1):
        if time.monotonic() > end:
            return
        # Not behind each kill, so that some come in quick succession.
        if random.random() < 1 / 2:
            _wait_until(partial(_flow, service, acknowledged, number * plan.events), "events flow")
        time.sleep(random.expovariate(1 / plan.pause))
        name = random.choice(processes)
        process = _victim(service, name)
        age = seconds_of_life(process)
        service.kill(name, process)
        tell(number)
        yield name, "starting" if age < _YOUNG_SECONDS else "running"


def _flow(service: Service, acknowledged: Acknowledged, events: int) -> bool:
    """Whether so many are acknowledged; a service that has ended meanwhile is started again."""
    service.processes()
    return acknowledged.has(events)


def _victim(service: Service, name: str) -> int:
    """The process of this name, as soon as there is one: each name has its share of the kills."""
    found: dict[str, int] = {}

    def is_there() -> bool:
        found.update(service.processes())
        return name in found

    _wait_until(is_there, f"there is a process of {name}")
    return found[name]


@contextmanager
def _at_work(
    plan: Plan, service: Service, acknowledged: Acknowledged, calibrations: "Calibrations"
) -> Iterator[None]:
    """Clients that send events, and one that asks for calibrations, until the block ends."""
    stop = Event()
    clients = [EventClient(service.url, plan, place, acknowledged) for place in range(plan.clients)]
    work = [*(client.run for client in clients), calibrations.run]
    threads = [Thread(target=one, args=(stop,)) for one in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@dataclass(frozen=True, slots=True)
class EventClient:
    """One of `plan.clients` that send batches, each again until it is acknowledged."""

    url: str
    plan: Plan
    place: int
    acknowledged: Acknowledged

    def run(self, stop: Event) -> None:
        """Batch after batch; what has begun is finished."""
        number = self.place
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=30) as http:
            while not stop.is_set():
                at = time.time() - SECONDS_BACK
                self._send(http, Batch(self.plan.seed, number, at))
                number += self.plan.clients

    def _send(self, http: httpx.Client, batch: Batch) -> None:
        tries = [self._tries(http, batch, *request) for request in batch.requests()]
        if all(tries):
            self.acknowledged.add(batch, sum(tries), len(tries))

    def _tries(
        self, http: httpx.Client, batch: Batch, events: Sequence[Any], headers: dict[str, str]
    ) -> int:
        """How often a request was sent until it was acknowledged; 0 where it was not."""
        body, end = orjson.dumps(events), time.monotonic() + _END_SECONDS
        for tries in range(1, 1_000_000):
            answer = _posted(http, "/v1/events", body, headers)
            if answer is not None and answer.status_code == httpx.codes.OK:
                found = answer.json()
                if found["accepted"] + found["duplicates"] != len(events):
                    self.acknowledged.complain(f"{batch.key}: {answer.text[:500]}")
                return tries
            if answer is not None and answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                self.acknowledged.complain(f"{batch.key}: {answer.status_code} {answer.text[:500]}")
            if time.monotonic() > end:
                break
            time.sleep(_AGAIN_SECONDS)
        self.acknowledged.complain(f"{batch.key}: not acknowledged in {_END_SECONDS:.0f} s")
        return 0


@dataclass(slots=True)
class Calibrations:
    """Asks for calibrations and holds the answers to what is guaranteed: probabilities in [0, 1]
    that rise with the score, and no identity once there were maps."""

    url: str
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    had_maps: bool = False

    def run(self, stop: Event) -> None:
        """Ask until `stop`."""
        body = orjson.dumps({"target": TARGET, "campaign": "campaign-000", "scores": _SCORES})
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=30) as http:
            while not stop.wait(_AGAIN_SECONDS):
                answer = _posted(http, "/v1/calibrate", body, {})
                if answer is not None:
                    self._check(answer)

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code != httpx.codes.OK:
            self.wrong.append(f"calibrate: {answer.status_code} {answer.text[:200]}")
            return
        self.answers += 1
        found: dict[str, Any] = answer.json()
        values = found["probabilities"]
        if values != sorted(values) or not 0 <= values[0] <= values[-1] <= 1:
            self.wrong.append(f"calibrate: {values}")
        # By what is answered: the first version, of a window without events, has no maps either.
        if self.had_maps and values == _SCORES:
            self.wrong.append("calibrate: the identity, though there were maps")
        self.had_maps |= values != _SCORES


_SCORES: Final = [0.01, 0.1, 0.3, 0.5, 0.9]


def _posted(
    http: httpx.Client, path: str, body: bytes, headers: dict[str, str]
) -> httpx.Response | None:
    """The answer; None where the connection died."""
    try:
        return http.post(path, content=body, headers={"content-type": _JSON, **headers})
    except httpx.TransportError:
        return None


_JSON: Final = "application/json"


def _compare(service: Service, acknowledged: Acknowledged, outcome: Outcome) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(open_redis(service.redis_url, 60.0))
        clicks = acknowledged.clicks()
        outcome.clicks = len(clicks)
        _wait_until(lambda: _is_settled(store), "all that is due is folded and closed")
        _compare_bins(BinsStore(store, _KEEP_DAYS * 24 * _HOUR), acknowledged, outcome)
    _compare_clicks(ClickLog.open(str(service.click_log)), clicks, outcome)


def _is_settled(store: redis.Redis) -> bool:
    """Nothing is left to fold, and no click is open."""
    logs = [key(shard) for key in (keys.logs, keys.conversion_logs) for shard in range(keys.SHARDS)]
    return not store.exists(*logs) and not OpenClicks(store).counts()["open"]


def _compare_bins(bins: BinsStore, acknowledged: Acknowledged, outcome: Outcome) -> None:
    for hour, expected in acknowledged.bins().items():
        found = bins.hour(TARGET, hour)
        if found == expected:
            continue
        difference = _events(found) - _events(expected)
        outcome.lost += max(0.0, -difference)
        outcome.doubled += max(0.0, difference)
        outcome.amiss.append(f"hour {hour}: the bins are not those of what was acknowledged")


def _events(table: Any) -> float:
    return float(sum(bins.total_count for _, bins in table))


def _compare_clicks(log: ClickLog, expected: dict[str, float | None], outcome: Outcome) -> None:
    now = time.time()
    logged, known = log.known(DELAYED, 0.0, now, now, window=24.0 * _HOUR)
    delays = zip(logged.click_ids.to_pylist(), known.delay.tolist(), strict=True)
    found = {name: None if delay != delay else round(delay, 3) for name, delay in delays}
    if missing := expected.keys() - found.keys():
        outcome.lost += len(missing)
    if more := found.keys() - expected.keys():
        outcome.doubled += len(more)
    wrong = [name for name, delay in expected.items() if name in found and found[name] != delay]
    if wrong:
        outcome.amiss.append(f"{len(wrong)} clicks with a wrong conversion, {wrong[0]} for one")


def _wait_until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + _END_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_END_SECONDS:.0f} s: {what}")
        time.sleep(_AGAIN_SECONDS)
