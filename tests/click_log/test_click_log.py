"""What is written is read: whole, once, in order."""

import numpy as np
import pytest

from app.click_log.log import ClickLog
from tests.click_log.conftest import files
from tests.click_log.rows import (
    START,
    TARGET,
    click,
    clicks_in,
    contents,
    conversion,
    conversions_in,
    part_rows,
    read_all,
)


def ids(log: ClickLog, first: float, behind: float) -> list[str]:
    found: list[str] = clicks_in(log, TARGET, first, behind).click_ids.to_pylist()
    return found


def test_a_click_is_read_as_it_was_written(log):
    log.write_clicks([click("a", 5.5, features={"device": "web", "price": 2})])

    assert contents(read_all(log)) == [
        {
            "click_id": "a",
            "campaign": "shoes",
            "clicked_at": 5.5,
            "score": 0.25,
            "probability": 0.5,
            "feature.device": "web",
            "feature.price": 2.0,
            "behaviour.page_views": 3.0,
        }
    ]


def test_a_log_that_is_not_there_yet_is_empty(log):
    clicks, known = log.known(TARGET, START, START + 3600.0, START + 7200.0, 3600.0)

    assert (len(clicks), clicks.total, len(known)) == (0, 0, 0)
    assert clicks.clicks.campaigns == ()
    assert len(conversions_in(log, TARGET, START, START + 3600.0)) == 0
    assert (part_rows(log, "clicks"), log.damaged()) == ([], 0)
    assert (log.compact(START), log.expire(START), log.finalise({TARGET: 1.0}, START)) == (0, 0, 0)


def test_partitions_are_by_date_and_hour_in_utc(log, root):
    log.write_clicks([click("a", 0.0), click("b", 3600.0)])
    log.write_conversions([conversion("a", 16 * 3600.0)])

    assert [name.rpartition("/")[0] for name in files(root)] == [
        "clicks/date=2027-01-15/hour=08",
        "clicks/date=2027-01-15/hour=09",
        "conversions/date=2027-01-16/hour=00",
    ]


def test_the_same_rows_make_the_same_file(log, root):
    """In any order: content names a part, so a repeat replaces itself."""
    log.write_clicks([click("a", 1.0), click("b", 1.0)])
    log.write_conversions([conversion("a", 9.0), conversion("a", 3.0)])
    before = files(root)
    log.write_clicks([click("b", 1.0), click("a", 1.0)])
    log.write_conversions([conversion("a", 3.0), conversion("a", 9.0)])

    assert files(root) == before
    assert len(before) == 2


def test_a_click_closed_twice_counts_once(log):
    """Also in another batch, and with a probability of another atlas."""
    log.write_clicks([click("a", 1.0), click("b", 2.0)])
    log.write_clicks([click("b", 2.0, probabilities={TARGET: 0.75}), click("c", 3.0)])
    logged = read_all(log)

    assert [row["click_id"] for row in contents(logged)] == ["a", "b", "c"]
    assert logged.total == 3


@pytest.mark.parametrize("seconds", [30.0, 3630.0])
def test_of_two_campaigns_with_one_click_id_the_earlier_click_counts(log, seconds):
    log.write_clicks([click("a", seconds, campaign="hats")])
    log.write_clicks([click("a", 20.0), click("b", seconds)])
    logged = read_all(log)

    assert [(row["click_id"], row["campaign"]) for row in contents(logged)] == [
        ("a", "shoes"),
        ("b", "shoes"),
    ]
    assert logged.clicks.campaigns == ("shoes",)


def test_reading_order_is_by_time_then_id(log):
    log.write_clicks([click("b", 1.0), click("a", 1.0), click("z", 0.0)])
    log.write_clicks([click("ab", 1.0), click("y", 3600.0), click("x", 0.5)])

    assert ids(log, START, START + 7200.0) == ["z", "x", "a", "ab", "b", "y"]


def test_a_span_begins_at_its_first_second_and_ends_before_its_last(log):
    log.write_clicks([click(str(seconds), float(seconds)) for seconds in (0, 10, 20, 3700)])

    assert ids(log, START + 10.0, START + 20.0) == ["10"]
    assert ids(log, START + 10.5, START + 3700.5) == ["20", "3700"]
    assert ids(log, START + 5000.0, START + 9000.0) == []


def test_only_clicks_with_a_score_for_the_target_are_read(log):
    log.write_clicks([click("a"), click("b", scores={"install": 0.125})])
    log.write_clicks([click("c", 3600.0, scores={"install": 0.5, TARGET: 0.75})])

    assert [row["score"] for row in contents(read_all(log))] == [0.25, 0.75]
    installs = read_all(log, "install")
    assert [row["score"] for row in contents(installs)] == [0.125, 0.5]
    assert np.isnan(installs.probabilities).all()


def test_columns_may_come_and_go(log):
    """A value that a part has no column for is missing, and so is nan."""
    log.write_clicks([click("a", features={}, behaviours={"cart": float("nan"), "visits": 1.0})])
    log.write_clicks([click("b", 1.0, features={"os": "x"}, behaviours={})])
    log.write_clicks([click("c", 3600.0, features={"size": 2.0}, probabilities={})])
    logged = read_all(log)

    own = ("click_id", "campaign", "clicked_at", "score")
    assert [{k: v for k, v in row.items() if k not in own} for row in contents(logged)] == [
        {"probability": 0.5, "behaviour.visits": 1.0},
        {"probability": 0.5, "feature.os": "x"},
        {"feature.size": 2.0, "behaviour.page_views": 3.0},
    ]
    assert sorted(logged.clicks.features.columns) == [
        "behaviour.cart",
        "behaviour.page_views",
        "behaviour.visits",
        "feature.os",
        "feature.size",
    ]


def test_a_feature_that_changed_its_type_has_the_newer_one(log, caplog):
    log.write_clicks([click("a", features={"size": "big"})])
    log.write_clicks([click("b", 3600.0, features={"size": 2.0})])

    assert [row.get("feature.size") for row in contents(read_all(log))] == [None, 2.0]
    assert "feature.size has changed its type" in caplog.text


def test_within_one_batch_a_feature_has_the_type_of_its_first_value(log):
    log.write_clicks(
        [
            click("a", 0.0, features={}),
            click("b", 1.0, features={"size": "big"}),
            click("c", 2.0, features={"size": 2.0}),
        ]
    )

    assert [row.get("feature.size") for row in contents(read_all(log))] == [None, "big", None]


def test_campaigns_and_categories_are_sorted_and_in_use(log):
    log.write_clicks(
        [
            click("a", 0.0, campaign="z", features={"os": "q"}),
            click("b", 1.0, campaign="m", features={"os": "k"}),
        ]
    )
    log.write_clicks([click("c", 3600.0, campaign="b", features={"os": "a"})])
    logged = clicks_in(log, TARGET, START + 1.0, START + 7200.0)
    system = logged.clicks.features.columns["feature.os"]

    assert logged.clicks.campaigns == ("b", "m")
    assert logged.clicks.rows.tolist() == [1, 0]
    assert (system.categories, system.codes.tolist()) == (("a", "k"), [1, 0])  # type: ignore[union-attr]


def test_conversions_are_read_by_target_and_span_each_once(log):
    log.write_conversions([conversion("a", 5.0), conversion("a", 9.0), conversion("b", 5.0)])
    log.write_conversions([conversion("b", 5.0), conversion("c", 1.0), conversion("d", 3601.0)])
    log.write_conversions([conversion("a", 5.0, "install")])
    found = conversions_in(log, TARGET, START + 2.0, START + 3601.5)

    pairs = zip(found.click_ids.take(found.rows).to_pylist(), found.converted_at, strict=True)
    assert sorted((name, at - START) for name, at in pairs) == [
        ("a", 5.0),
        ("a", 9.0),
        ("b", 5.0),
        ("d", 3601.0),
    ]


def test_each_hour_has_parts_of_its_own(log):
    log.write_clicks([click("a"), click("b"), click("c", 3600.0)])
    log.write_conversions([conversion("a", 5.0)])

    assert (part_rows(log, "clicks"), part_rows(log, "conversions")) == ([2, 1], [1])


def test_files_that_are_no_parts_are_left_alone(log, root):
    log.write_clicks([click("a")])
    folder = next((root / "clicks").rglob("*.parquet")).parent
    for name in (".x.tmp", "notes.txt", "part-12-1.parquet"):
        (folder / name).write_bytes(b"x")
    (root / "clicks" / "part-00000000000000000000000000000000-1.parquet").write_bytes(b"x")

    assert len(read_all(log)) == 1
    assert log.damaged() == 0
