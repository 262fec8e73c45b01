"""The mix of requests that a service in use gets: calibrations of all sizes, and some events."""

from collections.abc import Sequence
from dataclasses import replace
from time import time

import numpy as np

from benchmarks.core.traffic import campaign_names, random_scores
from benchmarks.http.bodies import FORMS, Ids, ScoresRequest, json_body, random_events
from benchmarks.http.bodies import PATH as CALIBRATE
from benchmarks.http.load import post
from benchmarks.soak.answers import BINARY_FORM, JSON_FORM, Calibration
from benchmarks.soak.open_loop import Kind

SEED = 17
EVENTS = 100
CLICKS = 0.02
EVENTS_SHARE = 0.01
_SERIAL = b"serial----"
_HOUR_SECONDS = 3600
ASKED = (
    ("calibrate 1", JSON_FORM, 1, 0.5),
    ("calibrate 10", JSON_FORM, 10, 0.25),
    ("calibrate 100", JSON_FORM, 100, 0.16),
    ("calibrate 100, binary", BINARY_FORM, 100, 0.08),
)
"""Kind, form, scores of a request, share of the requests."""


def calibrations(campaigns: int, messages: int) -> list[Calibration]:
    """Each kind of them, with so many different messages."""
    return [_calibration(campaigns, messages, *asked) for asked in ASKED]


def events(campaigns: int, messages: int) -> Kind:
    """Requests whose ids differ each time."""
    rng = np.random.default_rng(SEED)
    hour = time() // _HOUR_SECONDS * _HOUR_SECONDS - _HOUR_SECONDS
    bodies = (
        json_body(random_events(rng, campaigns, EVENTS, CLICKS, _SERIAL.decode(), hour))
        for _ in range(messages)
    )
    posts = [post("/v1/events", body) for body in bodies]
    return Kind(f"events {EVENTS}", EVENTS_SHARE, posts, _with_serial)


def of_all(kinds: Sequence[Kind]) -> list[Kind]:
    """The same without any others: their shares add up to 1."""
    total = sum(kind.share for kind in kinds)
    return [replace(kind, share=kind.share / total) for kind in kinds]


def _calibration(
    campaigns: int, messages: int, name: str, form: str, scores: int, share: float
) -> Calibration:
    rng = np.random.default_rng((SEED, scores))
    names = campaign_names(campaigns)
    questions = [
        ScoresRequest(
            [names[row] for row in rng.integers(0, campaigns, scores).tolist()],
            np.array(random_scores(scores, rng)),
            Ids(0, {}),
        )
        for _ in range(messages)
    ]
    asked = FORMS[form]
    posts = [post(CALIBRATE, asked.body(question), asked.content_type) for question in questions]
    return Calibration(Kind(name, share, posts), form, questions)


def _with_serial(message: bytes, number: int) -> bytes:
    return message.replace(_SERIAL, b"%010d" % number)
