"""What is said to the service, without a service: older ones, and versions that change midway."""

import json

import pytest
from sirocco_client.calibrate import FEWEST_FOR_COLUMNS, Calibrated, CalibrateExchange
from sirocco_client.errors import Refused, Unavailable
from sirocco_client.requests import COLUMNS, JSON, CalibrateInput, HttpRequest, HttpResponse

UNSUPPORTED = HttpResponse(415, {}, b'{"type": "urn:sirocco:problem:unsupported-media-type"}')


def said(version: str, scores: int) -> HttpResponse:
    content = {"probabilities": [0.5] * scores, "version": version}
    return HttpResponse(200, {"content-type": JSON}, json.dumps(content).encode())


def question(scores: int) -> CalibrateInput:
    return CalibrateInput.of("click", "a", [0.5] * scores)


def carried_on(
    dialogue: CalibrateExchange, asked: CalibrateInput, replies: list[HttpResponse]
) -> tuple[Calibrated, list[HttpRequest]]:
    """The answer in the end, and the requests that were made; every reply must be needed."""
    talk = dialogue.of(asked, explain=False)
    requests = [next(talk), *map(talk.send, replies[:-1])]
    with pytest.raises(StopIteration) as end:
        talk.send(replies[-1])
    return end.value.value, requests


def test_an_older_service_is_asked_in_json_from_then_on():
    """It refuses the media type once; after that nothing is wasted on it."""
    dialogue = CalibrateExchange(None, 1000)
    size = FEWEST_FOR_COLUMNS

    _, first = carried_on(dialogue, question(size), [UNSUPPORTED, said("1", size)])
    _, second = carried_on(dialogue, question(size), [said("1", size)])

    assert [asked.headers["Content-Type"] for asked in first + second] == [COLUMNS, JSON, JSON]


def test_who_insists_on_columns_hears_of_the_refusal():
    """To fall back would hide what the caller wants to know."""
    talk = CalibrateExchange(True, 1000).of(question(1), explain=False)
    next(talk)

    with pytest.raises(Refused) as refused:
        talk.send(UNSUPPORTED)

    assert refused.value.kind == "unsupported-media-type"


def test_the_form_follows_the_size():
    """JSON for a few scores, columns for more."""
    few, many = (
        next(CalibrateExchange(None, 1000).of(question(size), explain=False))
        for size in (FEWEST_FOR_COLUMNS - 1, FEWEST_FOR_COLUMNS)
    )

    assert (few.headers["Content-Type"], many.headers["Content-Type"]) == (JSON, COLUMNS)


def test_parts_of_different_versions_are_asked_again():
    """A version published between two parts does not mix with the one before it."""
    replies = [said("1", 2), said("2", 1), said("2", 2), said("2", 1)]

    answer, requests = carried_on(CalibrateExchange(False, 2), question(3), replies)

    assert (answer.version, len(answer), len(requests)) == ("2", 3, 4)


def test_versions_that_change_all_the_time_are_no_answer():
    """After three rounds there is an error, and no mixture."""
    talk = CalibrateExchange(False, 2).of(question(3), explain=False)
    next(talk)

    replies = [said(str(number), 2 - number % 2) for number in range(6)]

    with pytest.raises(Unavailable):
        list(map(talk.send, replies))
