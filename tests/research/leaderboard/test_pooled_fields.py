"""Effects of fields on short worlds whose truth is known: they help where fields matter, and are
exactly none where they do nothing."""

import pytest

from research.leaderboard.fields.scores import Run, world

pytestmark = pytest.mark.slow

BOTH = ("pooled", "pooled_fields")


def excesses(name: str, first: int, scored: int) -> tuple[float, float]:
    run = Run(world(name, 3), BOTH)
    for _ in run.hours(first, scored):
        pass
    first, second = (run.scores[who].summary()["excess"] for who in BOTH)
    return first, second


def test_fields_halve_the_excess_where_they_matter():
    without, with_fields = excesses("interacting", 8, 1)

    assert with_fields < 0.5 * without


def test_fields_that_do_nothing_cost_nothing():
    without, with_fields = excesses("none", 12, 1)

    assert with_fields <= 1.02 * without
