"""The report's numbers equal those of the samples that the bins hold."""

from typing import Any

import numpy as np
import pytest

from app.worker.monitoring import TopCampaigns, scorecard_of
from calibrators import Atlas, BinsTable, CalibrationMap
from evaluation import gc_n, pcoc


def table_of(rng: np.random.Generator, size: int) -> tuple[BinsTable, np.ndarray, np.ndarray]:
    scores = rng.beta(2, 20, size)
    outcomes = (rng.random(size) < scores).astype(float)
    rows = rng.choice(3, size, p=(0.6, 0.3, 0.1))
    table = BinsTable.from_columns(("a", "b", "c"), rows, scores, np.ones(size), outcomes)
    return table, scores, outcomes


def top_campaigns(raw: BinsTable, calibrated: BinsTable, count: int) -> list[dict[str, Any]]:
    top = TopCampaigns(count)
    top.add(raw)
    top.add_calibrated(calibrated)
    return top.entries


def test_quality_is_that_of_the_samples():
    table, scores, outcomes = table_of(np.random.default_rng(1), 20_000)

    row = scorecard_of([table])

    assert row["n"] == 20_000
    assert row["positives"] == outcomes.sum()
    assert row["pcoc"] == pytest.approx(pcoc(scores, outcomes), rel=1e-6)


def test_what_is_undefined_is_none_and_never_a_number():
    row = scorecard_of([BinsTable.empty()])

    assert row["n"] == 0
    undefined = {name for name, value in row.items() if value is None}
    assert undefined >= {"pcoc", "log_loss", "gc_3", "cal_5"}


def test_top_campaigns_are_those_with_most_samples():
    table, *_ = table_of(np.random.default_rng(2), 5_000)
    halved = Atlas.build({}, CalibrationMap.proportional(0.5)).calibrated(table)

    top = top_campaigns(table, halved, 2)

    assert [entry["campaign"] for entry in top] == ["a", "b"]
    for entry in top:
        assert entry["pcoc_calibrated"] == pytest.approx(entry["pcoc_raw"] / 2, rel=1e-6)


def test_a_campaign_without_positives_has_no_pcoc():
    table = BinsTable.from_columns(("a",), np.array([0]), np.array([0.5]), np.ones(1), np.zeros(1))

    assert top_campaigns(table, table, 5)[0]["pcoc_raw"] is None


def test_a_judgement_of_several_tables_is_that_of_their_sum():
    """Refits judge shard after shard."""
    table, *_ = table_of(np.random.default_rng(3), 20_000)
    parts = [table.select(["a"]), table.select(["b", "c"]), BinsTable.empty()]

    row, whole = scorecard_of(parts), scorecard_of([table])

    assert row.keys() == whole.keys()
    assert row["gc_3"] is not None
    for name, value in whole.items():
        # Floors are means over draws, of each table anew.
        assert row[name] == pytest.approx(value, rel=0.2 if "floor" in name else 1e-12)


def test_gc_n_is_the_mean_over_the_campaigns_of_all_tables():
    table, *_ = table_of(np.random.default_rng(4), 20_000)
    *columns, rows = table.samples()

    expected = gc_n(columns[0], columns[1], rows, 4, sample_weight=columns[2])

    assert scorecard_of(part for part in table.slices(1))["gc_4"] == pytest.approx(
        expected, rel=1e-12
    )


def test_leading_campaigns_of_several_tables_are_those_of_their_sum():
    """Equal numbers are in the order of names."""
    names = [f"{row:02}" for row in range(12)]
    rows = np.repeat(np.arange(12), [3, 5, 5, 1, 9, 5, 2, 9, 1, 1, 5, 4])
    ones = np.ones(len(rows))
    table = BinsTable.from_columns(names, rows, ones / 2, ones, ones / 2)
    parts = [table.select(names[1::2]), table.select(names[::2])]

    for count in (1, 4, 20):
        top = TopCampaigns(count)
        for part in parts:
            top.add(part)
        for part in table.slices(3):
            top.add_calibrated(part)
        assert top.entries == top_campaigns(table, table, count)
