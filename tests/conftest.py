"""Real Redis for every test that asks for it, the examples that are drawn, and what is skipped."""

import gc
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
import redis
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.workermanage import NodeManager

from app.storage.redis.client import open_async_redis, open_redis
from app.storage.redis.server import EmbeddedRedis, NoRedisBinary, find_redis_binary
from tests.loopback import PATIENT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# No test asserts a duration, and a busy machine draws slowly. What 30 examples do not find, the
# thousand of `random` may.
settings.register_profile(
    "same",
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "random", settings.get_profile("same"), derandomize=False, max_examples=1_000
)
# `--hypothesis-profile` comes later, and wins.
settings.load_profile("same")

# Time-outs are for services; on a busy machine a test may have to wait for its turn.
open_redis.__defaults__ = open_async_redis.__defaults__ = (20.0,)

os.environ.update(PATIENT)
# LightGBM's threads are not to burn their cores while one waits that another test holds up: where
# several tests run, a training takes up to ten times the CPU by that. Read when it is imported.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

TESTS = Path(__file__).parent
# httpx reads the authorities of the whole world for every client that a test or a command makes,
# 20 ms each time; those here talk to this machine alone, so they may look for them in a folder
# that has none.
os.environ["SSL_CERT_DIR"] = str(TESTS)
os.environ.pop("SSL_CERT_FILE", None)
# Processes that are started import less.
CHILDREN = str(TESTS / "children")
if CHILDREN not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [CHILDREN, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
# What they test is no part of the product.
SLOW = [TESTS / "benchmarks", TESTS / "research"]
# A file without any of these words has no slow test.
SLOW_WORDS = re.compile(rb"\bmark\.slow\b|\bbrowser\b|\bstarted\b")


@pytest.fixture(autouse=True)
def same_handlers() -> Iterator[None]:
    """Whoever takes Ctrl-C or SIGTERM gives it back: one that is kept hangs the test after next."""
    before = [*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))]
    yield
    assert [*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))] == before


@pytest.fixture(scope="session")
def redis_binary() -> Path:
    """The server that a service would start; the contract of the storage has others, too."""
    try:
        return find_redis_binary()
    except NoRedisBinary as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def redis_server(redis_binary: Path) -> Iterator[EmbeddedRedis]:
    """A running server of the session's own."""
    with (
        TemporaryDirectory(prefix="sirocco-test-") as folder,
        EmbeddedRedis(Path(folder), redis_binary) as server,
    ):
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The URL of an empty server."""
    with open_redis(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="module")
def redis_url_of_module(redis_server: EmbeddedRedis) -> str:
    """The same for a service of all tests of a file: it must not find what tests before it left,
    for it would put that back when a test empties the server."""
    with open_redis(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of an empty server."""
    with open_redis(redis_url) as client:
        yield client


@cache
def may_be_slow(path: Path) -> bool:
    """Whether the file may have a slow test; docstrings of packages never are."""
    if any(map(path.is_relative_to, SLOW)):
        return True
    return path.is_relative_to(TESTS) and SLOW_WORDS.search(path.read_bytes()) is not None


def pytest_collection_finish() -> None:
    """The tests stay until the end: no search for garbage need look at them.

    Where the same examples are drawn every time, constants of our modules are not among them: which
    these are hangs on what else a process has tested, and all sources are parsed for them.
    """
    gc.freeze()
    if settings.default.derandomize:
        providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` chooses: what tests benchmarks or research, or asks for a browser or for a
    service in processes of its own, is slow."""
    for item in items:
        of_others = any(item.path.is_relative_to(folder) for folder in SLOW)
        if of_others or {"browser", "started"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not may_be_slow(item.path):
            raise pytest.UsageError(f"{item.nodeid} is slow: its file must have one of SLOW_WORDS")


class FewerImports:
    """Files of which nothing would be chosen are not imported. A conftest is asked of what lies
    beside it alone: this is asked of the packages, too."""

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Those of which `-m slow` or `-m "not slow"` would choose none."""
        chosen, path = config.option.markexpr, collection_path
        if chosen == "slow" and path.suffix == ".py":
            return None if may_be_slow(path) else True
        return True if chosen == "not slow" and path in SLOW else None

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Iterator[None]:
        """Those without a prompt have no examples: most have none."""
        found = yield
        if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
            found = [node for node in found if not isinstance(node, DoctestModule)]
        return found


class LongestFirst:
    """Tests that may take longer than others, for they have a time-out of their own, begin first:
    none is left to one worker in the end. `worksteal` gives each worker a run of the list."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Behind `-m`: of what is left, the longest to the heads of the workers' runs."""
        timeouts = {item: item.get_closest_marker("timeout") for item in items}
        long = [item for item in items if timeouts[item] is not None]
        long.sort(key=lambda item: -max(timeouts[item].args))  # type: ignore[union-attr]
        others = iter([item for item in items if timeouts[item] is None])
        left, workers = len(items), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        items.clear()
        for worker in range(workers):
            share, first = left // (workers - worker), long[worker::workers]
            left -= share
            items += [*first, *islice(others, max(0, share - len(first)))]
        items += others


# They look at files, or at what others look at closer (coverage's contexts, one a file, say so: of
# 69,416 branches they alone cover some 150), and tracing takes a quarter of a test's time, or more.
UNTRACED = [TESTS / name for name in (TESTS / "untraced.txt").read_text().split()]


# By these a process that is started learns that it is to be traced.
COVERAGE = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


@contextmanager
def untraced() -> Iterator[None]:
    """Coverage does not look at what this thread and the processes that it starts run: it would
    take twice its time."""
    tracer = sys.gettrace()
    if not type(tracer).__module__.startswith("coverage"):
        yield
        return
    inherited = {name: os.environ.pop(name) for name in COVERAGE if name in os.environ}
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
        os.environ.update(inherited)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Nor are drawn examples traced: a line that only luck runs is not covered."""
    drawn = item.get_closest_marker("hypothesis") is not None
    with untraced() if drawn or any(map(item.path.is_relative_to, UNTRACED)) else nullcontext():
        yield


# A test sees every request that the page makes, and none of the browser's own.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium, once for a module."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    if binary is None:
        pytest.skip("no browser on PATH; install chromium")
    from playwright.sync_api import expect, sync_playwright

    # On a busy machine an answer may take longer than the five seconds that are usual.
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


class SkipsFail:
    """Turns every skip of a session into its failure: CI has all that the tests may need."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped and what to install for it: no skip is silent."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(reason(report) for report in reports)
    for why, tests in reasons.most_common():
        terminalreporter.write_line(f"skipped {tests}: {why}", yellow=True)
    for note in notes(terminalreporter):
        terminalreporter.write_line(note, yellow=True)
    if reasons and os.environ.get("CI") == "true":
        terminalreporter.write_line("a skip fails the run, because CI=true", red=True)


def notes(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """What tests record as `note`: what they could not look at here."""
    reports = terminalreporter.stats.get("passed", [])
    return [
        str(text) for report in reports for name, text in report.user_properties if name == "note"
    ]


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test, or a whole file, was skipped."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return words.removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    # A worker that ends saves what it has covered, which takes longer on a busy machine than the
    # ten seconds after which it would be killed.
    NodeManager.EXIT_TIMEOUT = 300
    config.pluginmanager.register(FewerImports())
    config.pluginmanager.register(LongestFirst())
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(SkipsFail())
