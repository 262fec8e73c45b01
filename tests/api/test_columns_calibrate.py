"""`POST /v1/calibrate` in binary columns: the same answers as in JSON, to the last bit."""

import struct
from itertools import cycle

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import CampaignGroups, GroupMaps
from tests.api.conftest import alone
from tests.api.problems import problem
from tests.columns.bodies import FLOAT32, LEVELS, ONE_CAMPAIGN, read_answer, scores_body

PATH = "/v1/calibrate"
COLUMNS = "application/vnd.sirocco.columns"
MANY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))

SCORES = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 1.0, 0.2, 5e-324, 1 - 2**-53])
NAMES = st.sampled_from(["shoes", "hats", "unseen", "new-1"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64
)
# Beyond the crossover from plain Python to one pass, too.
PAIRS = st.lists(st.tuples(NAMES, SCORES), min_size=1, max_size=20).flatmap(
    lambda pairs: st.sampled_from([pairs, pairs * 5])
)


@pytest.fixture(scope="module")
def calibrating(settings):
    """A service with maps for some campaigns, which no test here replaces."""
    maps = {
        "hats": CalibrationMap.proportional(0.5),
        "shoes": CalibrationMap([0.0, 0.2, 1.0], [0.0, 0.1, 0.9]),
    }
    with alone(settings) as service:
        of_groups = MapColumns.of_maps([CalibrationMap.proportional(0.25)])
        groups = GroupMaps(CampaignGroups("^(new)-"), ("new",), of_groups)
        service.publish({"click": Atlas.build(maps, CalibrationMap.proportional(2.0), groups)})
        yield service


def post(service, body, **headers):
    return service.http.post(PATH, content=body, headers={"Content-Type": COLUMNS, **headers})


def in_json(service, pairs, target="click"):
    names, scores = zip(*pairs, strict=True)
    asked = {"target": target, "campaigns": names, "scores": scores}
    return service.http.post(f"{PATH}?explain=true", json=asked)


@MANY
@given(pairs=PAIRS)
def test_names_give_the_probabilities_of_json(calibrating, pairs):
    """To the last bit, and the levels too."""
    names, scores = zip(*pairs, strict=True)

    answer = post(calibrating, scores_body(scores, campaigns=names, flags=LEVELS))

    expected = in_json(calibrating, pairs).json()
    dictionary, _ = calibrating.ids()
    assert read_answer(answer.content) == (
        expected["probabilities"],
        expected["levels"],
        dictionary,
    )


@MANY
@given(pairs=PAIRS)
def test_interned_ids_give_the_probabilities_of_their_names(calibrating, pairs):
    """Id 0 stands for whoever has no map."""
    pairs = [("unseen" if name == "new-1" else name, score) for name, score in pairs]
    names, scores = zip(*pairs, strict=True)
    dictionary, numbers = calibrating.ids()
    ids = [numbers.get(name, 0) for name in names]

    answer = post(
        calibrating, scores_body(scores, campaigns=ids, dictionary=dictionary, flags=LEVELS)
    )

    expected = in_json(calibrating, pairs).json()
    assert read_answer(answer.content)[:2] == (expected["probabilities"], expected["levels"])


@MANY
@given(
    name=NAMES,
    scores=st.lists(SCORES, min_size=1, max_size=20),
    repeats=st.sampled_from([1, 10]),
    interned=st.booleans(),
)
@example(name="shoes", scores=[0.1, 0.3], repeats=50, interned=True)
def test_one_campaign_stands_for_all_scores(calibrating, name, scores, repeats, interned):
    scores = scores * repeats
    one = {"campaigns": [name]}
    if interned:
        name = "unseen" if name == "new-1" else name
        dictionary, numbers = calibrating.ids()
        one = {"campaigns": [numbers.get(name, 0)], "dictionary": dictionary}

    answer = post(calibrating, scores_body(scores, flags=ONE_CAMPAIGN, **one))

    expected = in_json(calibrating, [(name, score) for score in scores]).json()
    assert read_answer(answer.content)[:2] == (expected["probabilities"], None)


@MANY
@given(scores=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=80))
def test_float32_is_the_nearest_to_the_exact_answer(calibrating, scores):
    """Scores are taken as they are; only the answer is rounded."""
    pairs = list(zip(cycle(["shoes", "hats", "other"]), scores, strict=False))
    names = [name for name, _ in pairs]

    answer = post(calibrating, scores_body(scores, campaigns=names, flags=FLOAT32))

    exact = in_json(calibrating, pairs).json()["probabilities"]
    nearest = struct.unpack(f"<{len(exact)}f", struct.pack(f"<{len(exact)}f", *exact))
    assert read_answer(answer.content)[0] == list(nearest)


def test_headers_tell_the_version_and_the_age(service, atlas):
    """The version has no other place; before the first one there is no age."""
    before = post(service, scores_body([0.5], campaigns=["a"]))
    version = service.publish({"click": atlas})

    after = post(service, scores_body([0.5], campaigns=["a"]))

    assert (before.status_code, before.headers["sirocco-version"]) == (200, "none")
    assert "sirocco-map-age" not in before.headers
    assert after.headers["content-type"] == COLUMNS
    assert after.headers["sirocco-version"] == version
    assert int(after.headers["sirocco-map-age"]) >= 0


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", COLUMNS),
        (COLUMNS, COLUMNS),
        (f"application/json;q=0.5, {COLUMNS}", COLUMNS),
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8, */*", "application/json"),
        ("text/html", COLUMNS),
    ],
)
def test_json_is_answered_to_whoever_accepts_no_columns(calibrating, accept, media_type):
    answer = post(calibrating, scores_body([0.5], campaigns=["hats"]), Accept=accept)

    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)


@MANY
@given(pairs=PAIRS, levels=st.booleans())
def test_a_json_answer_to_columns_is_that_to_json(calibrating, pairs, levels):
    """Byte for byte."""
    names, scores = zip(*pairs, strict=True)
    body = scores_body(scores, campaigns=names, flags=LEVELS * levels)

    answer = post(calibrating, body, Accept="application/json")

    asked = {"target": "click", "campaigns": names, "scores": scores}
    query = "?explain=true" if levels else ""
    assert answer.content == calibrating.http.post(PATH + query, json=asked).content
    assert "sirocco-map-age" in answer.headers


@pytest.mark.parametrize(
    ("pairs", "target"),
    [
        ([("a", 0.5), ("b", 1.0000000000000002)], "click"),
        ([("a", 0.5)] * 50 + [("b", -0.5)], "click"),
        ([("a", 0.5)], "view"),
        ([("a", 0.5), ("", 0.5), ("", 0.25)], "click"),
        ([("a", 0.5), ("ö" * 129, 0.5)], "click"),
        ([("a", 0.5)] * 50_001, "click"),
    ],
)
def test_a_bad_request_is_refused_in_the_words_of_json(refusing, pairs, target):
    """The whole problem: field, value, rule."""
    names, scores = zip(*pairs, strict=True)

    answer = post(refusing, scores_body(scores, campaigns=names, target=target))

    problem(answer, 422, "broken-rule")
    assert answer.json() == in_json(refusing, pairs, target).json()


def test_one_bad_campaign_is_refused_in_the_words_of_json(refusing):
    answer = post(refusing, scores_body([0.5, 1], campaigns=[""], flags=ONE_CAMPAIGN))

    asked = {"target": "click", "campaign": "", "scores": [0.5, 1]}
    assert answer.json() == refusing.http.post(PATH, json=asked).json()


def test_a_long_name_of_few_bytes_is_taken(calibrating):
    """256 bytes are too many characters to be sure at a glance."""
    longest = "n" * 256

    assert post(calibrating, scores_body([0.5], campaigns=[longest])).status_code == 200


def test_a_name_that_nobody_uses_is_not_judged(calibrating):
    body = scores_body([0.5], campaigns=["hats", ""], flags=0)
    # Both indices name the hats.
    changed = bytearray(scores_body([0.5, 0.5], campaigns=["hats", ""]))
    changed[-20] = 0

    assert post(calibrating, bytes(changed)).status_code == 200
    assert post(calibrating, body).status_code == 422


def test_an_unknown_version_of_the_layout_names_the_known(refusing):
    answer = post(refusing, scores_body([0.5], campaigns=["a"], announced={"version": 2}))

    content = problem(answer, 415, "unsupported-columns-version")
    assert content["versions"] == [1]
    assert content["detail"] == "columns.version = 2: not understood here"


def test_an_unknown_dictionary_names_the_one_in_force(calibrating):
    dictionary, _ = calibrating.ids()

    answer = post(calibrating, scores_body([0.5], campaigns=[1], dictionary=dictionary ^ 1))

    content = problem(answer, 409, "unknown-dictionary")
    assert content["dictionary"] == f"{dictionary:016x}"
    assert f"dictionary = {dictionary ^ 1:016x}" in content["detail"]


def test_an_id_beyond_the_list_is_refused(calibrating):
    dictionary, numbers = calibrating.ids()
    ids = [1, len(numbers) + 1]

    answer = post(calibrating, scores_body([0.5, 0.5], campaigns=ids, dictionary=dictionary))

    content = problem(answer, 422, "broken-rule")
    assert (content["field"], content["value"]) == ("campaigns[1]", "3")


def test_a_former_list_is_answered_right_after_a_publish(service, atlas):
    """Campaigns came and went: each id still means its campaign, by the maps of now."""
    service.publish({"click": atlas})
    dictionary, numbers = service.ids()
    maps = {name: CalibrationMap.proportional(0.25) for name in ("before", "shoes", "zzz")}
    service.publish({"click": Atlas.build(maps, CalibrationMap.proportional(0.125))})
    body = scores_body(
        [0.5] * 3,
        campaigns=[0, numbers["hats"], numbers["shoes"]],
        dictionary=dictionary,
        flags=LEVELS,
    )

    probabilities, levels, in_force = read_answer(post(service, body).content)

    assert probabilities == [0.0625, 0.0625, 0.125]
    assert levels == ["target", "target", "campaign"]
    assert in_force == service.ids()[0] != dictionary


def test_scores_of_columns_are_counted_by_level(service, version):
    post(service, scores_body([0.5] * 50, campaigns=["hats"] * 30 + ["other"] * 20))

    def served(level):
        return service.metric("sirocco_scores_total", target="click", level=level)

    assert (served("campaign"), served("target")) == (30, 20)


def test_new_campaigns_are_served_and_counted_by_their_group(calibrating):
    names = ["new-a"] * 20 + ["hats"] * 10 + ["new-b"]
    answer = post(calibrating, scores_body([0.5] * 31, campaigns=names, flags=LEVELS))
    alone = in_json(calibrating, [("new-c", 0.5)]).json()

    probabilities, levels, _ = read_answer(answer.content)
    assert probabilities == [0.125] * 20 + [0.25] * 10 + [0.125]
    assert levels == ["group"] * 20 + ["campaign"] * 10 + ["group"]
    assert (alone["probabilities"], alone["levels"]) == ([0.125], ["group"])
    served = calibrating.http.get("/v1/maps/click/new-d").json()
    assert (served["level"], served["values"]) == ("group", [0.0, 0.25])
    assert calibrating.metric("sirocco_scores_total", target="click", level="group") >= 22


def test_a_large_body_is_answered_too(calibrating):
    """Off the event loop."""
    body = scores_body([0.5] * 40_000, campaigns=["hats"] * 40_000)

    assert read_answer(post(calibrating, body).content)[0] == [0.25] * 40_000
