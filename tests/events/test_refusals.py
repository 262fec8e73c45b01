"""What the store refused, in words: field, value, rule."""

from datetime import UTC, datetime

import pytest

from app.events.rejections import rejection_of
from app.events.schema import Behaviour, Click, Conversion
from app.settings import Settings
from app.storage.clicks import Refusal, StoreRefusal

AT = 1_767_225_600.5
WHEN = repr(AT)
SHOWN = "2026-01-01T00:00:00+00:00"
SETTINGS = Settings(max_features=7, max_waiting=9, post_click_minutes=10)
CLICK = Click("1", "a", AT, AT, {}, {"age": 3.0, "os": "x"})
BEHAVIOUR = Behaviour("1", AT - 1, "page_views", 1.0)
CONVERSION = Conversion("1", datetime.fromtimestamp(AT - 1, UTC))
AFTERWARDS = Behaviour("1", AT + 600, "page_views", 1.0)
ID = 'click_id = "1": '
IN_EARLIER = "as it was in earlier clicks"
MOST = "the most there may be"
BEFORE = f"must not be before its click, which was at {SHOWN}"
LATE = "late, the post-click window of its click ended at 2026-01-01T00:10:00+00:00"
NO_SCORE = "the click has no score of a delayed target, so it gathers no behaviours"
LABELS = {"CLOSED": "late", "AFTERWARDS": "late", "FULL": "full"}
"""Of those that are not `invalid`."""


@pytest.mark.parametrize(
    ("event", "reason", "detail", "error"),
    [
        (CLICK, "REUSED", "", f"{ID}belongs to a click of another campaign"),
        (CLICK, "CHANGED_FEATURE", "age", f"features.age = 3.0: must be a string, {IN_EARLIER}"),
        (CLICK, "CHANGED_FEATURE", "os", f'features.os = "x": must be a number, {IN_EARLIER}'),
        (
            CLICK,
            "MANY_FEATURES",
            "os",
            f'features.os = "x": a new name, and 7 are known already, {MOST}',
        ),
        (
            BEHAVIOUR,
            "CLOSED",
            WHEN,
            f"{ID}late, the click is closed and gathers no more behaviours",
        ),
        (BEHAVIOUR, "EARLY", WHEN, f"occurred_at = {AT - 1}: {BEFORE}"),
        (CONVERSION, "EARLY", WHEN, f'occurred_at = "2025-12-31T23:59:59.500000+00:00": {BEFORE}'),
        (AFTERWARDS, "AFTERWARDS", WHEN, f"occurred_at = {AT + 600}: {LATE}"),
        (BEHAVIOUR, "FULL", "", f"{ID}full, behaviours wait for 9 unknown clicks already, {MOST}"),
        (BEHAVIOUR, "MANY_BEHAVIOURS", WHEN, f"{ID}the click has 256 behaviours already, {MOST}"),
        (BEHAVIOUR, "IMMEDIATE", "", f"{ID}{NO_SCORE}"),
    ],
)
def test_every_reason_is_told(event, reason, detail, error):
    rejection = rejection_of(event, StoreRefusal(5, Refusal[reason], detail), SETTINGS)

    label = LABELS.get(reason, "invalid")
    assert (rejection.index, rejection.reason, rejection.error) == (5, label, error)
    assert rejection.event_type in ("click", "behaviour", "conversion")


def test_no_reason_was_forgotten():
    """The cases above name all of them."""
    (cases,) = [mark.args[1] for mark in test_every_reason_is_told.pytestmark]

    assert {case[1] for case in cases} == {reason.name for reason in Refusal}
