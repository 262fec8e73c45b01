"""A client that sends each request again until it is acknowledged."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.command_line.click_stories import Event
from tests.command_line.test_up import wait_until
from tests.loopback import LOOPBACK


@dataclass(frozen=True)
class PersistentClient:
    """Sends events to the service at `url`; any number of threads may."""

    url: str

    def send(self, name: str, batches: list[list[Event]]) -> None:
        """One request after the other, each stored as a whole or not at all, and every third once
        more."""
        with self._opened() as http:
            for number, events in enumerate(batches):
                key = f"{name}/{number}"
                answer = _acknowledged(http, events, key)
                assert answer in (told(accepted=len(events)), told(duplicates=len(events)))
                if number % 3 == 0:
                    assert _acknowledged(http, events, key) == told(duplicates=len(events))

    def repeat(self, events: list[Event]) -> None:
        """In a request of its own, as somebody who knows nothing of the others."""
        with self._opened() as http:
            assert _acknowledged(http, events, "again") == told(duplicates=len(events))

    def _opened(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, **LOOPBACK)


def told(accepted: int = 0, duplicates: int = 0) -> dict[str, Any]:
    """The answer to events that are all good."""
    none = {"rejected": [], "rejected_total": 0, "rejected_by_reason": {}}
    return {"accepted": accepted, "duplicates": duplicates, **none}


def _acknowledged(http: httpx.Client, events: list[Event], key: str) -> dict[str, Any]:
    answers: list[httpx.Response] = []

    def is_answered() -> bool:
        try:
            answers.append(http.post("/v1/events", json=events, headers={"Idempotency-Key": key}))
        except httpx.TransportError:
            return False
        return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

    wait_until(is_answered, f"{key} is never acknowledged")
    assert answers[-1].status_code == httpx.codes.OK, answers[-1].text
    content: dict[str, Any] = answers[-1].json()
    return content
