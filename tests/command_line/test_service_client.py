"""What a command sends again, and how often it counts."""

from urllib.parse import unquote

import httpx
import orjson
import pytest

from app.cli.serving.client import ServiceClient
from app.errors import CommandError

ANSWER = {"probabilities": [0.5], "rejected": [], "id": "1"}


def client_of(*answers: tuple[int, object]) -> tuple[ServiceClient, list[httpx.Request]]:
    """One that gets these answers in turn, and what it has sent."""
    waiting, sent = [*answers], []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        status, body = waiting.pop(0)
        return httpx.Response(status, content=orjson.dumps(body), headers={"Retry-After": "0"})

    client = ServiceClient("http://service")
    client._http = httpx.Client(base_url=client.url, transport=httpx.MockTransport(answer))
    return client, sent


@pytest.mark.parametrize("campaign", [".", "..", "a/../b.c"])
def test_no_campaign_is_a_folder(campaign):
    """Clients of HTTP leave .. out of a path, with the name before it."""
    client, sent = client_of((200, {}))
    client.override("click", campaign, "sir", retrain=False)

    *_, target, name = sent[0].url.raw_path.decode().split("/")
    assert (target, unquote(name), "." in name) == ("click", campaign, False)


def test_a_rollback_that_may_have_happened_is_not_repeated():
    client, sent = client_of((503, {"type": "urn:sirocco:problem:store-unavailable"}))
    with pytest.raises(CommandError, match="answered 503"):
        client.change("rollback", request={"version": "1"})
    assert len(sent) == 1
