"""Fields in binary columns: what is stored of them, and the errors of what is not whole."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from app.columns.events import EventAdmission, read_events
from app.events.admission import Admission
from app.events.rejections import OpenTimes
from app.settings import Settings
from app.strict_json import ValidationError
from tests.columns import bodies

NOW = 470_000 * 3600.0
SETTINGS = Settings(fields=("device", "placement"))
TIMES = OpenTimes.at(NOW, SETTINGS)


def event_body(kind: int, fields: Mapping[str, Sequence[str]]) -> bytes:
    """Five events, and the sections of these fields."""
    columns = [[0.5] * 5, [NOW - 60] * 5] + ([[1.0] * 5] if kind == bodies.OUTCOMES else [])
    sections = b"".join(bodies.numbers("d", column) for column in columns)
    sections += bodies.field_sections(fields)
    return bodies.body(kind, 5, sections, campaigns=["a"] * 5, flags=bodies.FIELDS)


def admitted(body: bytes, campaign: str = "a") -> Admission:
    request = read_events(body, 100)
    binary = EventAdmission(request, [campaign], np.zeros(5, np.intp), SETTINGS, TIMES)
    for _ in binary.admit_all():
        pass
    return binary.admission


@pytest.mark.parametrize("kind", [bodies.IMPRESSIONS, bodies.OUTCOMES])
@pytest.mark.parametrize(
    ("name", "counts"),
    [("a\x1ev2", True), ("a\x1e", False), ("a\x1ev2\x1ev3", False), ("\x1ev2", False)],
)
def test_what_follows_a_campaign_is_the_name_of_a_version(kind, name, counts):
    """Any other would be a version of every campaign."""
    assert bool(admitted(event_body(kind, {"device": ["ios"] * 5}), name).batch) is counts


def test_an_undeclared_field_that_says_nothing_is_not_stored():
    """Of any name, and however many: none of them fits into a block."""
    names = ["n" * 300, *map(str, range(300))]
    batch = admitted(event_body(bodies.IMPRESSIONS, {name: [""] * 5 for name in names})).batch

    assert len(batch) == 5
    assert not any(entry.block.fields for entry in batch.entries())


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (b"placement", b"p\xffacement", "must be UTF-8"),
        (b"\x03\0\0\0\x15\0\0\0", b"\x03\0\0\0\x16\0\0\0", "sum of its values' lengths"),
        (b"\x02\0\0\0" + bytes(4) + b"\x06\0\0\0device", b"\xff" * 8, "needs"),
    ],
)
def test_what_is_not_whole_is_refused(old, new, rule):
    fields = {"device": ["ios", "", "android12345678901", "ios", ""], "placement": ["t"] * 5}
    data = event_body(bodies.IMPRESSIONS, fields)
    assert old in data or rule == "needs"
    broken = data.replace(old, new) if old in data else data[:-8]

    with pytest.raises(ValidationError, match=rule):
        read_events(broken, 100)


def test_a_code_beyond_the_values_and_a_field_twice_are_refused():
    data = event_body(bodies.IMPRESSIONS, {"device": ["ios"] * 5})
    with pytest.raises(ValidationError, match=r"fields.device\[4\]"):
        read_events(data[:-8] + b"\x01" + data[-7:], 100)
    twice = bodies.field_sections({"device": ["ios"] * 5})[8:]
    two = data.replace(b"\x01\0\0\0" + bytes(4) + b"\x06\0\0\0", b"\x02" + bytes(7) + b"\x06\0\0\0")
    with pytest.raises(ValidationError, match=r"fields.device: stands there twice"):
        read_events(two + twice, 100)
