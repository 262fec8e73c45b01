"""Atlases put together from two."""

from app.worker.fitting import filled
from calibrators import Atlas, CalibrationMap

HALF, THIRD, QUARTER = (CalibrationMap.proportional(ratio) for ratio in (1 / 2, 1 / 3, 1 / 4))
EARLIER = Atlas.build({"a": HALF}, HALF)


def test_what_the_earlier_atlas_has_stays():
    both = filled(EARLIER, Atlas.build({"a": THIRD, "b": THIRD}, QUARTER))

    assert (both.map_of("a"), both.map_of("b"), both.target_map) == (HALF, THIRD, HALF)


def test_nothing_is_built_where_nothing_is_missing():
    assert filled(EARLIER, Atlas.build({"a": THIRD}, QUARTER)) is EARLIER


def test_the_target_map_is_filled_in_too():
    both = filled(Atlas.build({"a": HALF}), Atlas.build({}, QUARTER))

    assert (both.map_of("a"), both.target_map) == (HALF, QUARTER)


def test_where_one_is_missing_it_is_the_other():
    assert filled(None, EARLIER) is EARLIER
    assert filled(EARLIER, None) is EARLIER
    assert filled(None, None) is None
