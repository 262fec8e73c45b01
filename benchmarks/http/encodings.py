"""One question in several encodings, from the bytes of the request to those of the answer, in
microseconds of CPU per request, without HTTP: what decision 12 rests on.

Maps of 10,000 campaigns, a batch mixes all of them. Every way decodes and checks the body, finds
the rows of the campaigns, looks the scores up and encodes the answer. `ids` are interned campaigns
and float32 scores, the others names and doubles. JSON and binary columns are the service's own
code, MessagePack has the same types as JSON, Arrow is a stream of one record batch. `look-up` is
what all of them share.

    python -m benchmarks encodings [--json]
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from app.api.scoring.calibrate import read_scores_of
from app.api.scoring.requests import DECODER, RULES, CalibrateRequest
from app.columns.campaigns import CampaignIds
from app.columns.layout import INTERNED
from app.columns.scores import pack_probabilities, read_scores
from app.settings import load_settings
from app.strict_json import decode
from benchmarks.core.traffic import campaign_names, random_maps, random_scores
from benchmarks.figures import Table
from benchmarks.http.bodies import FORMS, TARGET, Ids, ScoresRequest
from benchmarks.parts import Part
from benchmarks.timing import BUDGET_SECONDS, interleaved
from calibrators import FEW, Atlas
from calibrators.samples import Floats, Integers

SEED = 12
_SETTINGS = load_settings()
_MESSAGE_PACK = msgspec.msgpack.Decoder(CalibrateRequest)


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    batches: tuple[int, ...] = (1, 100, 1_000)
    budget_seconds: float = BUDGET_SECONDS


@dataclass(frozen=True)
class Served:
    """The maps, and the ids of their campaigns."""

    atlas: Atlas
    ids: CampaignIds

    def look_up(self, rows: Integers, scores: Floats | NDArray[np.float32]) -> Floats | list[float]:
        """As the service does: a few in plain Python, many in one pass."""
        if len(rows) <= FEW:
            return self.atlas.look_up_few(rows.tolist(), scores.tolist())
        return self.atlas.look_up(rows, scores)

    def json(self, body: bytes) -> bytes:
        """Columns of JSON."""
        (question,) = read_scores_of(decode(body, DECODER, RULES), _SETTINGS)
        rows = self.atlas.rows(question.campaigns)
        found = self.look_up(rows, np.array(question.scores))
        return orjson.dumps({"probabilities": found}, option=orjson.OPT_SERIALIZE_NUMPY)

    def message_pack(self, body: bytes) -> bytes:
        """The same in MessagePack, which has no arrays of numbers."""
        request = _MESSAGE_PACK.decode(body)
        assert isinstance(request.campaigns, list)
        rows = self.atlas.rows(request.campaigns)
        found = self.look_up(rows, np.array(request.scores))
        return msgspec.msgpack.encode({"probabilities": np.asarray(found).tolist()})

    def arrow(self, body: bytes) -> bytes:
        """Ids and scores of one record batch."""
        with pa.ipc.open_stream(body) as reader:
            batch = reader.read_next_batch()
        numbers, scores = (column.to_numpy() for column in batch.columns)
        if not (scores.min() >= 0.0 and scores.max() <= 1.0):
            raise ValueError("scores must be in [0, 1]")
        found = self.look_up(self.ids.rows(self.ids.dictionary, numbers), scores)
        return _arrow_bytes(probabilities=np.asarray(found, np.float32))

    def columns(self, body: bytes) -> bytes:
        """Binary columns, with names or ids."""
        request = read_scores(body, _SETTINGS.max_scores)
        interned = request.header.flags & INTERNED
        rows = (
            self.ids.rows(request.header.dictionary, request.numbers)
            if interned
            else self.atlas.rows(request.names)[request.numbers]
        )
        found = self.look_up(rows, request.scores)
        return pack_probabilities(found, self.ids.dictionary, float32=bool(interned))


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each size of batch."""
    sizes = sizes or Sizes()
    atlas = Atlas.build(random_maps(sizes.campaigns, SEED))
    served = Served(atlas, CampaignIds.of(atlas))
    rng = np.random.default_rng(SEED)
    rows: Table = {}
    for size in sizes.batches:
        seconds = interleaved(_ways(served, _question(served, size, rng)), sizes.budget_seconds)
        rows[f"batch of {size:,}"] = {way: taken.times(1e6) for way, taken in seconds.items()}
    return rows


def _question(served: Served, size: int, rng: np.random.Generator) -> ScoresRequest:
    names = campaign_names(len(served.atlas))
    campaigns = [names[place] for place in rng.integers(0, len(names), size).tolist()]
    numbers = {name: place for place, name in enumerate(served.ids.campaigns, start=1)}
    scores = np.array(random_scores(size, rng))
    return ScoresRequest(campaigns, scores, Ids(served.ids.dictionary, numbers))


def _ways(served: Served, question: ScoresRequest) -> dict[str, Callable[[], object]]:
    json = FORMS["columns"].body(question)
    message_pack = msgspec.msgpack.encode(orjson.loads(json))
    numbers = np.array([question.ids.numbers[name] for name in question.campaigns], np.uint32)
    arrow = _arrow_bytes(ids=numbers, scores=question.scores.astype(np.float32))
    names, ids = (FORMS[f"binary, {kind}"].body(question) for kind in ("names", "ids"))
    rows = served.atlas.rows(question.campaigns)
    return {
        "JSON": lambda: served.json(json),
        "MessagePack": lambda: served.message_pack(message_pack),
        "binary, names": lambda: served.columns(names),
        "Arrow, ids": lambda: served.arrow(arrow),
        "binary, ids": lambda: served.columns(ids),
        "look-up": lambda: served.look_up(rows, question.scores),
    }


def _arrow_bytes(**columns: NDArray[np.float32] | NDArray[np.uint32]) -> bytes:
    batch = pa.record_batch(columns, metadata={"target": TARGET})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


PART = Part("encodings", "Encodings of one question, us of CPU per request", __doc__, measure)
