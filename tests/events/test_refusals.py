"""What the store refused, in words: field, value, rule."""

from datetime import UTC, datetime

import pytest

from app.events.rejections import rejection_of
from app.events.schema import Behaviour, Click, Conversion
from app.settings import Settings
from app.storage.clicks import Refusal, StoreRefusal

AT = 1_767_225_600.5
SHOWN = "2026-01-01T00:00:00+00:00"
SETTINGS = Settings(max_features=7, max_waiting=9, post_click_minutes=10)
CLICK = Click("1", "a", AT, AT, {}, {"age": 3.0, "os": "x"})
BEHAVIOUR = Behaviour("1", AT - 1, "page_views", 1.0)
CONVERSION = Conversion("1", datetime.fromtimestamp(AT - 1, UTC))
LATE = Behaviour("1", AT + 600, "page_views", 1.0)


@pytest.mark.parametrize(
    ("event", "reason", "detail", "label", "error"),
    [
        (
            CLICK,
            Refusal.REUSED,
            "",
            "invalid",
            'click_id = "1": belongs to a click of another campaign',
        ),
        (
            CLICK,
            Refusal.CHANGED_FEATURE,
            "age",
            "invalid",
            "features.age = 3.0: must be a string, as it was in earlier clicks",
        ),
        (
            CLICK,
            Refusal.CHANGED_FEATURE,
            "os",
            "invalid",
            'features.os = "x": must be a number, as it was in earlier clicks',
        ),
        (
            CLICK,
            Refusal.MANY_FEATURES,
            "os",
            "invalid",
            'features.os = "x": a new name, and 7 are known already, the most there may be',
        ),
        (
            BEHAVIOUR,
            Refusal.CLOSED,
            repr(AT),
            "late",
            'click_id = "1": late, the click is closed and gathers no more behaviours',
        ),
        (
            BEHAVIOUR,
            Refusal.EARLY,
            repr(AT),
            "invalid",
            f"occurred_at = {AT - 1}: must not be before its click, which was at {SHOWN}",
        ),
        (
            CONVERSION,
            Refusal.EARLY,
            repr(AT),
            "invalid",
            'occurred_at = "2025-12-31T23:59:59.500000+00:00": must not be before its click, '
            f"which was at {SHOWN}",
        ),
        (
            LATE,
            Refusal.AFTERWARDS,
            repr(AT),
            "late",
            f"occurred_at = {AT + 600}: late, the post-click window of its click ended at "
            "2026-01-01T00:10:00+00:00",
        ),
        (
            BEHAVIOUR,
            Refusal.FULL,
            "",
            "full",
            'click_id = "1": full, behaviours wait for 9 unknown clicks already, the most there '
            "may be",
        ),
        (
            BEHAVIOUR,
            Refusal.MANY_BEHAVIOURS,
            repr(AT),
            "invalid",
            'click_id = "1": the click has 256 behaviours already, the most there may be',
        ),
        (
            BEHAVIOUR,
            Refusal.IMMEDIATE,
            "",
            "invalid",
            'click_id = "1": the click has no score of a delayed target, so it gathers no '
            "behaviours",
        ),
    ],
)
def test_every_reason_is_told(event, reason, detail, label, error):
    rejection = rejection_of(event, StoreRefusal(5, reason, detail), SETTINGS)

    assert (rejection.index, rejection.reason, rejection.error) == (5, label, error)
    assert rejection.event_type in ("click", "behaviour", "conversion")


def test_no_reason_was_forgotten():
    """The cases above name all of them."""
    (cases,) = [mark.args[1] for mark in test_every_reason_is_told.pytestmark]

    assert {case[1] for case in cases} == set(Refusal)
