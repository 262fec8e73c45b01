"""Stored maps: exact round trips as JSON and as bytes; anything damaged is refused or sound."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import CalibrationMap
from tests.calibrators.damage import assert_refused_or_sound
from tests.calibrators.strategies import maps, scores_around

HEADER = struct.Struct("<4sHI")
WRITTEN = CalibrationMap([0.0, 5e-324, 0.1, 0.3, 1.0], [0.0, 0.01, 0.2, 0.9, 1.0])


def assert_sound(calibration_map: CalibrationMap) -> None:
    """Probabilities in [0, 1] around every knot, and the map can be written and read again."""
    knots = calibration_map.knots
    probabilities = calibration_map(scores_around(knots, np.array([0.01, 0.5])))
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert (knots[0], knots[-1]) == (0.0, 1.0)
    assert CalibrationMap.from_bytes(calibration_map.to_bytes()) == calibration_map


@given(maps())
def test_a_map_comes_back_to_the_last_bit(drawn):
    """As bytes, and as the knots and values of JSON text."""
    shown = json.loads(json.dumps(drawn.to_json()))

    for other in (
        CalibrationMap.from_bytes(drawn.to_bytes()),
        CalibrationMap(shown["knots"], shown["values"]),
    ):
        assert other.to_bytes() == drawn.to_bytes()
        assert other.slopes.tobytes() == drawn.slopes.tobytes()


def test_every_flipped_or_truncated_byte_is_refused_or_read_as_a_sound_map():
    data = WRITTEN.to_bytes()

    assert assert_refused_or_sound(CalibrationMap.from_bytes, data, assert_sound) > 150


@given(st.binary(min_size=64, max_size=64))
def test_random_bytes_behind_a_good_header(body):
    """Any bit pattern may stand for a float: quiet and signalling NaN, infinities, denormals."""
    try:
        calibration_map = CalibrationMap.from_bytes(HEADER.pack(b"SMAP", 1, 4) + body)
    except ValueError:
        return
    assert_sound(calibration_map)


@pytest.mark.parametrize("pattern", [0x7FF0000000000001, 0x7FF8000000000000, 0xFFF0000000000000])
def test_no_number_and_infinity_are_refused(pattern):
    floats = struct.pack("<3dQ", 0.0, 1.0, 0.0, pattern)

    with pytest.raises(ValueError, match=r"values\[1\]"):
        CalibrationMap.from_bytes(HEADER.pack(b"SMAP", 1, 2) + floats)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "not the bytes of a calibration map"),
        (HEADER.pack(b"SATL", 1, 2) + bytes(32), "not the bytes of a calibration map"),
        (HEADER.pack(b"SMAP", 2, 2) + bytes(32), "schema_version 2, this reads 1"),
        (HEADER.pack(b"SMAP", 1, 2**32 - 1) + bytes(32), "a map of 4294967295 knots"),
        (HEADER.pack(b"SMAP", 1, 0), "at least two"),
        (WRITTEN.to_bytes() + b"\x00", "a map of 5 knots has"),
    ],
)
def test_bad_bytes_are_refused_by_name(data, rule):
    with pytest.raises(ValueError, match=rule):
        CalibrationMap.from_bytes(data)


def test_the_stored_forms_are_pinned():
    """They may not change without a new schema_version."""
    halved = CalibrationMap.proportional(0.5)

    assert halved.to_json() == {"schema_version": 1, "knots": [0.0, 1.0], "values": [0.0, 0.5]}
    assert halved.to_bytes() == b"SMAP\x01\x00\x02\x00\x00\x00" + struct.pack("<4d", 0, 1, 0, 0.5)
