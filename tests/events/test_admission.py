"""What each event adds to which bins, by its own rules."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.events.admission import Admission
from app.events.reading import Parsed
from app.events.rejections import EventRejection, OpenTimes
from app.events.schema import Click, Impression, TargetOutcome, check_campaign
from app.settings import Settings
from app.storage.blocks import Terms
from app.strict_json import ValidationError, all_fit
from calibrators.arms import unit_number
from tests.storage.packing import terms_of, unpacked

HOUR = 470_000
NOW = HOUR * 3600.0
SCORES = {"click": 0.25, "conversion": 0.5}


def admission_of(**changes):
    settings = Settings(**changes)
    return Admission(settings, OpenTimes.at(NOW, settings))


def entries(admission):
    """(target, hour, campaign, score, count, positive, has ids) of all that counts in bins."""
    found = []
    for log, ids, packed, numbers in admission.batch.entries():
        block = unpacked(packed)
        columns = (block.rows, block.scores, block.counts, block.positives)
        for row, score, count, positive in zip(*columns, strict=True):
            campaign = block.campaigns[row]
            found.append(
                (log.target, log.hour, campaign, score, count, positive, bool(ids or numbers))
            )
    return found


@pytest.mark.parametrize(
    "event",
    [
        Impression("shoes", NOW, SCORES, unit="ann", arm="raw", bid=2.5, cost=0.5, value=3.0),
        Click("1", "shoes", NOW, NOW, SCORES, unit="ann", arm="raw", bid=2.5, cost=0.5, value=3.0),
        TargetOutcome(
            "shoes", "click", NOW, 0.5, 1.0, unit="ann", arm="raw", bid=2.5, cost=0.5, value=3.0
        ),
    ],
)
def test_whatever_counts_in_the_bins_may_say_who_saw_it_and_what_it_cost(event):
    admission = admission_of()

    admission.admit(event)

    (entry,) = admission.batch.entries()
    assert terms_of(unpacked(entry.block)) == [Terms(2, unit_number("ann") >> 52, 2.5, 0.5, 3.0)]


def test_an_outcome_counts_a_trial_and_what_came_of_it():
    admission = admission_of(targets=("click", "view"))

    admission.admit(TargetOutcome("shoes", "view", NOW, 0.75, 0.25))

    assert entries(admission) == [("view", HOUR, "shoes", 0.25, 1.0, 0.75, False)]


def test_all_events_are_admitted_or_refused_in_order():
    """Counted by type; what was refused before stays refused."""
    admission = admission_of()
    events = [
        Impression("shoes", NOW, SCORES),
        Impression("", NOW, SCORES),
        Click("1", "shoes", NOW, NOW - 1e7, SCORES),
        TargetOutcome("shoes", "click", NOW + 1e4, 1, 0.5),
    ]
    admission.rejections.add(EventRejection(2, "broken"))

    list(admission.admit_all(Parsed([4, 3, 1, 0], events)))

    assert [(r.index, r.event_type, r.reason) for r in admission.rejections.shown] == [
        (0, "outcome", "future"),
        (1, "click", "late"),
        (2, "unknown", "invalid"),
        (3, "impression", "invalid"),
    ]
    assert +Counter(admission.admitted) == {"impression": 1}
    assert len(entries(admission)) == 1


def test_a_campaign_that_broke_the_rule_breaks_it_again():
    """Names are judged once per request, but only good ones are remembered."""
    admission = admission_of()

    for _ in range(2):
        with pytest.raises(ValidationError, match="campaign"):
            admission.admit(Impression("", NOW, SCORES))


LONGEST = 12
NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=14), max_size=4)


def is_campaign(name):
    try:
        check_campaign("campaign", name, LONGEST)
    except ValidationError:
        return False
    return True


@given(names=NAMES)
def test_many_names_all_fit_if_each_is_one(names):
    assert all_fit(names, LONGEST) == all(map(is_campaign, names))


@pytest.mark.parametrize("name", ["a", "a" * 12, "é" * 6, "日" * 4, "😀" * 3])
def test_campaigns_are_measured_in_bytes(name):
    assert is_campaign(name)
    assert all_fit([name], LONGEST)


@pytest.mark.parametrize("name", ["", "a" * 13, "é" * 7, "日" * 5, "😀😀😀a"])
def test_campaigns_of_other_lengths_are_refused(name):
    with pytest.raises(ValidationError, match="must have 1 to 12 bytes of UTF-8"):
        check_campaign("campaign", name, LONGEST)
    assert not all_fit([name], LONGEST)


VERSIONED = [
    Impression("shoes", NOW, SCORES, id="1", model_version="v2"),
    Click("2", "shoes", NOW, NOW, SCORES, model_version="v2"),
    TargetOutcome("shoes", "click", NOW, 1.0, 0.25, model_version="v2"),
]


@pytest.mark.parametrize("event", VERSIONED)
def test_what_a_version_of_the_model_scored_is_counted_under_its_name(event):
    admission = admission_of()

    admission.admit(event)

    assert [entry[2] for entry in entries(admission)] == ["shoes\x1ev2"]


@pytest.mark.parametrize("event", VERSIONED)
def test_a_campaign_names_no_version(event):
    """Binary columns say both in one; of a version that cannot be every campaign would have one."""
    with pytest.raises(ValidationError, match=r"campaign = .*: must not have U\+001E"):
        admission_of().admit(replace(event, campaign="a\x1e"))


@pytest.mark.parametrize("version", ["", "a\x1eb", "ä" * 33])
@pytest.mark.parametrize("event", VERSIONED)
def test_a_version_that_cannot_be_is_no_event(event, version):
    admission = admission_of()

    with pytest.raises(ValidationError, match="model_version"):
        admission.admit(replace(event, model_version=version))

    assert not len(admission.batch)


@pytest.mark.parametrize("wrong", [None, "a\nb"])
def test_many_impressions_are_counted_by_version_as_one_by_one(wrong):
    some = [
        Impression(f"c{n % 3}", NOW, SCORES, id=str(n), model_version=[None, "v1", "v2"][n % 3])
        for n in range(99)
    ]
    some += [] if wrong is None else [Impression("c", NOW, SCORES, model_version=wrong)]
    at_once, each = admission_of(), admission_of()
    for _ in at_once.admit_all(Parsed([*range(len(some))], some)):
        pass
    for event in some[:99]:
        each.admit(event)

    assert sorted(entries(at_once)) == sorted(entries(each))
    assert len(at_once.rejections) == (wrong is not None)
