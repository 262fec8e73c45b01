"""However click events arrive, are sent again and are closed: the same clicks and conversions."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.storage.blocks import StoredConversion
from app.storage.clicks import ClickRules, OpenClick, OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.redis.client import open_redis
from tests.storage.clicks import AT, Sent, append_by, of
from tests.storage.interrupted_redis import Died, InterruptedRedis, die

SECONDS = 10.0
RULES = ClickRules(post_click_seconds=SECONDS)
IDS = [str(number) for number in range(4)]

clicks = st.builds(
    lambda click_id: OpenClick(click_id, "a", AT + int(click_id), {"conversion": 0.5}),
    st.sampled_from(IDS),
)
behaviours = st.tuples(
    st.sampled_from(IDS),
    st.sampled_from(["carts", "views"]),
    st.integers(-3, 15).map(lambda seconds: AT + seconds),
    st.just(1.0),
)
conversions = st.builds(
    lambda click_id, seconds: StoredConversion(click_id, "conversion", AT + seconds),
    st.sampled_from(IDS),
    st.integers(-3, 15),
)
steps = st.lists(
    st.sampled_from(
        [
            *("send", "send", "send again", "die before drop", "die after drop", "hand over"),
            *("die before finish", "die after finish", "die after begin", "close"),
        ]
    ),
    max_size=14,
)

quickly = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@quickly
@given(events=st.lists(clicks | behaviours | conversions, max_size=30), size=st.integers(1, 8))
def test_any_order_and_split_gives_the_same_clicks(redis_url, events, size):
    """All that comes before the close; what is untimely is left out, refused or dropped."""
    history = History(redis_url, iter(events), size)

    history.send_the_rest()
    history.close()

    assert history.closed == expected_clicks(events)


@quickly
@given(
    events=st.lists(clicks | behaviours | conversions, max_size=30),
    steps=steps,
    size=st.integers(1, 8),
)
def test_deaths_and_retries_neither_lose_nor_double(redis_url, events, steps, size):
    history = History(redis_url, iter(events), size)
    for step in steps:
        history.perform(step)
    history.send_the_rest()
    history.perform("close")
    history.perform("hand over")

    assert {click.click_id for click in history.closed} == ids_of(events)
    assert history.counted == len(ids_of(events))
    assert history.handed_over == history.accepted_conversions


class History:
    """What one example did so far; what was written down twice is counted once."""

    def __init__(self, url: str, left: Iterator[Sent], size: int) -> None:
        self._url = url
        self._left = left
        self._size = size
        self._sent: list[list[Sent]] = []
        self._client = open_redis(url)
        self._client.flushall()
        self.accepted_conversions: set[tuple[str, float]] = set()
        self.handed_over: set[tuple[str, float]] = set()
        self._closed: dict[str, OpenClick] = {}

    @property
    def closed(self) -> list[OpenClick]:
        return [self._closed[click_id] for click_id in sorted(self._closed)]

    @property
    def counted(self) -> int:
        return OpenClicks(self._client).counts()["closed"]

    def perform(self, step: str) -> None:
        match step.split():
            case ["send"]:
                self._send_next()
            case ["send", "again"]:
                for number, sent in enumerate(self._sent):
                    assert append_by(self._url, RULES, of(*sent), str(number), "p").accepted == 0
            case ["die", moment, ("begin" | "finish") as stage]:
                self._die(f"{stage}_close", moment, self.close)
            case ["die", moment, "drop"]:
                self._die("drop_conversions", moment, self.hand_over)
            case ["close"]:
                self.close()
            case _:
                self.hand_over()

    def send_the_rest(self) -> None:
        while self._send_next():
            pass

    def close(self, client=None) -> None:
        open_clicks = OpenClicks(client or self._client)
        while due := open_clicks.begin_close(1e10, 3):
            for click in due:
                # A repeat hands out the same click, so it does not matter which copy is kept.
                assert self._closed.setdefault(click.click_id, click) == click
            open_clicks.finish_close(due)

    def hand_over(self, client=None) -> None:
        log = ConversionLog(client or self._client)
        for place in log.pending():
            mark, conversions = log.read(place)
            while mark.blocks:
                self.handed_over |= {(one.click_id, one.occurred_at) for one in conversions}
                log.drop(place, mark)
                mark, conversions = log.read(place)

    def _die(self, step: str, moment: str, work) -> None:
        client = InterruptedRedis(self._url, step, **{moment: die})
        with suppress(Died):  # with nothing to do it lives
            work(client)
        client.close()

    def _send_next(self) -> bool:
        sent = list(islice(self._left, self._size))
        answer = append_by(self._url, RULES, of(*sent), str(len(self._sent)), "p")
        assert answer.accepted + answer.duplicates + len(answer.refused) == len(sent)
        refused = {event.place for event in answer.refused}
        self.accepted_conversions |= {
            (event.click_id, event.occurred_at)
            for place, event in enumerate(sent)
            if isinstance(event, StoredConversion) and place not in refused
        }
        self._sent.append(sent)
        return bool(sent)


def ids_of(events: list[Sent]) -> set[str]:
    return {event.click_id for event in events if isinstance(event, OpenClick)}


def expected_clicks(events: list[Sent]) -> list[OpenClick]:
    """Every click once, with the behaviours inside its window, once each."""
    found = {event.click_id: event for event in events if isinstance(event, OpenClick)}
    done = {event[:3] for event in events if isinstance(event, tuple)}
    return [
        OpenClick(
            click.click_id,
            click.campaign,
            click.clicked_at,
            click.scores,
            click.features,
            sorted(
                (
                    (name, at, 1.0)
                    for click_id, name, at in done
                    if click_id == click.click_id and 0 <= at - click.clicked_at < SECONDS
                ),
                key=lambda behaviour: (behaviour[1], behaviour[0]),
            ),
        )
        for _, click in sorted(found.items())
    ]
