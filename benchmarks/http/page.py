"""The page for operators in Chromium: what the first look at it takes, nothing of it being kept.

Each round is a browser context of its own, so no file is in its cache. The first picture is the
browser's first contentful paint, the whole picture its largest, both from the start of the
navigation; CPU is that of the tab's main thread. Times are of a busy or an idle machine, as the
line below the title says; requests and bytes, packed, with heads, are the same on any. The list is
of 10,000 campaigns with traffic.

    python -m benchmarks page [--json]
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.storage import keys
from app.storage.bins import BinsStore
from benchmarks.core.traffic import random_atlas
from benchmarks.figures import Cell, Figure, Table
from benchmarks.http.servers import HOST, service
from benchmarks.parts import Part
from benchmarks.store import Store, private_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SEED: Final = 1
# The path, and what is there once the view is whole.
VIEWS: Final = {"overview": ("", "#state"), "campaigns": ("#/campaigns/click", "tbody tr")}
_DAY_SECONDS: Final = 86_400
_ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync")
# A busy machine takes long to start a browser.
_PATIENCE_MS: Final = 600_000.0
# What is there may not be painted yet: both are waited for.
_PAINTS: Final = """async () => {
  const time = (type, name) => new Promise((resolve) => new PerformanceObserver((list) => {
    const found = list.getEntries().filter((entry) => !name || entry.name === name);
    if (found.length) resolve(found.at(-1).startTime);
  }).observe({ type, buffered: true }));
  return [await time("paint", "first-contentful-paint"), await time("largest-contentful-paint")];
}"""


@dataclass(frozen=True)
class Sizes:
    """How many campaigns there are, and how often each view is opened."""

    campaigns: int = 10_000
    rounds: int = 20


class Look(NamedTuple):
    """What one look took: requests, bytes, milliseconds until either picture, and of CPU."""

    requests: float
    size: float
    first: float
    whole: float
    cpu: float


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each view; a text where no browser is on PATH."""
    sizes = sizes or Sizes()
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    if binary is None:
        return {view: {"first picture, ms": "no chromium on PATH"} for view in VIEWS}
    with private_store() as store, service(store.url) as started, _browser(binary) as browser:
        store.publish(random_atlas(sizes.campaigns, SEED))
        _add_evidence(store, sizes.campaigns)
        url = f"http://{HOST}:{started.http.port}/"
        return {view: _row(browser, url, view, sizes.rounds) for view in VIEWS}


@contextmanager
def _browser(binary: str) -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=binary, args=list(_ARGUMENTS), timeout=_PATIENCE_MS
        )
        yield browser
        browser.close()


def _add_evidence(store: Store, campaigns: int) -> None:
    """Traffic of an hour, from which the list is sorted."""
    evidence = BinsStore(store.client, _DAY_SECONDS).evidence
    names = [f"campaign-{number:05d}" for number in range(campaigns)]
    for shard in range(keys.SHARDS):
        some = tuple(name for name in names if keys.shard_of(name) == shard)
        positives = np.arange(len(some), dtype=np.float64) % 7 + 10.0
        found = evidence.read("click", shard).after(1, some, np.full(len(some), 12.0), positives)
        evidence.write("click", shard, found)


def _row(browser: "Browser", url: str, view: str, rounds: int) -> dict[str, Cell]:
    _look(browser, url, view)
    looks = [_look(browser, url, view) for _ in range(rounds)]
    requests, size, first, whole, cpu = map(Figure.of, zip(*looks, strict=True))
    return {
        "requests": requests.median,
        "kB": size.median / 1e3,
        "first picture, ms": first,
        "whole picture, ms": whole,
        "browser CPU, ms": cpu,
    }


def _look(browser: "Browser", url: str, view: str) -> Look:
    path, whole = VIEWS[view]
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        sizes: list[float] = []
        tab = context.new_cdp_session(page)
        tab.send("Network.enable")
        tab.send("Performance.enable")
        tab.on("Network.loadingFinished", lambda end: sizes.append(end["encodedDataLength"]))
        page.goto(url + path)
        page.locator(whole).first.wait_for(timeout=_PATIENCE_MS)
        first, last = page.evaluate(_PAINTS)
        spent = {one["name"]: one["value"] for one in tab.send("Performance.getMetrics")["metrics"]}
        return Look(len(sizes), sum(sizes), first, last, 1e3 * spent["TaskDuration"])


PART = Part("page", "The page: requests, bytes, first picture", __doc__, measure)
