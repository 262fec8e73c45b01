"""Which clicks, behaviours and conversions count, by their own rules; the limits of features."""

import msgspec
import pytest

from app.events.admission import Admission
from app.events.rejections import OpenTimes, Untimely
from app.events.schema import Behaviour, Click, Conversion, check_features
from app.settings import Settings
from app.storage.blocks import decode_conversions
from app.storage.clicks import ClickRules, Refusal, StoreRefusal
from app.strict_json import ValidationError
from calibrators.arms import bucket_of_number, unit_number
from tests.storage.packing import unpacked

HOUR = 470_000
NOW = HOUR * 3600.0
DAY = 86_400.0
BOTH = {"click": 0.25, "conversion": 0.5}


def admission_of(**changes):
    settings = Settings(**changes)
    return Admission(settings, OpenTimes.at(NOW, settings))


def packed(admission):
    """What the store is given of clicks and behaviours, and its conversions."""
    events = admission.batch.click_events
    given = msgspec.msgpack.decode(events.packed(ClickRules(), 1)) if len(events) else {}
    conversions = [
        one
        for log, _, block in events.conversion_entries()
        for one in decode_conversions(block, log.target, log.checksum)
    ]
    return given.get("clicks", []), given.get("behaviours", []), conversions


def counted(admission):
    return sum(len(unpacked(entry.block)) for entry in admission.batch.entries())


@pytest.mark.parametrize(
    ("scores", "opens", "counts"),
    [(BOTH, True, True), ({"conversion": 0.5}, True, False), ({"click": 0.25}, False, True)],
)
def test_a_click_counts_by_the_scores_it_has(scores, opens, counts):
    admission = admission_of()

    admission.admit(Click("1", "shoes", NOW, NOW - 7200, scores, {"age": 3.0}), 4)

    ((place, _, click_id, hour, mark, at, fields),) = packed(admission)[0]
    assert (place, click_id, hour, at) == (4, "1", HOUR, repr(NOW))
    assert mark == ("dshoes" if opens else "ishoes")
    assert bool(fields) == opens
    assert counted(admission) == counts


@pytest.mark.parametrize("scores", [BOTH, {"conversion": 0.5}])
def test_an_open_click_knows_the_bucket_of_its_unit(scores):
    """Whose its conversions are; the unit itself is not stored."""
    admission = admission_of()

    admission.admit(Click("1", "shoes", NOW, NOW, scores, unit="ann", arm="raw"))
    admission.admit(Click("2", "shoes", NOW, NOW, scores, arm="raw"))

    first, second = (
        dict(zip(fields[::2], fields[1::2], strict=True)) for *_, fields in packed(admission)[0]
    )
    assert first["t:bucket"] == str(bucket_of_number(unit_number("ann")))
    assert "t:bucket" not in second
    with pytest.raises(ValidationError, match="unit"):
        admission.admit(Click("3", "shoes", NOW, NOW, scores, unit="u" * 257))


def test_a_delayed_target_may_do_without_the_target_click():
    """Where `click` is no immediate target, clicks still gather behaviours."""
    admission = admission_of(targets=("view",), delayed_targets=("install", "conversion"))

    admission.admit(Click("1", "shoes", NOW, NOW, {"install": 0.5}))
    with pytest.raises(
        ValidationError, match=r"scores\.click: unknown target; known are view, inst"
    ):
        admission.admit(Click("2", "shoes", NOW, NOW, {"install": 0.5, "click": 0.5}))
    with pytest.raises(ValidationError, match="the target click is not immediate here"):
        admission.admit(Click("2", "shoes", NOW, NOW, {"view": 0.5}))

    assert len(packed(admission)[0]) == 1
    assert counted(admission) == 0


def test_a_target_click_that_is_itself_delayed_counts_in_no_bins():
    admission = admission_of(targets=("view",), delayed_targets=("click",))

    admission.admit(Click("1", "shoes", NOW, NOW, {"click": 0.5}))

    assert len(packed(admission)[0]) == 1
    assert counted(admission) == 0


def test_behaviours_and_conversions_name_their_click():
    admission = admission_of()

    admission.admit(Behaviour("1", NOW, "page_views", 3.0), 2)
    admission.admit(Conversion("1", NOW - DAY, None, 12.5), 3)

    _, ((place, _, click_id, hour, at, field, value),), (conversion,) = packed(admission)
    assert (place, click_id, hour, at) == (2, "1", HOUR, repr(NOW))
    assert value.endswith(":3.0")
    assert field == f"b:{NOW!r}:page_views"
    assert (conversion.target, conversion.occurred_at) == ("conversion", NOW - DAY)
    assert (conversion.click_id, conversion.value) == ("1", 12.5)


def test_a_conversion_is_of_the_first_delayed_target_unless_it_says():
    admission = admission_of(delayed_targets=("install", "purchase"))

    admission.admit(Conversion("1", NOW))
    admission.admit(Conversion("1", NOW, "purchase"))

    assert [one.target for one in packed(admission)[2]] == ["install", "purchase"]


@pytest.mark.parametrize(("target", "days"), [("install", 2), ("conversion", 7)])
def test_conversions_are_open_for_their_attribution_window_and_the_window(target, days):
    admission = admission_of(
        delayed_targets=("conversion", "install"), attribution_hours={"install": 48}
    )
    first = NOW - (days + 1) * DAY

    admission.admit(Conversion("1", first, target))
    with pytest.raises(Untimely, match="late, the window begins at") as refused:
        admission.admit(Conversion("1", first - 1, target))

    assert refused.value.reason == "late"
    assert len(packed(admission)[2]) == 1


@pytest.mark.parametrize(
    "event",
    [
        Click("1", "shoes", NOW - 2 * DAY, NOW, BOTH),
        Click("1", "shoes", NOW, NOW - 2 * DAY, BOTH),
        Click("1", "shoes", NOW + DAY, NOW, {"conversion": 0.5}),
        Behaviour("1", NOW - 2 * DAY, "page_views", 1.0),
        Behaviour("1", NOW + DAY, "page_views", 1.0),
        Conversion("1", NOW + DAY),
    ],
)
def test_untimely_events_leave_the_batch_alone(event):
    admission = admission_of()

    with pytest.raises(Untimely):
        admission.admit(event)

    assert len(admission.batch) == 0
    assert counted(admission) == 0


@pytest.mark.parametrize("event", [Behaviour("1", NOW, "page_views", 1.0), Conversion("1", NOW)])
def test_without_delayed_targets_there_is_nothing_to_wait_for(event):
    with pytest.raises(ValidationError, match="type: there is no delayed target here"):
        admission_of(delayed_targets=()).admit(event)


def test_what_the_store_refused_is_not_admitted_any_more():
    admission = admission_of()
    admission.admit(Behaviour("1", NOW, "page_views", 1.0), 2)
    admission.admitted["behaviour"] = 1

    admission.reject_refused([StoreRefusal(2, Refusal.CLOSED, "")])

    (rejection,) = admission.rejections.shown
    assert (rejection.index, rejection.event_type, rejection.reason) == (2, "behaviour", "late")
    assert admission.admitted["behaviour"] == 0


@pytest.mark.parametrize(
    "features",
    [{}, {"a": 1.0, "é" * 64: "x" * 256, "b": ""}, {f"f{number}": 0.0 for number in range(64)}],
)
def test_features_within_the_limits_pass(features):
    check_features(features)


@pytest.mark.parametrize(
    ("features", "error"),
    [
        ({"": 1.0}, 'features = "": the name of a feature must have 1 to 64 characters'),
        ({"x" * 65: 1.0}, f'features = "{"x" * 60}...: the name of a feature must have 1 to 64'),
        ({"a": 1.0, "b": "x" * 257}, f'features.b = "{"x" * 60}...: must have at most 256'),
        ({f"f{n}": 0.0 for n in range(65)}, "features = an object of 65: a click has at most 64"),
    ],
)
def test_features_beyond_them_are_refused(features, error):
    with pytest.raises(ValidationError) as refused:
        check_features(features)

    assert str(refused.value).startswith(error)
