"""The parts about the guard run at a tiny size. No figure is judged."""

import math

from benchmarks.core import attacks, guard
from benchmarks.figures import Figure


def test_attacks_have_a_row_for_each_method_attack_and_way():
    rows = attacks.measure(
        attacks.Sizes(("sir",), ("all clicks",), (1,), after=2, impressions_per_hour=2_000)
    )

    assert list(rows) == [
        "sir, all clicks 1 h, guarded",
        "sir, all clicks 1 h, plain",
        "sir, scores times 5, guarded",
        "sir, scores times 5, plain",
    ]
    for row in rows.values():
        assert set(row) == {"campaign x", "campaign /", "target x", "target /", "hours off"}
        assert all(math.isfinite(cell) for cell in row.values() if not isinstance(cell, str))


def test_the_guard_has_rows_of_quiet_hours_errors_and_times():
    sizes = guard.Sizes(
        campaigns=3, hours=2, evaluated=20, clicks=(3, 30), timed=5, budget_seconds=0.001
    )

    rows = guard.measure(sizes)

    quiet = [row for row in rows.values() if "refused %" in row]
    errors = [row for row in rows.values() if "3 clicks" in row]
    assert len(quiet) == 6 * len(guard.METHODS)
    assert len(errors) == 2 * len(guard.FACTORS) + 1
    assert set(rows["5 campaigns"]) == {"passing CPU s", "mending CPU s"}
    assert all(isinstance(cell, Figure) for cell in rows["5 campaigns"].values())
