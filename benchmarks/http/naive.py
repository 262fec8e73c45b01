"""The service as one would write it in an afternoon: FastAPI, pydantic, a Redis hash increment per
event, one numpy.interp or scikit-learn prediction per score, one hash per campaign-hour.

It is what sirocco is measured against; it is served with the same options of the same server.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
import redis
import redis.asyncio
from fastapi import FastAPI
from pydantic import BaseModel, Field

from benchmarks.peers.baselines import fitted, models_of
from calibrators import Bins, CalibrationMap

FIXED = 1_000_000_000
CELLS = 1000
HOUR_SECONDS = 3600

Score = Annotated[float, Field(ge=0, le=1)]


class Impression(BaseModel):
    """An ad was shown."""

    type: Literal["impression"]
    campaign: str
    occurred_at: float
    scores: dict[str, Score]
    id: str | None = None


class Click(BaseModel):
    """An ad was clicked."""

    type: Literal["click"]
    click_id: str
    campaign: str
    occurred_at: float
    impression_at: float
    scores: dict[str, Score]


class Stored(BaseModel):
    """What was stored."""

    accepted: int


class Columns(BaseModel):
    """What to calibrate."""

    target: str
    campaigns: list[str]
    scores: list[Score]


class Calibrated(BaseModel):
    """The answer."""

    probabilities: list[float]


Event = Annotated[Impression | Click, Field(discriminator="type")]
LookUp = Callable[[str, float], float]


def calibrate_app(look_up: LookUp) -> FastAPI:
    """Answers /v1/calibrate by one look-up per score."""
    app = FastAPI()

    @app.post("/v1/calibrate")
    async def calibrate(request: Columns) -> Calibrated:
        pairs = zip(request.campaigns, request.scores, strict=True)
        return Calibrated(probabilities=[look_up(*pair) for pair in pairs])

    return app


def by_interpolation(maps: Mapping[str, CalibrationMap]) -> LookUp:
    """numpy.interp in the campaign's map."""
    knots = {name: (found.knots, found.values) for name, found in maps.items()}
    return lambda campaign, score: float(np.interp(score, *knots[campaign]))


def by_prediction(maps: Mapping[str, CalibrationMap]) -> LookUp:
    """scikit-learn's prediction by the campaign's model."""
    models = models_of(maps)
    return lambda campaign, score: float(models[campaign].predict([score])[0])


def events_app(redis_url: str) -> FastAPI:
    """Stores events of /v1/events, a request in one pipeline."""
    app = FastAPI()
    client = redis.asyncio.Redis.from_url(redis_url)

    @app.post("/v1/events")
    async def post_events(events: list[Event]) -> Stored:
        await increment(client, events)
        return Stored(accepted=len(events))

    return app


async def increment(client: redis.asyncio.Redis, events: Sequence[Impression | Click]) -> None:
    """Two HINCRBY for an impression, one for a click, all in one pipeline."""
    pipeline = client.pipeline(transaction=False)
    for event in events:
        cell, score = _cell_of(event.scores["click"])
        if isinstance(event, Click):
            pipeline.hincrby(hour_key(event.campaign, event.impression_at), f"{cell}:positives", 1)
        else:
            key = hour_key(event.campaign, event.occurred_at)
            pipeline.hincrby(key, f"{cell}:count", 1)
            pipeline.hincrby(key, f"{cell}:scores", score)
    await pipeline.execute()


def hour_key(campaign: str, seconds: float) -> str:
    """The hash of a campaign-hour."""
    return f"naive:{campaign}:{int(seconds // HOUR_SECONDS)}"


def _cell_of(score: float) -> tuple[int, int]:
    return int(score * CELLS), round(score * FIXED)


def write_hash(client: redis.Redis, key: str, bins: Bins) -> None:
    """The bins of one campaign-hour as the increments leave them."""
    columns = {"count": bins.counts, "scores": bins.score_sums, "positives": bins.positives}
    cells = bins.cells.tolist()
    held = [
        word
        for name, column in columns.items()
        for cell, value in zip(cells, column.tolist(), strict=True)
        if value
        for word in (f"{cell}:{name}", value)
    ]
    if held:
        client.hset(key, items=held)


def refit(client: redis.Redis, campaigns: Sequence[str], hours: Sequence[int]) -> int:
    """Reads, fits and publishes campaign by campaign; returns how many had anything to fit."""
    return sum(_refit_campaign(client, campaign, hours) for campaign in campaigns)


def _refit_campaign(client: redis.Redis, campaign: str, hours: Sequence[int]) -> bool:
    counts, scores, positives = _window(client, campaign, hours)
    if not counts.any():
        return False
    seen = counts > 0
    weights = counts[seen]
    model = fitted(scores[seen] / weights / FIXED, positives[seen] / weights, weights)
    knots = {"x": model.X_thresholds_.tolist(), "y": model.y_thresholds_.tolist()}
    client.hset("naive:maps", campaign, json.dumps(knots))
    return True


def _window(client: redis.Redis, campaign: str, hours: Sequence[int]) -> np.ndarray:
    pipeline = client.pipeline(transaction=False)
    for hour in hours:
        pipeline.hgetall(hour_key(campaign, hour * HOUR_SECONDS))
    sums: dict[str, dict[bytes, int]] = {"count": {}, "scores": {}, "positives": {}}
    for held in pipeline.execute():
        for field, value in held.items():
            cell, _, name = field.partition(b":")
            column = sums[name.decode()]
            column[cell] = column.get(cell, 0) + int(value)
    cells = sorted(sums["count"], key=int)
    return np.array([[column.get(cell, 0) for cell in cells] for column in sums.values()], float)
