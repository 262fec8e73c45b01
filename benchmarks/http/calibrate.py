"""`POST /v1/calibrate`, in microseconds of the server's CPU and of wall time for each request.

Maps of 10,000 campaigns, with the same knots as those of `pooled`, mixed in each batch; 16
connections from another process on another core, except where a row says one. `sirocco` is the
whole service: it validates every value, counts metrics and watches Redis for new versions.
`columns` and `rows` are JSON; `binary, ids` has interned ids and single precision, `binary, names`
has names and doubles; `one campaign` asks for scores of one campaign only, as JSON. The echo is a
raw ASGI application that sends the same bytes back, with our protocol and our options of uvicorn:
what is above it is ours to answer for. Calibrations are answered without the ASGI task that it
needs, so they may come close to it. `on uvicorn alone` is the same with uvicorn's own protocol,
which costs more and bounds less.
The naive ones are FastAPI with pydantic and one look-up per score, by numpy.interp or by
scikit-learn.

`key and id` is the same as `columns`, of a service that asks for API keys, with an `X-Request-Id`;
`interval` and `quantile` ask for those; `3 fields` has values of three fields with each score, and
the maps have effects of them. Their ratios are over `columns`.

The peers serve one isotonic map by scikit-learn, each in an environment of its own, installed as
its documentation says, in several settings; the ratios take the best of each. MLServer is shown
with httptools too, which it does not ask for. They are asked the question of `one campaign`. Their
CPU time is that of all their processes, which are stopped while others have their turn.

All answers are checked against each other: to 1e-9, single precision to 1e-6.

    python -m benchmarks calibrate [--json] [--write]
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import httpx
import numpy as np
import orjson

from benchmarks.core.traffic import random_maps, random_scores
from benchmarks.figures import Cell, Table
from benchmarks.http.bodies import (
    FIELD_VALUES,
    FORMS,
    PATH,
    TARGET,
    Form,
    Ids,
    ScoresRequest,
    columns_of,
    of_json,
)
from benchmarks.http.calibrate_ratios import (
    ECHO,
    ECHOES,
    FIELDS,
    INTERVAL,
    KEY_AND_ID,
    NAIVE,
    QUANTILE,
    column_of,
    ratios,
)
from benchmarks.http.load import CONNECTIONS, Rounds, Way, get, post, take_turns
from benchmarks.http.servers import HOST, MAPS_SEED, Server, started
from benchmarks.machine import on_core
from benchmarks.parts import Part, say
from benchmarks.peers.baselines import interpolated
from benchmarks.peers.environments import NotInstalled
from benchmarks.peers.servers import PEERS, NotStarted, serving
from benchmarks.store import private_store
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.sums import OTHER
from calibrators.maps.calibration_map import PLACES, Spreads

SEED = 17
BODIES = 16
ALONE = ("columns", "rows", "binary, ids")
"""What is asked over one connection too."""
ROUNDS = Rounds(seconds=0.05, most_requests=4_000, patience_seconds=120.0)
EXACT, SINGLE = 1e-9, 1e-6
ADMIN_KEY = "benchmark-" + "k" * 32

Maps = Mapping[str, CalibrationMap]
Ways = dict[str, Way]


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    batches: tuple[int, ...] = (1, 10, 100, 1_000)
    rounds: int = 11
    per_round: Rounds = ROUNDS
    peers: tuple[str, ...] = tuple(PEERS)
    peer_rounds: int = 5


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each server and form, columns of CPU and wall time for each size of batch."""
    sizes = sizes or Sizes()
    maps = random_maps(sizes.campaigns, MAPS_SEED)
    rng = np.random.default_rng(SEED)
    with ExitStack() as opened:
        ways = _ours(opened, maps, sizes.rounds)
        peers, failed = _peers(opened, maps, sizes)
        ways |= peers
        with on_core(1):
            taken = [_measured(ways, maps, size, sizes.per_round, rng) for size in sizes.batches]
    return {
        **{
            name: {column: cell for found in taken for column, cell in found[name].items()}
            for name in sorted(ways, key=_group)
        },
        **{name: {column_of(sizes.batches[0]): why} for name, why in failed.items()},
    }


def _group(name: str) -> int:
    """Ours and the echo take turns side by side, but are shown one below the other."""
    return 0 if name.startswith("sirocco") else 1 if name.startswith(ECHO) else 2


def _ours(opened: ExitStack, maps: Maps, rounds: int) -> Ways:
    """Sirocco, the echoes, and the naive services."""
    atlas = Atlas.build(maps, next(iter(maps.values())))
    spreads = Spreads.of(-8.0, -0.5, np.full((1 + len(maps), PLACES), 0.1))
    store = opened.enter_context(private_store())
    store.publish(atlas.with_spreads(spreads))
    ours = opened.enter_context(started("sirocco", store.url))
    echoes = {name: opened.enter_context(started(kind, store.url)) for name, kind in ECHOES.items()}
    ways = dict(_forms({"sirocco": ours, **echoes}, rounds))
    ways |= _with_options(opened, atlas, ours, rounds)
    for name, kind in NAIVE.items():
        server = opened.enter_context(started(kind, campaigns=len(maps)))
        form = FORMS["columns"]
        ways[name] = Way(server, _message(form), form.probabilities, rounds)
    return ways


def _with_options(opened: ExitStack, atlas: Atlas, plain: Server, rounds: int) -> Ways:
    """Sirocco, asked in columns for more, or by callers that it must know."""
    effects = opened.enter_context(_serving(atlas.with_effects(_effects())))
    keyed = opened.enter_context(_serving(atlas, {"SIROCCO_BOOTSTRAP_ADMIN_KEY": ADMIN_KEY}))
    headers = {"Authorization": f"Bearer {_key(keyed)}", "X-Request-Id": f"{SEED:032x}"}
    asked: dict[str, tuple[Server, Callable[[ScoresRequest], bytes]]] = {
        KEY_AND_ID: (keyed, lambda question: _asking(question, headers)),
        INTERVAL: (plain, lambda question: _asking(question, interval=0.9)),
        QUANTILE: (plain, lambda question: _asking(question, quantile=0.2)),
        FIELDS: (effects, lambda question: _asking(question, fields=_values(question))),
    }
    return {
        f"sirocco, columns, {name}": Way(server, message, of_json, rounds)
        for name, (server, message) in asked.items()
    }


@contextmanager
def _serving(
    atlas: Atlas, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Server]:
    with private_store() as store:
        store.publish(atlas)
        with started("sirocco", store.url, environment=environment) as server:
            yield server


def _effects() -> FieldEffects:
    """Of all values of the fields; together they change nothing, so that answers can be checked."""
    sizes = dict(zip(FIELD_VALUES, (0.3, -0.1, -0.2), strict=True))
    values = {name: [f"{name}-{n}" for n in range(count)] for name, count in FIELD_VALUES.items()}
    each = {name: dict.fromkeys([OTHER, *values[name]], size) for name, size in sizes.items()}
    return FieldEffects({name: EffectTable.of(of_values, {}) for name, of_values in each.items()})


def _values(question: ScoresRequest) -> dict[str, list[str]]:
    rng, number = np.random.default_rng(SEED), len(question.scores)
    drawn = {name: rng.integers(0, count, number) for name, count in FIELD_VALUES.items()}
    return {name: [f"{name}-{n}" for n in numbers] for name, numbers in drawn.items()}


def _key(server: Server) -> str:
    """The token of a key that may calibrate."""
    answer = httpx.post(
        f"http://{HOST}:{server.port}/v1/admin/keys",
        json={"scopes": ["calibrate"], "name": "benchmark"},
        headers={"Authorization": f"Bearer {ADMIN_KEY}"},
    )
    return str(answer.raise_for_status().json()["token"])


def _asking(
    question: ScoresRequest, headers: Mapping[str, str] = MappingProxyType({}), **more: object
) -> bytes:
    return post(PATH, orjson.dumps(columns_of(question) | more), headers=headers)


def _forms(servers: Mapping[str, Server], rounds: int) -> Iterator[tuple[str, Way]]:
    for name, form in FORMS.items():
        for connections, words in ((CONNECTIONS, ""), (1, ", one connection")):
            if connections > 1 or name in ALONE:
                for server_name, server in servers.items():
                    read = None if server_name in ECHOES else form.probabilities
                    one = name == "one campaign"
                    way = Way(server, _message(form), read, rounds, connections, form.exact, one)
                    yield f"{server_name}, {name}{words}", way


def _message(form: Form) -> Callable[[ScoresRequest], bytes]:
    return lambda question: post(PATH, form.body(question), form.content_type)


def _peers(opened: ExitStack, maps: Maps, sizes: Sizes) -> tuple[Ways, dict[str, str]]:
    """Those that run, and why the others do not."""
    ways: Ways = {}
    failed: dict[str, str] = {}
    for name in sizes.peers:
        say(f"starting {name}")
        peer = PEERS[name]
        try:
            server = opened.enter_context(serving(peer, next(iter(maps.values()))))
        except (NotInstalled, NotStarted) as error:
            failed[name] = str(error)
            continue
        way = Way(server, peer.message, peer.probabilities, sizes.peer_rounds, one_campaign=True)
        ways[name] = way
    return ways, failed


def _measured(
    ways: Ways, maps: Maps, size: int, per_round: Rounds, rng: np.random.Generator
) -> dict[str, dict[str, Cell]]:
    say(f"batches of {size:,}")
    ids = _ids(ways["sirocco, columns"])
    questions = [_question(maps, size, ids, rng) for _ in range(BODIES)]
    of_one = [ScoresRequest([next(iter(maps))] * size, found.scores, ids) for found in questions]
    messages = {}
    for name, way in ways.items():
        asked = of_one if way.one_campaign else questions
        messages[name] = [way.message(found) for found in asked]
        _check(name, way, messages[name][0], asked[0], maps)
    take_turns(ways, messages, per_round)
    return {name: way.cells(column_of(size)) for name, way in ways.items()}


def _ids(way: Way) -> Ids:
    return Ids.of(orjson.loads(way.ask(get(f"/v1/atlas/{TARGET}/ids"))))


def _question(maps: Maps, size: int, ids: Ids, rng: np.random.Generator) -> ScoresRequest:
    names = list(maps)
    chosen = [names[place] for place in rng.integers(0, len(names), size).tolist()]
    scores = [round(score, 6) for score in random_scores(size, rng)]
    return ScoresRequest(chosen, np.array(scores), ids)


def _check(name: str, way: Way, message: bytes, question: ScoresRequest, maps: Maps) -> None:
    """A faster way to something else would be no comparison."""
    answer = way.ask(message)
    if way.probabilities is None:
        if not message.endswith(answer):
            raise RuntimeError(f"{name} sends something else back")
        return
    scores = question.scores if way.exact else question.scores.astype("<f4").astype(float)
    expected = interpolated(maps, question.campaigns, scores)
    atol = EXACT if way.exact else SINGLE
    np.testing.assert_allclose(way.probabilities(answer), expected, rtol=0, atol=atol, err_msg=name)


PART = Part(
    "calibrate", "Calibration over HTTP, microseconds per request", __doc__, measure, ratios=ratios
)
