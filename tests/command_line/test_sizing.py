"""`sirocco size`: its costs are the benchmarks', its table is the docs', its memory a service's."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from app.cli.serving.client import ServiceClient
from app.results import capacity as costs
from app.results.capacity import Cost, Traffic, capacity
from app.settings import Settings
from app.storage.redis.client import open_redis
from benchmarks.figures import middle
from benchmarks.report.results import saved
from research.faults.service import Service
from tests.command_line.test_up import is_ready, wait_until
from tests.docs.pages import code_blocks, table_below, text_of
from tests.loopback import LOOPBACK
from tests.recorded.commands import sirocco
from tests.reserved_ports import reserved_port

PAGE = text_of("docs/capacity.md")
HEADER = "| campaigns | a second | API cores | API GB | worker GB | Redis GB | Redis disk GB |"
COSTS = {name: cost for name, cost in vars(costs).items() if isinstance(cost, Cost)}


def test_costs_are_those_that_benchmarks_measured():
    """Whoever measures anew is told which constants are out of date, by more than a quarter."""
    results = saved()
    for name, cost in COSTS.items():
        for size, value in cost.by_size.items():
            spelled = str(size) if cost.part == "grid" else f"{size:,}"
            row, column = cost.row.format(spelled), cost.column.format(spelled)
            measured = middle(results[cost.part].rows[row][column])
            assert value == pytest.approx(measured, rel=0.25), (name, size, measured)
    assert len(COSTS) == 18


def test_few_impressions_take_no_more_than_is_reckoned():
    rows = saved()["memory"].rows
    measured = [middle(rows[f"campaign-hour, {n} impressions"]["bytes"]) for n in (1, 5, 20)]

    assert all(most <= costs._row_bytes(n) for n, most in zip((1, 5, 20), measured, strict=True))
    assert costs._row_bytes(20) == pytest.approx(measured[-1], rel=0.25)
    assert middle(rows["empty server"]["bytes"]) <= costs.REDIS_BYTES


def sized(line: str, folder: Path) -> dict[str, Any]:
    return dict(orjson.loads(sirocco(f"size {line} --json", folder).partition("\n---")[0]))


def test_the_page_shows_what_the_command_prints(tmp_path):
    shown = code_blocks(PAGE, "")[0]
    command, _, output = shown.removeprefix("$ sirocco ").partition("\n")

    assert sirocco(command, tmp_path).partition("\n--- stderr")[0].split() == output.split()


def test_the_table_of_the_page_is_made_by_the_command(tmp_path):
    """A failure shows the rows to paste."""
    shown = table_below(PAGE, HEADER)
    made = []
    for campaigns, events, *_ in shown:
        line = f"--campaigns {campaigns} --events-per-second {events}".replace(",", "")
        need = sized(line, tmp_path)["needs"]
        sizes = [need["API"]["memory"], need["worker"]["memory"], *list(need["Redis"].values())[1:]]
        cells = [str(need["API"]["cores"]), *(f"{size / 1e9:,.2f}" for size in sizes)]
        made.append([campaigns, events, *cells])

    rows = "\n".join(f"| {' | '.join(row)} |" for row in made)
    assert len(shown) == 9
    assert shown == made, f"docs/capacity.md:\n{rows}"


def test_more_of_anything_needs_no_less():
    """Up to sizes that nobody has measured."""
    for more in ("campaigns", "events", "scores", "delayed_clicks"):
        usual: dict[str, Any] = {"campaigns": 500, "events": 100.0, "scores": 100.0}
        found = [
            capacity(Traffic(**{**usual, more: 10**power}), Settings()).needs for power in range(8)
        ]
        for smaller, larger in pairwise(found):
            for name, need in smaller.items():
                assert need.memory <= larger[name].memory, (more, name)
                assert need.disk <= larger[name].disk, (more, name)
                assert need.cores <= larger[name].cores, (more, name)


def test_each_field_needs_memory_of_redis():
    names = ("device", "placement")
    found = [
        capacity(Traffic(500, 100.0, 100.0), Settings(fields=names[:count])).needs["Redis"].memory
        for count in range(3)
    ]
    assert found[2] - found[1] == pytest.approx(found[1] - found[0], abs=2)
    assert found[1] > 1.5 * found[0]


def test_what_one_redis_and_one_worker_cannot_do_is_said(tmp_path):
    said = sirocco("size --campaigns 4000000 --events-per-second 200000", tmp_path)

    assert "one thread" in said
    assert "refit less often" in said
    assert sized("--campaigns 100 --events-per-second 9", tmp_path)["warnings"] == []


WITHIN = (0.9, 3.0)
CAMPAIGNS, HOURS, IMPRESSIONS = 100, 2, 400
SMALL = {"SIROCCO_WINDOW_HOURS": "2", "SIROCCO_HISTORY_HOURS": "2", "SIROCCO_VERSIONS_KEPT": "2"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_service_takes_about_that_much_memory(tmp_path):
    """The estimate over what API, worker and Redis take at their peak lies in `WITHIN`."""
    service = Service(tmp_path, reserved_port(), SMALL)
    service.start()
    try:
        wait_until(lambda: is_ready(service.url), "ready")
        with ServiceClient(service.url) as client:
            send(service.url, time.time())
            client.finished(client.change("retrain"), 300)
        pids = service.processes()
        with open_redis(service.redis_url) as store:
            taken = {"Redis": int(store.info("memory")["used_memory_peak"])}
        taken |= {"API": peak_bytes(pids["serve"]), "worker": peak_bytes(pids["worker"])}
    finally:
        service.stop()
    traffic = Traffic(CAMPAIGNS, CAMPAIGNS * IMPRESSIONS / 3600, 0.0, batch=1000)
    settings = Settings(window_hours=2, history_hours=2, versions_kept=2)
    found = {name: need.memory for name, need in capacity(traffic, settings).needs.items()}
    ratios = {name: found[name] / bytes_ for name, bytes_ in taken.items()}
    assert all(WITHIN[0] < ratio < WITHIN[1] for ratio in ratios.values()), (ratios, taken)


def send(url: str, now: float) -> None:
    """Impressions with ids, of the present hour and those before."""
    start = (now // 3600 - HOURS + 1) * 3600
    for number in range(CAMPAIGNS * HOURS * IMPRESSIONS // 1000):
        batch = [
            {
                "type": "impression",
                "id": f"{one:032d}",
                "campaign": f"campaign-{one % CAMPAIGNS}",
                "occurred_at": start + one % HOURS * 3600,
                "scores": {"click": 0.002 * 50 ** (one * 0.618 % 1)},
            }
            for one in range(1000 * number, 1000 * (number + 1))
        ]
        answer = httpx.post(f"{url}/v1/events", json=batch, **LOOPBACK)
        assert answer.json()["accepted"] == 1000, answer.text


def peak_bytes(process: int) -> int:
    """Most memory that it ever took."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
