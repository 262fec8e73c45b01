"""A service with something to look at: hours of events, a version of each, a job, a heartbeat."""

import time
from typing import Any

import numpy as np

from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from tests.api.events import HOUR_SECONDS, outcome
from tests.api.running_service import RunningService

HOURS = 3
REFITTED: dict[str, Any] = {"clock": "event", "calibrator": "sir", "min_samples": 50}
REFITTED["min_positives"] = 5
"""Settings by which its few events give maps."""
BUSY = ("shoes", "hats", "books/paper", "toys<b>", "garden & home", "coffee")
FACTORS = (2.1, 1.05, 0.6, 1.4, 0.95, 1.0)


def _value(values: list[str], effect: float | None) -> dict[str, Any]:
    ends = None if effect is None else (effect - 0.08, effect + 0.08)
    lower, upper = ends or (None, None)
    known = {"effect": effect, "sd": 0.05, "lower": lower, "upper": upper}
    return {"values": values, **known, "expected": 812.4, "positives": 671.0, "pcoc": 1.21}


EXPERIMENTS: dict[str, Any] = {
    "experiments": {
        "click": {
            "challenger": {"method": "sir"},
            "salt": "s-1",
            "shares": {"challenger": 0.05, "raw": 0.01},
            "canary": True,
            "since": 1_767_225_600.0,
            "state": "running",
            "reason": None,
            "watch": {"evidence": 3.1, "bound": 9.2, "positives": 1_212.0, "predicted": 1_190.4},
            "shadow": {
                name: {
                    span: {"pcoc": pcoc, "gc_3": 0.12, "log_loss": loss, "n": 48_000.0}
                    for span in ("hour", "window")
                }
                for name, pcoc, loss in (("champion", 1.01, 0.2312), ("challenger", 1.03, 0.2318))
            },
        }
    }
}
"""As the route tells it."""


FIELDS: dict[str, Any] = {
    "version": "000012-9f3a2c1b",
    "fields": ["device", "placement"],
    "targets": {
        "click": {
            "hours": 3,
            "terms": {
                name: {
                    "effects": 4,
                    "seen": 5,
                    "share": 1.0,
                    "rce": rce,
                    "floor": rce and 0.02,
                    "top": top,
                }
                for name, rce, top in (
                    ("device", 0.031, [_value(["ios"], 0.31), _value([""], None)]),
                    ("device*placement", None, [_value(["ios", "<b>top"], -0.07)]),
                )
            },
            "mce": {"sigmas": 6.2, "relative": 0.21, "chance": 1e-7, "segments": 11}
            | {"expected": 812.0, "positives": 671.0, "fields": {"device": "ios"}},
        }
    },
}
"""As the route tells them."""


def furnish(service: RunningService, others: int = 0) -> list[str]:
    """Hours of outcomes, each followed by a refit, and so many campaigns more of which only the
    evidence is known; the versions."""
    rng = np.random.default_rng(11)
    first = (int(time.time()) // HOUR_SECONDS - HOURS) * HOUR_SECONDS
    store = service.store
    found = []
    for hour in range(HOURS):
        send_hour(service, first + hour * HOUR_SECONDS, rng)
        report = service.refit(float(first + (hour + 1) * HOUR_SECONDS))
        found.append(str(report["version"]))
    bins = BinsStore(store, service.settings.ttl_seconds)
    _add_evidence(bins, first // HOUR_SECONDS + HOURS, others)
    jobs = Jobs(store)
    jobs.submit("retrain", {"target": "click"}, time.time())
    jobs.finish(jobs.take(time.time()).id, time.time(), result={})
    state = {"holder": "test", "phase": "idle", "progress": {"click": 1.0}, "refits": HOURS}
    clicks = {"open": 1200, "closed": 48_000, "waiting": 3, "expired": 0}
    told = {"at": time.time() + 3600, "failures": 0, "clicks": clicks, "last_refit_seconds": 2.0}
    Heartbeat(store, 7200).write({**state, **told})
    return found


def _add_evidence(bins: BinsStore, hour: int, others: int) -> None:
    names = [f"campaign-{number:05d}" for number in range(others)]
    for shard in range(keys.SHARDS if others else 0):
        some = tuple(name for name in names if keys.shard_of(name) == shard)
        before = bins.evidence.read("click", shard)
        positives = np.arange(len(some)) % 7 + 10.0
        bins.evidence.write(
            "click", shard, before.after(hour, some, np.full(len(some), 12.0), positives)
        )


def send_hour(service: RunningService, at: int, rng: np.random.Generator) -> None:
    """Outcomes of all that are busy."""
    factors = dict(zip(BUSY, FACTORS, strict=True))
    events = []
    for name, factor in factors.items():
        scores = rng.beta(2, 30, 1500)
        clicked = rng.random(1500) < np.minimum(scores / factor, 1.0)
        events += [
            outcome(at, name, s, outcome=int(c)) for s, c in zip(scores, clicked, strict=True)
        ]
    answer = service.http.post("/v1/events", json=events)
    assert not answer.json()["rejected"], answer.text
