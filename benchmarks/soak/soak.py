"""A soak: mixed load at half the saturating rate, with a refit every minute.

`sirocco serve` has a core to itself; the load, Redis and `sirocco worker` at a low priority share
the other. Calibrations are of 1, 10 and 100 scores over all campaigns, in JSON and, of 100, in
binary columns; events come a hundred at a time, with ids, 2 % of them clicks. The saturating rate
is that of the same mix with every connection always busy, which takes all of the server's core
(`server cores, saturated`; what is refused then is in `errors, saturated` alone). Then requests are
sent at random moments (open loop), at half that rate. Runs before 2026-11-23 had a server that
polled for requests instead of sleeping.

Latency is what the service takes: from when a request was sent until the kernel had its answer. A
request that finds every connection waiting for an answer counts from when it was due, so that no
stall hides those that wait behind it. Where the system permits it (root, `SCHED_FIFO`), all else
on the other core waits for the load, then for Redis; nothing gives the server more than its core.
How late the load still was to send or to read is reported apart.

`raw ASGI echo` says what machine, network and uvicorn alone come to: a server on the same core that
sends the same calibrations back as they came. All the time the load turns from one to the other
every two seconds, at the same rate, so that what the machine and the refits do to one it does to
both; each gets half of the minutes. A server that is stopped for a while has to work off what came
meanwhile with what its load leaves of the core: with 80 % in use that takes five times as long as
the stop, with 20 % a quarter more (`server cores`, `echo cores`). `work` is a fixed piece of
Python on the server's core with nothing else to do, and its CPU time: its jitter is the processor's
own. `scheduling stall` is how long a request would wait that comes to the same core when nothing
runs there but a loop that looks for it, before all else: what the host of a virtual machine takes
for others, in those seconds. Meanwhile no server has a shorter tail. `stolen by the host` is what
the system says that it took of the server's core during the run, and `p99.9 but in seconds stolen`
is of all other seconds: what is left is the service's own.

`store stood still` is what Redis says of its own stops of more than 50 ms: in how many seconds, how
long at most, and how many of these were the disk's (of the append-only file).

Every minute a refit of 24 hours brings a version with other maps, and every 10 seconds the metrics
are scraped. `p99 in refits` is of requests between the call for a refit and a second after its
end, `p99 otherwise` of all others; for the echo, too, which has no part in them. Every answer must
be 200, and its probabilities, to the last bit, those of the maps of exactly the version that it
names.

    python -m benchmarks soak [--minutes 30] [--json] [--write]
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from benchmarks.figures import Table
from benchmarks.http.servers import Server, started
from benchmarks.machine import first_in_line, on_core
from benchmarks.parts import Part, say
from benchmarks.soak.answers import wrong_answers
from benchmarks.soak.figures import Run, echo_row, rows_of, stall_row, stops_row, work_row
from benchmarks.soak.jitter import stall_seconds, work_seconds
from benchmarks.soak.mixed_load import calibrations, events, of_all
from benchmarks.soak.open_loop import Kind, Load
from benchmarks.soak.service import API_CORE, OTHER_CORE, TARGET, Service, running_service, sampled

SEED = 17
SHORT_MINUTES, LONG_MINUTES = 2.0, 30.0


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    minutes: float = SHORT_MINUTES
    campaigns: int = 10_000
    hours: int = 24
    messages: int = 200
    connections: int = 64
    ramp_seconds: float = 20.0
    refit_seconds: float = 60.0
    turn_seconds: float = 2.0
    """Of service and echo, one after the other."""
    aside_seconds: float = 30.0
    """For the fixed piece of work, and for the stalls."""


def measure(sizes: Sizes | None = None) -> Table:
    """A row of the whole, one for each kind of request and one for each minute, the echo's, and the
    machine's."""
    sizes = sizes or Sizes()
    versions = int(sizes.minutes * 60 / sizes.refit_seconds) + 8
    with running_service(sizes.campaigns, sizes.hours, versions) as service, on_core(OTHER_CORE):
        service.store.watch_stops()
        asked = calibrations(sizes.campaigns, sizes.messages)
        aside = _machine(sizes)
        echoed = [calibration.kind for calibration in asked]
        kinds = [*echoed, events(sizes.campaigns, sizes.messages)]
        with (
            _echo_server(service.store.url) as echoing,
            _load(echoing.port, of_all(echoed), sizes) as echo,
            _load(service.port, kinds, sizes) as load,
        ):
            run = _soak(service, load, echoing, echo, sizes)
        wrong, named = wrong_answers(asked, load.answers, service.store, TARGET)
    say(f"soak: {len(load.answers):,} different answers checked, {wrong} wrong")
    run = replace(run, wrong=wrong, versions=named)
    beside = {"raw ASGI echo": echo_row(run, echo), "store stood still": stops_row(run.stops)}
    return rows_of(run, load, kinds, echo) | beside | aside


@contextmanager
def _echo_server(store_url: str) -> Iterator[Server]:
    """Of an echo on the service's core."""
    with ExitStack() as opened:
        with on_core(API_CORE):
            server = opened.enter_context(started("echo", store_url))
        yield server


@contextmanager
def _load(port: int, kinds: Sequence[Kind], sizes: Sizes) -> Iterator[Load]:
    load = Load(port, kinds, sizes.connections, SEED)
    try:
        yield load
    finally:
        load.close()


def _machine(sizes: Sizes) -> Table:
    with on_core(API_CORE), first_in_line(os.getpid()):
        return {
            "work": work_row(work_seconds(sizes.aside_seconds)),
            "scheduling stall": stall_row(stall_seconds(sizes.aside_seconds)),
        }


def _soak(service: Service, load: Load, echoing: Server, echo: Load, sizes: Sizes) -> Run:
    store = service.store.process_id
    saturating, most_busy = _saturation(service, load, sizes, store)
    say(
        f"soak: {saturating:,.0f} requests/s saturate it, {most_busy:.2f} of its core; "
        f"{sizes.minutes:g} minutes at half of that, it and an echo in turns"
    )
    in_line = (os.getpid(), store)
    with sampled(service, sizes.refit_seconds) as notes, first_in_line(*in_line) as is_first:
        if not is_first:
            say("soak: the load may not be run before others: see how late it is")
        busy = _in_turns(((service, load), (echoing, echo)), saturating / 2, sizes)
    stops = service.store.stops()
    run = Run(sizes.minutes, saturating, busy[0], busy[1], notes, most_busy, stops=stops)
    for stop in stops:
        say(f"soak: store: {stop}")
    for error in (*load.first_errors, *echo.first_errors, *run.refit_errors()):
        say(f"soak: {error}")
    return run


def _in_turns(
    turns: Sequence[tuple[Service | Server, Load]], rate: float, sizes: Sizes
) -> list[float]:
    """The same rate to each, in turns; the cores that each used during its own."""
    used = [0.0] * len(turns)
    number = max(1, round(sizes.minutes * 60 / (len(turns) * sizes.turn_seconds)))
    for _ in range(number):
        for place, (server, load) in enumerate(turns):
            before = server.cpu_seconds
            load.run(rate, sizes.turn_seconds)
            used[place] += server.cpu_seconds - before
    return [seconds / (number * sizes.turn_seconds) for seconds in used]


def _saturation(server: Service, load: Load, sizes: Sizes, *behind: int) -> tuple[float, float]:
    """Requests per second that the server can answer, and the cores that it uses for them."""
    with first_in_line(os.getpid(), *behind):
        load.saturate(sizes.ramp_seconds / 4)
        before = server.cpu_seconds
        saturating = load.saturate(sizes.ramp_seconds)
        return saturating, (server.cpu_seconds - before) / sizes.ramp_seconds


PART = Part(
    "soak",
    "Soak: mixed load and a refit every minute",
    __doc__,
    measure,
    lambda: measure(Sizes(LONG_MINUTES)),
    measure_minutes=lambda minutes: measure(Sizes(minutes)),
)
