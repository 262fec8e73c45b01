"""What `calibrate` gives, and the exchange of requests and responses behind it, apart from how they
travel: a generator that yields each request and is sent its response, so that threads and asyncio
share it.
"""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sirocco_client.arms import CHAMPION, RAW
from sirocco_client.errors import BadAnswer, BadInput, Refused, Unavailable
from sirocco_client.requests import (
    COLUMNS,
    JSON,
    CalibrateInput,
    Floats,
    HttpRequest,
    HttpResponse,
    Words,
    pack_input,
    unpack_response,
)

NO_VERSION: Final = "none"
AGE_HEADER: Final = "sirocco-map-age"
VERSION_HEADER: Final = "sirocco-version"


Effects = tuple[Mapping[str, float], ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """Probabilities of n scores, in their order; numpy takes it for the array of them.

    `levels` says of each which map served it: `campaign`, `group`, `target`, `identity`, or `raw`
    when the service was away and these are the scores themselves; None without `explain`.
    `map_age` is seconds since `version` was published; None before the first version. `arms` says
    of each the arm of its unit (`champion`, `challenger`, `raw`); None without units, and when the
    service was away. `label` is the maps that everybody gets who is in no other arm. `effects` are
    what fields did to each, in log-odds by term; None without `explain`, and where none are known.
    `lower` and `upper` are there with an `interval`, `quantiles` with a `quantile`; None when the
    service was away. Of a product of targets levels, arms and effects are by factor, and with
    `values` `expected_values` are probability x value.
    """

    probabilities: Floats
    version: str
    map_age: float | None = None
    levels: tuple[str, ...] | None = None
    arms: tuple[str, ...] | None = None
    label: str = CHAMPION
    effects: Effects = None
    lower: Floats | None = None
    upper: Floats | None = None
    quantiles: Floats | None = None
    expected_values: Floats | None = None

    @classmethod
    def raw(cls, scores: Floats, values: Floats | None = None) -> Self:
        """The scores as they are, marked as such."""
        worth = None if values is None else scores * values
        return cls(scores.copy(), NO_VERSION, None, (RAW,) * len(scores), expected_values=worth)

    @classmethod
    def joined(cls, parts: Sequence["Calibrated"], factors: Iterable[str] = ()) -> "Calibrated":
        """The parts, all of one version, as one; of a product by these factors."""
        first = parts[0]
        if len(parts) == 1:
            return first
        probabilities = np.concatenate([part.probabilities for part in parts])
        levels = tuple(level for part in parts for level in part.levels or ())
        arms = tuple(arm for part in parts for arm in part.arms or ())
        none: Any = {name: {} for name in factors}
        effects = tuple(one for part in parts for one in part.effects or (none,) * len(part))
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("lower", "upper", "quantiles", "expected_values")
            if getattr(first, name) is not None
        }
        known = effects if any(part.effects for part in parts) else None
        words = (levels or None, arms or None, first.label, known)
        return cls(probabilities, first.version, first.map_age, *words, **columns)

    @property
    def is_raw(self) -> bool:
        """Whether the service was away, and these are the scores themselves."""
        return self.version == NO_VERSION and (self.levels or ())[:1] == (RAW,)

    def __len__(self) -> int:
        return len(self.probabilities)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.probabilities, dtype=dtype, copy=copy)


def read_response(response: HttpResponse, given: CalibrateInput, explain: bool) -> Calibrated:
    """The answer to these scores; raises Refused or BadAnswer."""
    scores = len(given)
    if response.status != 200:
        raise refusal(response)
    effects = expected = None
    if response.media_type == COLUMNS:
        found = unpack_response(response.body, scores, len(given.wanted.levels))
        probabilities, levels, arms, quantiles = found
        version = response.headers.get(VERSION_HEADER, NO_VERSION)
    else:
        said = _of_json(response, given)
        probabilities, levels, arms, version, effects, quantiles, expected = said
    for column in (probabilities, *quantiles):
        if column.shape != (scores,):
            raise BadAnswer(f"{column.shape} probabilities for {scores} scores")
        if not (column.min() >= 0.0 and column.max() <= 1.0):
            raise BadAnswer("a probability is outside [0, 1]")
    if explain and (levels is None or len(levels) != scores):
        raise BadAnswer("the levels are not in the answer")
    if given.units is not None and (arms is None or len(arms) != scores):
        raise BadAnswer("the arms are not in the answer")
    columns: dict[str, Any] = dict(zip(given.wanted.levels, quantiles, strict=True))
    columns |= {"effects": effects, "expected_values": expected}
    return Calibrated(probabilities, version, map_age(response), levels, arms, **columns)


def refusal(response: HttpResponse) -> Refused:
    """The answer's problem as an error; a problem that cannot be read tells its status only."""
    try:
        members = json.loads(response.body)
    except (ValueError, RecursionError):
        members = None
    return Refused(response.status, members if isinstance(members, dict) else {})


def summary_of(response: HttpResponse) -> str:
    """What a service answered that does not do what it was asked, for a log."""
    error = refusal(response)
    said = f": {error.detail}" if "detail" in error.members else ""
    return f"the service answered {response.status}{said}"


def map_age(response: HttpResponse) -> float | None:
    """Seconds since the version was published, if the answer says."""
    try:
        return float(response.headers.get(AGE_HEADER, ""))
    except ValueError:
        return None


def _of_json(
    response: HttpResponse, given: CalibrateInput
) -> tuple[Floats, Words, Words, str, Effects, list[Floats], Floats | None]:
    try:
        content = json.loads(response.body)
        probabilities = np.array(content["probabilities"], np.float64)
        words = (content.get(name) for name in ("levels", "arms", "effects"))
        levels, arms, effects = (None if found is None else tuple(found) for found in words)
        quantiles = [np.array(content[name], np.float64) for name in given.wanted.levels]
        expected = None
        if given.values is not None:
            expected = np.array(content["expected_values"], np.float64)
        version = str(content["version"])
        return probabilities, levels, arms, version, effects, quantiles, expected
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadAnswer(f"{response.body[:40]!r} is no answer to a calibrate request") from None


Exchange = Generator[HttpRequest, HttpResponse, Calibrated]
"""Yields each request and is sent its response."""

# Measured: from here on, columns cost both sides together less than JSON.
FEWEST_FOR_COLUMNS: Final = 32
_PATH: Final = "/v1/calibrate"
_MOST_ROUNDS: Final = 3
_UNSUPPORTED: Final = 415


class CalibrateExchange:
    """Packs scores as JSON or as columns, and reads the responses."""

    def __init__(self, binary: bool | None, max_scores: int) -> None:
        if max_scores < 1:
            raise BadInput("max_scores", "must be at least 1", max_scores)
        self._binary = binary
        self._max_scores = max_scores
        self._columns_refused = False

    def of(self, given: CalibrateInput, explain: bool) -> Exchange:
        """All probabilities, of one version; raises Refused or Unavailable."""
        for _ in range(_MOST_ROUNDS):
            parts_done = []
            for part in given.parts(self._max_scores):
                done = yield from self._of_part(part, explain)
                parts_done.append(done)
            if len({done.version for done in parts_done}) == 1:
                return Calibrated.joined(parts_done, given.factors or ())
        raise Unavailable("every time another version came between the parts", _MOST_ROUNDS)

    def _of_part(self, part: CalibrateInput, explain: bool) -> Exchange:
        if self._takes_columns(part, explain):
            response = yield _request(COLUMNS, pack_input(part, explain), explain=False)
            if response.status != _UNSUPPORTED:
                return read_response(response, part, explain)
            if self._binary:
                raise refusal(response)
            # An older service: it gets JSON from now on.
            self._columns_refused = True
        response = yield _request(JSON, part.as_json(), explain)
        return read_response(response, part, explain)

    def _takes_columns(self, part: CalibrateInput, explain: bool) -> bool:
        if part.factors is not None:
            return False
        if self._binary is not None:
            return self._binary
        if explain and part.fields is not None:
            # Columns have no room for effects.
            return False
        return len(part) >= FEWEST_FOR_COLUMNS and not self._columns_refused


def _request(media_type: str, body: bytes, explain: bool) -> HttpRequest:
    path = f"{_PATH}?explain=true" if explain else _PATH
    return HttpRequest("POST", path, body, {"Content-Type": media_type})
