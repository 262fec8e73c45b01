"""The page of `sirocco evaluate --report`."""

from types import SimpleNamespace

import numpy as np
import pytest

from app.reports.evaluation import evaluate_page
from app.reports.page import Chart, Page
from app.results.evaluation import EvaluatedLog, SliceTable, conclusions, off_by, overview, summary
from evaluation.streaming.log import OVERALL, Groupings, StreamedLog
from evaluation.streaming.log_metrics import group_ratios, log_metrics
from evaluation.streaming.rows import LogBatch, Sums

SIZE = 6_000


def log(
    *,
    bias: float = 1.0,
    campaigns: int = 5,
    hours: int = 3,
    bids: bool = True,
    rate: float = 0.2,
    size: int = SIZE,
) -> EvaluatedLog:
    """A log whose first campaign is promised `bias` times too much."""
    rng = np.random.default_rng(2)
    odds = rng.normal(np.log(rate / (1 - rate)), 0.8, size)
    truth = 1.0 / (1.0 + np.exp(-odds))
    own = rng.integers(0, campaigns, size).astype(np.int32)
    scores = np.minimum(np.where(own == 0, bias, 1.0) * truth, 1.0)
    outcomes = (rng.random(size) < truth).astype(float)
    by_hour = rng.integers(0, hours, size).astype(np.int32)
    cuts = ("campaign", "hour")
    compact = StreamedLog((OVERALL, *cuts), (OVERALL, *cuts))
    money = rng.random(size) if bids else None
    compact.add(
        LogBatch(scores, outcomes, money, {OVERALL: None, "campaign": own, "hour": by_hour})
    )
    sizes = {OVERALL: 1, "campaign": campaigns, "hour": hours}
    metrics = log_metrics(compact, Groupings(sizes, "campaign", "campaign"))
    names = [f"c{number}" for number in range(campaigns)]
    table = SliceTable.of(names, metrics.groupings["campaign"])
    return EvaluatedLog(
        name="log.parquet",
        metrics=metrics,
        campaigns=table,
        hours=SliceTable.of([f"h{number}" for number in range(hours)], metrics.groupings["hour"]),
        by={"device": table},
        campaign_numbers=names,
        epoch_hours=range(490_000, 490_000 + hours),
        group="campaign",
        notes=["Something to know."],
    )


def charts(page: Page) -> list[str]:
    return [part.title for each in page.sections for part in each.parts if isinstance(part, Chart)]


def test_a_page_has_charts_by_score_by_hour_and_by_value():
    page = evaluate_page(log())

    titles = [section.title for section in page.sections]
    assert titles == ["By score", "By hour", "By campaign", "By device", "All metrics"]
    assert charts(page)[2:] == [
        "Predicted over actual, hour by hour",
        "Predicted over actual, by campaign",
        "Ranking inside each campaign",
        "Predicted over actual, by device",
        "Ranking inside each device",
    ]
    assert page.warnings == ["Something to know."]


def test_cs_auc_stands_beside_auc_where_there_are_bids():
    for bids in (True, False):
        page = evaluate_page(log(bids=bids))
        ranking = next(
            part
            for section in page.sections
            for part in section.parts
            if isinstance(part, Chart) and part.title.startswith("Ranking")
        )
        assert ranking.table is not None
        assert ("csAUC" in ranking.table.columns) == bids
        assert ("csAUC" in [tile.label for tile in page.tiles]) == bids
        assert any("ROPR" in part.columns for part in page.sections[2].parts[2:]) == bids  # type: ignore[union-attr]


def test_one_campaign_and_one_hour_need_no_section():
    page = evaluate_page(log(campaigns=1, hours=1))

    assert [section.title for section in page.sections] == ["By score", "By device", "All metrics"]


def test_a_long_table_is_cut_and_says_so():
    page = evaluate_page(log(campaigns=250))

    table = page.sections[2].parts[-1]
    assert len(table.rows) == 200  # type: ignore[union-attr]
    assert table.note == "And 50 more; --json has all."  # type: ignore[union-attr]


def test_promises_that_come_true_are_said_to():
    right = log()

    said = conclusions(right)
    assert said[0].startswith("In total, predictions are right within chance: PCOC ")
    assert said[1].startswith("By score, fifths of the rows show no more error than chance: ")
    assert said[2].startswith("The scores take away ")
    assert all("as may be if all are right" in text for text in said[3:])
    assert evaluate_page(right).tiles[0].good


def test_of_a_handful_of_rows_it_is_said_that_they_are_too_few():
    few = log(size=30)

    tile = evaluate_page(few).tiles[0]
    assert conclusions(few)[0].startswith("In total, there is too little to tell whether pred")
    assert (tile.good, tile.note.partition("; ")[2]) == (None, "too little to tell")


def test_a_log_of_one_campaign_has_the_tile_that_its_table_has():
    tiles, lines = evaluate_page(log(campaigns=1)).tiles, overview(log(campaigns=1))[0].lines

    assert tiles[3].label == "Cal-3"
    assert lines[3].value.startswith(tiles[3].value)


def test_promises_that_do_not_come_true_are_said_not_to():
    wrong = log(bias=2.5)

    said = conclusions(wrong)
    assert said[0].startswith("In total, ")
    assert "too many positives are predicted: PCOC 1." in said[0]
    assert "chance explains" in said[1]
    assert said[3].startswith("1 of 5 campaigns is off by more than chance; c0 most: at least ")
    assert evaluate_page(wrong).tiles[0].good is False


@pytest.mark.parametrize(("slices", "rows", "rate"), [(500, 5, 0.02), (1_000, 100, 0.005)])
def test_many_small_slices_of_right_scores_are_said_to_be_right(slices, rows, rate):
    """All but once in ten logs: one in twenty for their number, and for the worst of them."""
    rng, said = np.random.default_rng(0), 0
    zeros = [np.zeros(slices)] * 6
    for _ in range(100):
        positives = rng.binomial(rows, rate, slices).astype(float)
        counts = (np.full(slices, float(rows)), positives, np.full(slices, rows * rate))
        columns = group_ratios(Sums(*counts, *zeros))
        table = SliceTable([f"c{number}" for number in range(slices)], columns, None)  # type: ignore[arg-type]
        said += table.more_than_chance
        assert table.off <= 2 * table.off_by_chance

    assert said <= 10


def test_one_of_a_thing_is_not_said_to_be_several():
    told = summary(SimpleNamespace(overall={"n": 1, "positives": 1}, campaigns=[0], hours=None))  # type: ignore[arg-type]

    assert told == "1 impression, 1 positive (100 %), 1 campaign"


def test_a_log_without_positives_is_said_to_have_none():
    none = log(rate=1e-9)

    assert conclusions(none)[0].startswith("No positive came, and ")
    assert conclusions(none)[1].startswith("0 of 5 campaigns")
    assert "0 positives (0 %)" in summary(none)
    assert evaluate_page(none).tiles[0].value == "∞"


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.86, "14 % too few"),
        (0.0003, "100 % too few"),
        (1.138, "14 % too many"),
        (1.998, "100 % too many"),
        (3.25, "3.25 times too many"),
        (12_345.6, "12,346 times too many"),
    ],
)
def test_a_ratio_in_words(ratio, words):
    assert off_by(ratio) == words


def test_scores_worse_than_the_mean_rate_are_said_to_be():
    """All campaigns are promised four times too much."""
    assert any("Giving every row the mean rate would cost less" in s for s in conclusions(log(
        bias=6.0, campaigns=1)))  # fmt: skip
