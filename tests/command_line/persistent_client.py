"""A client that sends each request again until it is acknowledged."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.command_line.click_stories import Event
from tests.command_line.mortal_service import wait_until


@dataclass(frozen=True)
class PersistentClient:
    """Sends events to the service at `url`; any number of threads may."""

    url: str

    def send(self, name: str, batches: list[list[Event]]) -> None:
        """One request after the other, each whole: of every third a copy, of others a repeat."""
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as http:
            for number, events in enumerate(batches):
                key = f"{name}/{number}"
                answer = self._acknowledged(http, events, key)
                assert answer in (_told(accepted=len(events)), _told(duplicates=len(events)))
                # A behaviour of a closed click is late, whoever repeats it.
                repeated = [event for event in events if event["type"] != "behaviour"]
                if number % 3 == 0:
                    answer = self._acknowledged(http, events, key)
                    assert answer == _told(duplicates=len(events))
                elif number % 3 == 1 and repeated:
                    answer = self._acknowledged(http, repeated, f"{key} again")
                    assert answer == _told(duplicates=len(repeated))

    def _acknowledged(self, http: httpx.Client, events: list[Event], key: str) -> dict[str, Any]:
        answers: list[httpx.Response] = []

        def is_answered() -> bool:
            try:
                answers.append(
                    http.post("/v1/events", json=events, headers={"Idempotency-Key": key})
                )
            except httpx.TransportError:
                return False
            return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

        wait_until(is_answered, f"{key} is never acknowledged")
        assert answers[-1].status_code == httpx.codes.OK, answers[-1].text
        content: dict[str, Any] = answers[-1].json()
        return content


def _told(accepted: int = 0, duplicates: int = 0) -> dict[str, Any]:
    return {"accepted": accepted, "duplicates": duplicates, "rejected": []}
