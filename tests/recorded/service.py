"""What a running service answers and stores: `sirocco up` on a Redis of its own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import redis
from prometheus_client.parser import text_string_to_metric_families
from sirocco_client import EdgeCalibrator, Sirocco

from app.settings import Settings
from app.storage.keys import PROBE
from tests.clients.faulty_proxy import FaultyProxy
from tests.columns import bodies
from tests.loopback import PATIENT
from tests.recorded.commands import (
    CLICKS,
    DELAYED,
    MORNING,
    MORNING_HOURS,
    START,
    columns_of,
    sirocco,
    write_logs,
)
from tests.recorded.texts import Items, exact

SETTINGS = {
    **DELAYED,
    "SIROCCO_CLOCK": "event",
    "SIROCCO_PORT": "0",
    "SIROCCO_WINDOW_HOURS": "6",
    "SIROCCO_BIN_SIZE": "200",
    "SIROCCO_REFRESH_SECONDS": "0.05",
    "SIROCCO_TRAINING_DAYS": "2",
    "SIROCCO_BEHAVIOURS": "session_seconds,page_views,add_to_cart,favorites,purchases",
}
COLUMNS = {"Content-Type": "application/vnd.sirocco.columns"}
CAMPAIGN = "campaign-1"
END = START + MORNING_HOURS * 3600
"""Behind the last hour of the log."""
# By name: what differs from run to run, and nothing else.
_VARYING = re.compile(
    r'("(?:published_at|refit_seconds|training_seconds|created_at|started_at|finished_at'
    r'|judging_seconds|report_sha256)":)[^,}]+'
)
_SEAL = re.compile(rb"\A2:[0-9a-f]{8}:(?=\{)")
"""The checksum of JSON, which varies as that does."""
# Batches of a log are numbered by the time.
_MASKED_KEYS = re.compile(r":(audit|audit:head|heartbeat|(lease|fence):[\w-]+)$|:folding:")
# Held between folds, and not during a refit.
_NOW_AND_THEN = re.compile(rb":lease:folds-")
_MASKED_FIELDS = {"folds", "from", "created_at", "started_at", "finished_at"}
_REQUESTS: dict[str, tuple[str, str, Any]] = {
    "atlas of an unknown target": ("GET", "/v1/atlas/nothing", None),
    "campaigns": ("GET", "/v1/campaigns", None),
    "campaign": ("GET", f"/v1/campaigns/{CAMPAIGN}", None),
    "ids": ("GET", "/v1/atlas/click/ids", None),
    "map": ("GET", f"/v1/maps/click/{CAMPAIGN}", None),
    "map of a stranger": ("GET", "/v1/maps/click/stranger", None),
    "versions": ("GET", "/v1/admin/versions", None),
    "overrides": ("GET", "/v1/admin/overrides", None),
    "calibrate": (
        "POST",
        "/v1/calibrate?explain=true",
        {"target": "click", "campaigns": [CAMPAIGN, "stranger"], "scores": [0.03, 0.25]},
    ),
    "calibrate out of bounds": (
        "POST",
        "/v1/calibrate",
        {"target": "click", "campaign": CAMPAIGN, "scores": [1.5]},
    ),
    "calibrate of no target": ("POST", "/v1/calibrate", {"scores": [0.5]}),
    "events": (
        "POST",
        "/v1/events",
        [
            {
                "type": "outcome",
                "target": "click",
                "campaign": CAMPAIGN,
                "score": 0.25,
                "outcome": 1,
                "occurred_at": END + 10,
            },
            {
                "type": "impression",
                "campaign": "new",
                "scores": {"click": 0.125},
                "occurred_at": END + 11,
            },
            {"type": "impression", "campaign": "new", "scores": {"click": 2}, "occurred_at": END},
            {"type": "nothing"},
        ],
    ),
    "job that is none": ("GET", "/v1/admin/jobs/none", None),
    "retrain of no target": ("POST", "/v1/admin/retrain", {"target": "nothing"}),
}


@dataclass(frozen=True, slots=True)
class Service:
    """One that runs."""

    http: httpx.Client
    store: redis.Redis
    click_log: Path

    @property
    def url(self) -> str:
        return str(self.http.base_url).rstrip("/")


@contextlib.contextmanager
def running(folder: Path, **settings: str) -> Iterator[Service]:
    """`sirocco up` by its console script, with its data in the folder."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("SIROCCO_")}
    given = {**PATIENT, **SETTINGS, **settings, "SIROCCO_DATA_DIR": str(folder / "data")}
    script = Path(sys.executable).with_name("sirocco")
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [script, "up", "--json"], env={**ours, **given}, stdout=subprocess.PIPE, stderr=log
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "up.log").read_text()
        url = json.loads(line)["API"].removesuffix("/docs")
        socket = (folder / "data" / "redis.address").read_text()
        with (
            httpx.Client(base_url=url, timeout=60) as http,
            redis.Redis(unix_socket_path=socket) as store,
        ):
            yield Service(http, store, folder / "data" / "click-log")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=240)


def service_items(folder: Path) -> Items:
    """A log of immediate outcomes replayed: what is answered, and what is stored of it."""
    write_logs(folder)
    with running(folder) as service:
        replayed = f"replay {MORNING} --no-picture --window 6h --url {service.url}"
        items = {"service/replay": _masked(sirocco(replayed, folder), service)}
        items |= _stored(service, "immediate")
        items |= _answers(service) | _atlas(service) | _columns(service)
        items["service/openapi"] = json.dumps(service.http.get("/openapi.json").json(), indent=1)
        items["service/metrics"] = _families(service)
        items["service/settings"] = _settings()
    return items


def slow_service_items(folder: Path) -> Items:
    """Clicks replayed, their conversions days late: what Redis and the click log hold of them.

    Not the maps, nor the probabilities of clicks: they hang on which refit comes first after a
    training, by the clock. `backtest --delayed` has both.
    """
    soon = {"SIROCCO_ATTRIBUTION_HOURS": "conversion=6"}
    sirocco(f"simulate {CLICKS} --clicks 150 --days 2 --campaigns 3 --seed 3", folder)
    with running(folder, **soon) as service:
        replayed = f"replay {CLICKS} --delayed --judged 1d --no-picture --url {service.url}"
        assert sirocco(replayed, folder, **soon).endswith("exit code 0\n")
        stored = _stored(service, "delayed")
        items = {name: text for name, text in stored.items() if "{maps}" not in name}
        # Labels hang on the maps in force, as a gauge has none before its value is known.
        families = _families(service).splitlines()
        items["service/metrics delayed"] = "\n".join(" ".join(f.split()[:2]) for f in families)
        parts = sorted(service.click_log.rglob("*.parquet"))
        columns = [(part.parent, columns_of(part, without="probability.")) for part in parts]
    for number, (place, text) in enumerate(sorted(columns)):
        items[f"click log/{place.relative_to(service.click_log)} {number}"] = text
    return items


def _masked(text: str, service: Service) -> str:
    return _VARYING.sub(r"\1(varies)", text).replace(service.url, "(url)")


def _answers(service: Service) -> Items:
    items = {}
    for name, (method, path, body) in _REQUESTS.items():
        got = service.http.request(method, path, json=body)
        said = f"{got.status_code} {got.headers['Content-Type']}\n{got.text}"
        items[f"http/{name}"] = _masked(said, service)
    return items


def _atlas(service: Service) -> Items:
    """The atlas as it is sent, and as the client reads it."""
    got = service.http.get("/v1/atlas/click")
    scores = [place / 200 for place in range(201)]
    with EdgeCalibrator(service.url, "click") as edge:
        assert edge.wait(60)
        read = {name: [edge.at(name, s) for s in scores] for name in (CAMPAIGN, "stranger")}
    headers = {key: got.headers[key] for key in ("etag", "content-type")}
    return {"atlas/sent": exact((headers, got.content)), "atlas/client": exact(read)}


def _columns(service: Service) -> Items:
    """Binary columns: what the client sends, what is answered, and events by the book."""
    names, scores = [CAMPAIGN, "stranger", "campaign-2"], [0.03, 0.25, 1.0]
    flags = bodies.LEVELS
    asked = bodies.scores_body(scores, campaigns=names, flags=flags)
    events = bodies.outcomes_body(scores, [END + 20.0] * 3, [0.0, 1.0, 0.5], campaigns=names)
    with FaultyProxy(service.url) as proxy, Sirocco(proxy.url, binary=True, timeout=20.0) as client:
        called = client.calibrate("click", names, scores)
        sent = [(seen.path, seen.body) for seen in proxy.seen if seen.method == "POST"]
    return {
        "columns/asked": exact(asked),
        "columns/answer": exact(_post(service, "/v1/calibrate", asked)),
        "columns/events": exact(events),
        "columns/events answer": exact(_post(service, "/v1/events", events)),
        "columns/client": exact((sent, list(called.probabilities))),
    }


def _post(service: Service, path: str, body: bytes) -> bytes:
    got = service.http.post(path, content=body, headers=COLUMNS)
    assert got.status_code == 200, got.text
    return got.content


def _families(service: Service) -> str:
    """Name, type and labels of every family."""
    families = text_string_to_metric_families(service.http.get("/metrics").text)
    found = (
        (family.name, family.type, sorted({key for s in family.samples for key in s.labels}))
        for family in families
    )
    return "\n".join(f"{name} {kind} {' '.join(labels)}" for name, kind, labels in sorted(found))


def _settings() -> str:
    """Name, type, bounds and default of every setting."""
    properties = Settings.model_json_schema()["properties"]
    told = {"description", "title"}
    return "\n".join(
        f"{name} {json.dumps({key: v for key, v in rules.items() if key not in told})}"
        for name, rules in sorted(properties.items())
    )


def _stored(service: Service, what: str) -> Items:
    """All that Redis holds, by kind of key: the name of every key, and its content."""
    kinds: dict[str, list[str]] = {}
    for key in sorted(set(service.store.keys("*")) - {PROBE.encode()}):
        if _NOW_AND_THEN.search(key):
            continue
        name = key.decode()
        content = "(varies)" if _MASKED_KEYS.search(name) else _content(service.store, key)
        kinds.setdefault(_kind(name), []).append(f"{name} {content}")
    return {f"redis {what}/{kind}": "\n".join(lines) for kind, lines in sorted(kinds.items())}


def _kind(name: str) -> str:
    """The name without shard, hour, version and ids."""
    return re.sub(r"\{\d+\}|:\d[^:]*", "", name.removeprefix("sirocco:")).strip(":")


def _content(store: redis.Redis, key: bytes) -> str:
    """Type and content of one key; what Redis keeps in no order is sorted."""
    kind = store.type(key).decode()
    if kind == "hash":
        return f"hash {_fields(store.hgetall(key))}"
    if kind == "set":
        return f"set {sorted(store.smembers(key))}"
    if kind == "zset":
        return f"zset {sorted(store.zrange(key, 0, -1))}"
    if kind == "list":
        return f"list {store.lrange(key, 0, -1)}"
    return f"{kind} {_bytes(store.get(key))}"


def _fields(content: Mapping[bytes, bytes]) -> str:
    held = sorted((name.decode(), value) for name, value in content.items())
    return ", ".join(f"{n}={'(varies)' if n in _MASKED_FIELDS else _bytes(v)}" for n, v in held)


def _bytes(value: bytes) -> str:
    """JSON as it is but for what varies; anything else as hexadecimal digits.

    A manifest begins with the SHA-256 of the rest, which varies as the rest does. It is asked for
    first, for it may begin with any byte.
    """
    sealed = sha256(value[32:]).digest() == value[:32]
    body = value[32:] if sealed else _SEAL.sub(b"", value)
    if body[:1] == b"{":
        return _VARYING.sub(r"\1(varies)", body.decode())
    return value.hex()
