"""Beside the load, in a process of its own: asks for refits, scrapes metrics, notes memory, and
what the host takes of the server's core.

Writes what it saw to standard output, a JSON object per line; moments are of the monotonic clock,
which all processes share.

python -m benchmarks.soak.sampler --url URL --redis URL --every SECONDS --core N --parent PID PID...
"""

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from redis import Redis

from app.cli.serving.client import ServiceClient
from app.cli.signals import end_with
from app.storage.jobs import Jobs
from app.storage.keys import SHARDS, hours, logs_named
from app.storage.redis.client import open_redis

LOOK_SECONDS = 0.1
SAMPLE_SECONDS = 1.0
SCRAPE_SECONDS = 10.0
WINDOWS = 3
"""Refits take turns at so many windows, an hour apart, so that each brings other maps."""
_HOUR_SECONDS = 3600


def note(**seen: Any) -> None:
    """One line."""
    sys.stdout.buffer.write(orjson.dumps(seen) + b"\n")
    sys.stdout.buffer.flush()


def resident_bytes(process_ids: Sequence[int]) -> list[int]:
    """Memory that each process holds."""
    page = os.sysconf("SC_PAGE_SIZE")
    stats = (Path(f"/proc/{number}/statm").read_text() for number in process_ids)
    return [int(stat.split()[1]) * page for stat in stats]


_STOLEN: Final = 8
"""Its place in a line of /proc/stat."""


def stolen_seconds(core: int) -> float:
    """What the host of a virtual machine has taken of a core, all in all."""
    lines = Path("/proc/stat").read_text().splitlines()
    columns = next(line.split() for line in lines if line.startswith(f"cpu{core} "))
    return int(columns[_STOLEN]) / os.sysconf("SC_CLK_TCK")


def filter_bytes(store: Redis) -> int:
    """What filters of ids take that processes of the API keep: those of the newest two hours."""
    members = store.pipeline(transaction=False)
    for shard in range(SHARDS):
        members.zrange(hours(shard), -4, -1)
    logs = [log for shard, some in enumerate(members.execute()) for log in logs_named(shard, some)]
    filters = store.pipeline(transaction=False)
    for log in logs:
        filters.hstrlen(log.packed_ids, "bloom")
    return sum(filters.execute())


def watch(given: Namespace) -> None:
    """Until told to stop."""
    begun = time.monotonic()
    sampled = scraped = begun
    refits, job = 0, ""
    with ServiceClient(given.url) as client, open_redis(given.redis) as store:
        jobs = Jobs(store)
        while True:
            now = time.monotonic()
            if now >= sampled:
                note(kind="memory", at=now, bytes=resident_bytes(given.processes))
                note(kind="stolen", at=now, seconds=stolen_seconds(given.core))
                sampled += SAMPLE_SECONDS
            if now >= scraped:
                scrape(given.url)
                note(kind="filters", at=now, bytes=filter_bytes(store))
                scraped += SCRAPE_SECONDS
            if not job and now >= begun + (refits + 0.5) * given.every:
                as_of = time.time() - refits % WINDOWS * _HOUR_SECONDS
                job = client.change("retrain", request={"as_of": as_of})["id"]
                refits += 1
                note(kind="asked", at=now)
            found = jobs.get(job) if job else None
            if found and found.finished_at is not None:
                note(kind="done", at=time.monotonic(), error=found.error or "")
                job = ""
            time.sleep(LOOK_SECONDS)


def scrape(url: str) -> None:
    """As Prometheus does."""
    connection = HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/metrics")
    connection.getresponse().read()
    connection.close()


def main() -> None:
    """Watch."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--every", type=float, required=True)
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("processes", type=int, nargs="+")
    given = parser.parse_args()
    end_with(given.parent)
    watch(given)


if __name__ == "__main__":
    main()
