"""Events in binary columns: admitted and refused as the same events in JSON, to the last bit."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.columns.events import EventAdmission
from app.columns.events import read_events as read_columns
from app.events.admission import Admission
from app.events.reading import read_events
from app.events.rejections import OpenTimes
from app.settings import Settings
from app.storage.clicks import ClickRules
from tests.columns.both_forms import KINDS, Form, Row, each_wrong, in_columns, in_json
from tests.storage.gathered import rows_by_log

SETTINGS = Settings(clock="event", targets=("click", "view"), fields=("device", "placement"))
AS_OF = 470_000 * 3600.0
TIMES = OpenTimes.since(AS_OF, SETTINGS)
FIRST = AS_OF - 24 * 3600
MOST = 1000

# U+001E stands before a version of the model, which JSON names apart.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x1e")
TEXT = st.text(LETTERS, min_size=1, max_size=8)
WRONG_NAMES = ["", "x" * 257]
WRONG_NUMBERS = [-0.5, 1 + 2**-52, math.nan, math.inf, -math.inf]
WRONG_TIMES = [math.nextafter(FIRST, 0), 0.0, -1e300, 4102444800.0, math.nan, math.inf, 1e308]
WRONG_IDS = ["", "i" * 257]
WRONG_PRICES = [-1.0, math.nextafter(1e6, math.inf), math.inf, -math.inf]
HOURS = st.sampled_from([FIRST, AS_OF - 3600, AS_OF])
NUMBERS = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 1.0, 0.25])
OPEN = st.floats(FIRST, AS_OF + 3600) | HOURS
OPEN |= HOURS.map(lambda hour: math.nextafter(hour + 3600, 0))
PRICES = st.none() | st.sampled_from([0.0, 1e6, 0.125]) | st.floats(0, 1e6)
GOOD = Row("shoes", 0.5, AS_OF, AS_OF, "1", "ann", 1, 1.0, 2.0, 3.0, "ios")
OF_ALL = dict.fromkeys(("bid", "cost", "value"), WRONG_PRICES)
OF_ALL |= {"device": ["x" * 257], "placement": ["top", "a\x1fb"]}
OF_ALL |= {"score": WRONG_NUMBERS, "occurred_at": WRONG_TIMES, "campaign": [""], "arm": [3, 254]}
WRONG = {
    "impression": each_wrong(GOOD, **OF_ALL, event_id=["1", "2", *WRONG_IDS, "ö" * 64]),
    "click": each_wrong(GOOD, **OF_ALL, other=WRONG_TIMES, event_id=WRONG_IDS),
    "outcome": each_wrong(GOOD._replace(other=1.0), **OF_ALL, other=WRONG_NUMBERS),
}
"""By kind: of each column each value that it must not have, in an event that is good else."""


@st.composite
def events(draw, kind):
    """Rows, some of which are wrong somewhere, and as many as are admitted all at once, too."""

    def some(good, *wrong):
        return draw(st.sampled_from([good, good, good, good | st.sampled_from(wrong)]))

    others = some(NUMBERS, *WRONG_NUMBERS) if kind == "outcome" else some(OPEN, *WRONG_TIMES)
    rows = st.builds(
        Row,
        some(st.sampled_from(["shoes", "hats", "ö" * 128]) | TEXT, *WRONG_NAMES),
        some(NUMBERS, *WRONG_NUMBERS),
        some(OPEN, *WRONG_TIMES),
        others,
        some(st.sampled_from(["1", "2", "3", "y" * 65, "z" * 256]) | TEXT, *WRONG_IDS),
        st.none() | st.sampled_from(["ann", "bob", "ö"]),
        some(st.sampled_from([0, 1, 2, 255]), *range(3, 10)),
        *(some(PRICES, *WRONG_PRICES) for _ in range(3)),
        some(st.sampled_from(["ios", "", "größe"]), "x" * 257),
        some(st.sampled_from(["top", "", "side"]), "a\x1fb"),
    )
    return draw(st.lists(rows, min_size=1, max_size=12)) * draw(st.sampled_from([1, 1, 10]))


@st.composite
def requests(draw):
    kind = draw(st.sampled_from([*KINDS]))
    targets = ["click", "view", "conversion", "other"] if kind == "outcome" else ["click"]
    ids, units, money, one, fields = (draw(st.booleans()) for _ in range(5))
    form = Form(kind, ids, units, money, draw(st.sampled_from(targets)), one, fields)
    return form, draw(events(kind))


def found(admission):
    """What is to be stored, and what is said of the rest."""
    batch, rejections = admission.batch, admission.rejections
    clicks = batch.click_events
    return {
        "rows": rows_by_log(batch),
        "clicks": clicks and clicks.packed(ClickRules(), 1),
        "counts": (len(batch), batch.repeats, +Counter(admission.admitted), rejections.counts),
        "rejections": rejections.shown,
    }


def admitted_columns(body):
    request = read_columns(body, MOST)
    rows = request.header.rows
    places = np.broadcast_to(request.numbers.astype(np.intp), rows)
    columns = EventAdmission(request, request.names, places, SETTINGS, TIMES)
    list(columns.admit_all())
    return columns.admission


def admitted_json(body):
    admission = Admission(SETTINGS, TIMES)
    for parsed in read_events(body, MOST, admission.rejections, lines=False):
        list(admission.admit_all(parsed))
    return admission


def check_same(form, rows):
    """Bad ones are rejected with the same words, by the same index; repeats of an id are none."""
    in_both = found(admitted_columns(in_columns(form, rows)))

    # `json` writes NaN and Infinity as strangers do.
    assert in_both == found(admitted_json(json.dumps(in_json(form, rows)).encode()))


BARE = {"ids": False, "units": False, "money": False}
CASES = [
    (Form("impression", **BARE), [GOOD] * 50 + [GOOD._replace(occurred_at=4102444800.0)]),
    (Form("impression"), [GOOD] * 70),
    (Form("impression"), [GOOD._replace(occurred_at=FIRST - 1)] * 70),
    (Form("impression", **BARE), WRONG["impression"]),
    *((Form(kind, fields=True), rows * times) for kind, rows in WRONG.items() for times in (1, 10)),
    (Form("outcome", **BARE, target="view"), WRONG["outcome"]),
    (Form("outcome", target="conversion"), [GOOD._replace(other=1.0)] * 50),
]


@pytest.mark.parametrize(("form", "rows"), CASES)
def test_every_wrong_value_is_refused_as_in_json(form, rows):
    check_same(form, rows)


@settings(max_examples=150)
@given(requests())
def test_columns_are_admitted_as_json(request_of):
    check_same(*request_of)
