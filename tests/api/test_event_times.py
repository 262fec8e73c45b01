"""Which events are in time, by this machine's clock and by the clock of the events."""

import time
from datetime import UTC, datetime, timedelta, timezone

from tests.api.events import HOUR_SECONDS, click, impression

PATH = "/v1/events"
AS_OF = 1_700_000_000.0 // HOUR_SECONDS * HOUR_SECONDS


def post(service, *events):
    return service.http.post(PATH, json=list(events)).json()


def reason(content):
    return content["rejected"][0]["error"]


def test_all_ways_to_write_a_moment_are_one_moment(service):
    now = datetime.now(UTC).replace(microsecond=500_000)
    zones = [UTC, timezone(timedelta(hours=-12)), timezone(timedelta(hours=14))]
    ways = [now.astimezone(zone).isoformat() for zone in zones]
    ways += [ways[0].replace("+00:00", "Z"), now.timestamp(), int(now.timestamp())]

    content = post(service, *map(impression, ways))

    assert content["accepted"] == 6
    hour = int(now.timestamp() // HOUR_SECONDS)
    assert service.bins("click", hour).total().total_count == 6


def test_a_click_is_as_late_as_its_impression(service):
    now = time.time()
    old = now - 30 * HOUR_SECONDS

    content = post(service, click(now, "1", impression_at=old), click(now + 9999, "2"))

    assert content["accepted"] == 0
    assert reason(content).startswith(f"impression_at = {old}: late")
    assert content["rejected"][1]["error"].startswith(f"occurred_at = {now + 9999}: future")


def test_by_the_events_clock_the_last_refit_is_now(event_clock_service, atlas):
    service = event_clock_service
    service.publish({"click": atlas}, as_of=AS_OF)
    first = AS_OF - 24 * HOUR_SECONDS
    year = 365 * 24 * HOUR_SECONDS

    content = post(service, impression(first), impression(AS_OF + year), impression(first - 1))

    assert content["accepted"] == 2
    assert reason(content) == (
        f"occurred_at = {first - 1}: late, the window begins at 2023-11-13T22:00:00+00:00"
    )
