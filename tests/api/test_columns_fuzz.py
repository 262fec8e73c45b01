"""Binary bodies from strangers: any change of a good one is answered, and never a fault of ours."""

import json
import math
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.columns.events import read_events
from app.columns.layout import UnknownColumnsVersion
from app.columns.scores import read_scores
from app.events.schema import TooManyEvents
from app.storage.bins import BinsStore
from app.strict_json import ValidationError
from calibrators import Atlas, CalibrationMap
from tests.api.conftest import alone
from tests.api.problems import MEDIA_TYPE
from tests.columns.bodies import (
    FLOAT32,
    LEVELS,
    ONE_CAMPAIGN,
    clicks_body,
    impressions_body,
    outcomes_body,
    read_answer,
    scores_body,
)
from tests.storage.contents import damaged_blocks

COLUMNS = "application/vnd.sirocco.columns"
MANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
AT = 1_700_000_000.0
NAMES = ["shoes", "öl", "shoes"]
MAPS = {"hats": CalibrationMap.proportional(0.5), "shoes": CalibrationMap.proportional(0.25)}
DICTIONARY = 0x9D4A2F0E6C5B1378


@pytest.fixture(scope="module")
def attacked(settings):
    """A service with maps, at the events' clock, so that some events are taken."""
    with alone(settings, clock="event") as service:
        service.publish({"click": Atlas.build(MAPS)}, as_of=AT)
        yield service


@pytest.fixture(scope="module")
def dictionary(attacked):
    return attacked.ids()[0]


def requests(dictionary):
    """A good calibrate request of every form."""
    return [
        scores_body([0.5, 0.25, 1.0], campaigns=NAMES),
        scores_body([0.5, 0.25], campaigns=[1, 0], dictionary=dictionary, flags=LEVELS),
        scores_body([0.5] * 3, campaigns=["shoes"], flags=ONE_CAMPAIGN | FLOAT32),
        scores_body([0.5] * 99, campaigns=[2] * 99, dictionary=dictionary, flags=FLOAT32 | LEVELS),
    ]


def reports(dictionary, ids=("1", "ö", "3")):
    """A good request of every kind of events."""
    times = [AT, AT, AT + 3600]
    interned = {"campaigns": [1, 2, 1], "dictionary": dictionary}
    return [
        impressions_body([0.5, 0.25, 1.0], times, campaigns=NAMES),
        impressions_body([0.5, 0.25, 1.0], times, ids, campaigns=NAMES),
        impressions_body([0.5, 0.25, 1.0], times, **interned),
        clicks_body([0.5, 0.25, 1.0], times, times, ids, campaigns=NAMES),
        outcomes_body([0.5, 0.25, 1.0], times, [0.0, 0.5, 1.0], campaigns=NAMES),
        outcomes_body([0.5], [AT], [1.0], campaigns=["a"], flags=ONE_CAMPAIGN),
    ]


NUMBERS = st.sampled_from([0, 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
# What is taken out, and what comes in its place: bytes and numbers change, or places, or the end.
EDITS = (
    st.binary(min_size=1, max_size=8).map(lambda new: (len(new), new))
    | st.integers(0, 40).map(lambda small: (1, bytes([small])))
    | NUMBERS.map(lambda number: (4, number.to_bytes(4, "little")))
    | st.tuples(st.sampled_from([0, 1, 4, 8, 10**6]), st.binary(max_size=8))
)


@st.composite
def changed(draw, bodies):
    """One of the bodies, with up to four changes."""
    body = draw(st.sampled_from(bodies))
    for _ in range(draw(st.integers(1, 4))):
        # The few bytes that steer all others are tried more often.
        place = draw(st.integers(4, 31) | st.integers(0, len(body)))
        size, new = draw(EDITS)
        body = body[:place] + new + body[place + size :]
    return body


def post(service, path, body):
    answer = service.http.post(path, content=body, headers={"Content-Type": COLUMNS})
    if answer.status_code != 200:
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.json()["detail"]
        return None
    return answer


@MANY
@given(data=st.data())
def test_a_changed_request_is_refused_or_answered_with_probabilities(attacked, dictionary, data):
    body = data.draw(changed(requests(dictionary)))

    answer = post(attacked, "/v1/calibrate", body)

    if answer is not None:
        probabilities, levels, in_force = read_answer(answer.content)
        assert len(probabilities) == int.from_bytes(body[8:12], "little") > 0
        assert all(math.isfinite(p) and 0 <= p <= 1 for p in probabilities)
        assert levels is None or len(levels) == len(probabilities)
        assert in_force == dictionary


@MANY
@given(data=st.data())
def test_changed_events_are_refused_or_taken_apart_by_index(attacked, dictionary, data):
    """Nothing that is stored can stop a fold."""
    body = data.draw(changed(reports(dictionary)))

    answer = post(attacked, "/v1/events", body)

    if answer is not None:
        content = json.loads(answer.content)
        indices = [rejected["index"] for rejected in content["rejected"]]
        assert indices == sorted(set(indices))
        rows = content["accepted"] + content["duplicates"] + len(indices)
        assert rows == int.from_bytes(body[8:12], "little") > 0
    store = BinsStore(attacked.store, attacked.settings.ttl_seconds)
    store.fold()
    assert damaged_blocks(store) == 0


@MANY
@given(data=st.data(), read=st.sampled_from([read_scores, read_events]))
def test_what_is_announced_allocates_nothing(data, read):
    """However many rows, names or bytes a body says it has: memory goes by what it brings."""
    good = (requests if read is read_scores else reports)(DICTIONARY)
    body = data.draw(changed(good))

    def peak() -> int:
        tracemalloc.start()
        try:
            read(body, 2**32)
        except (ValidationError, UnknownColumnsVersion, TooManyEvents):
            pass
        finally:
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return found

    # Threads of other tests' services may take some meanwhile.
    assert any(peak() < 40_000 + 100 * len(body) for _ in range(9))


@pytest.mark.parametrize("field", [8, 12, 16, 20])
@pytest.mark.parametrize("number", [2**32 - 1, 2**31, 10**8])
def test_a_header_that_announces_gigabytes_is_refused(attacked, dictionary, field, number):
    """Rows, names, bytes of names, bytes of the target."""
    for path, bodies in (("/v1/calibrate", requests), ("/v1/events", reports)):
        for good in bodies(dictionary):
            body = bytearray(good)
            body[field : field + 4] = number.to_bytes(4, "little")
            assert post(attacked, path, bytes(body)) is None


def test_unchanged_they_are_all_taken(attacked, dictionary):
    """Or the fuzzing above would try nothing; ids of its own, for a changed body may have taken the
    others for another campaign."""
    for body in requests(dictionary):
        assert post(attacked, "/v1/calibrate", body) is not None
    for body in reports(dictionary, ids=("new-1", "new-ö", "new-3")):
        assert post(attacked, "/v1/events", body).json()["rejected"] == []
