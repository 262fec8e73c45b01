"""Cells: bins by campaign, coarse log-odds and hour, as a literal loop sums them."""

from collections import defaultdict

import numpy as np
import pytest

from calibrators import BinsTable
from calibrators.pooled.cells import FARTHEST, Cells, log_odds
from tests.calibrators.pooled.pooled_traffic import table

RNG = np.random.default_rng(3)


def random_table(names: list[str], size: int) -> BinsTable:
    scores = RNG.choice([0.0, 1.0, 0.3, 1e-9], size) * RNG.random(size)
    counts = RNG.choice([0.0, 1.0, 2.5], size)
    return table(names, RNG.integers(0, len(names), size), scores, counts, RNG.random(size) * 3)


def test_cells_hold_the_sums_of_the_window():
    """Weighted sums by campaign equal those of a loop over the tables' own samples."""
    tables = {
        5: random_table(["b", "a"], 80),
        6: random_table(["c", "a"], 50),
        9: BinsTable.empty(),
    }
    cells = Cells.of(tables, 4, 3)
    weights = RNG.random((len(cells), 3))

    counts, positives = cells.hours.weighted(weights)

    told: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for hour in (5, 6):
        scores, outcomes, samples, rows = tables[hour].samples()
        for outcome, count, row in zip(outcomes, samples, rows, strict=True):
            name = tables[hour].campaigns[row]
            weight = weights[cells.campaigns.index(name), hour - 4]
            told[name][0] += weight * count
            told[name][1] += weight * count * outcome
        assert len(scores)
    for row, name in enumerate(cells.campaigns):
        assert counts[cells.hours.rows == row].sum() == pytest.approx(told[name][0])
        assert positives[cells.hours.rows == row].sum() == pytest.approx(told[name][1])


def test_a_cell_is_at_the_mean_score_of_its_samples():
    """Two close scores share a cell; its log-odds are those of their weighted mean."""
    cells = Cells.of({0: table(["a"], [0, 0], [0.1, 0.1001], [3, 1], [0, 0])}, 0, 1)

    assert cells.scores.tolist() == pytest.approx([0.100025])
    assert cells.log_odds.tolist() == pytest.approx([np.log(0.100025 / 0.899975)])


def test_hours_outside_the_window_count_nothing():
    """Neither before its first hour nor behind its last."""
    made = table(["a"], [0], [0.1], [1], [1])

    assert len(Cells.of({3: made, 6: made}, 4, 2)) == 0


def test_positives_by_hour_are_those_expected_and_observed():
    """Expected: counts times the cell's probability; observed: at most the counts."""
    tables = {0: table(["a", "b"], [0, 1], [0.1, 0.2], [10, 5], [2, 9]), 1: BinsTable.empty()}
    cells = Cells.of(tables, 0, 2)

    counts, expected, observed = cells.hours.outcomes(np.array([0.3, 0.4]))

    assert counts.tolist() == [[10.0, 0.0], [5.0, 0.0]]
    assert expected.tolist() == [[3.0, 0.0], [2.0, 0.0]]
    assert observed.tolist() == [[2.0, 0.0], [5.0, 0.0]]


def test_log_odds_of_the_outermost_scores_are_finite():
    """0 and 1 count as the farthest scores."""
    assert log_odds(np.array([0.0, 0.5, 1.0])).tolist() == [-FARTHEST, 0.0, FARTHEST]
