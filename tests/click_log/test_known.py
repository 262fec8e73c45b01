"""The join of clicks and conversions, against a brute-force oracle."""

from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.click_log.log import ClickLog
from app.click_log.rows import ClosedClick
from app.storage.blocks import StoredConversion
from tests.click_log.rows import DAY, START, TARGET, WINDOW, click, conversion, known_delays

CLICKS = [click(f"click-{number}", 1500.0 * number) for number in range(8)]
SHORT = 7200.0
"""An attribution window that some conversions miss."""

one_conversion = st.builds(
    conversion,
    st.sampled_from([one.click_id for one in CLICKS] + ["nobody"]),
    st.integers(-2, 40).map(lambda steps: 900.0 * steps),
    st.sampled_from([TARGET, TARGET, "install"]),
)
step = st.sampled_from(["clicks", "conversions", "compact", "settle", "repeat"])


def oracle(
    clicks: list[ClosedClick], conversions: list[StoredConversion], as_of: float
) -> dict[str, float | None]:
    """Click id -> delay of the first conversion that counts, in plain loops."""
    delays: dict[str, float | None] = {}
    for one in sorted(clicks, key=lambda one: (one.clicked_at, one.click_id)):
        own = [c for c in conversions if c.click_id == one.click_id and c.target == TARGET]
        counts = [
            c.occurred_at - one.clicked_at
            for c in own
            if c.occurred_at <= as_of and 0.0 <= c.occurred_at - one.clicked_at < SHORT
        ]
        delays[one.click_id] = min(counts, default=None)
    return delays


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(st.lists(st.sampled_from(CLICKS), max_size=6), min_size=1, max_size=4),
    conversions=st.lists(st.lists(one_conversion, max_size=6), min_size=1, max_size=3),
    steps=st.lists(step, max_size=6),
    as_of=st.integers(0, 40).map(lambda steps: START + 900.0 * steps),
)
def test_any_history_of_the_log_gives_what_plain_loops_give(batches, conversions, steps, as_of):
    """Whatever was written in whatever batches, compacted and settled in between."""
    with TemporaryDirectory() as folder:
        log = ClickLog.open(folder)
        written = batches[:1]
        log.write_clicks(batches[0])
        for batch in conversions:
            log.write_conversions(batch)
        for done in steps:
            written += _take(log, done, batches, len(written), conversions)
        different = list({one.click_id: one for batch in written for one in batch}.values())
        heard = [one for batch in conversions for one in batch]

        assert known_delays(log, as_of=as_of, window=SHORT) == oracle(different, heard, as_of)


def _take(
    log: ClickLog,
    done: str,
    batches: list[list[ClosedClick]],
    written: int,
    conversions: list[list[StoredConversion]],
) -> list[list[ClosedClick]]:
    """One step of the history; returns the batches that it wrote."""
    match done:
        case "clicks":
            log.write_clicks(new := batches[written % len(batches)])
            return [new]
        case "conversions":
            log.write_conversions(conversions[0])
        case "compact":
            log.compact(START + DAY)
        case "settle":
            log.finalise({TARGET: SHORT, "install": WINDOW}, START + DAY)
        case "repeat":
            log.write_clicks(batches[0])
    return []


def test_what_becomes_of_each_conversion_is_counted(log):
    log.write_clicks([click("a", 100.0), click("b", 200.0)])
    log.write_conversions(
        [conversion("a", 150.0), conversion("a", 160.0), conversion("a", 100.0 + 3600.0)]
    )
    log.write_conversions([conversion("b", 150.0), conversion("nobody", 5.0)])
    clicks, known = log.known(TARGET, START, START + 3600.0, START + DAY, 3600.0)

    assert clicks.click_ids.to_pylist() == ["a", "b"]
    assert known.converted.tolist() == [True, False]
    assert known.delay[0] == 50.0
    assert (known.repeats, known.late, known.early, known.orphans) == (1, 1, 1, 0)
    assert known.mature.all()
    np.testing.assert_array_equal(known.age, [DAY - 100.0, DAY - 200.0])


def test_the_future_is_not_known(log):
    """A conversion counts from the very second it happens."""
    log.write_clicks([click("a", 100.0)])
    log.write_conversions([conversion("a", 250.0)])

    assert known_delays(log, as_of=START + 249.0) == {"a": None}
    assert known_delays(log, as_of=START + 250.0) == {"a": 150.0}


def test_a_conversion_that_is_heard_of_after_settling_counts(log):
    """And one of the two readings of the same conversion is no repeat."""
    log.write_clicks([click("a", 100.0), click("b", 100.0)])
    log.write_conversions([conversion("a", 400.25)])
    log.finalise({TARGET: WINDOW}, START + 30 * DAY)
    log.write_conversions([conversion("b", 300.0), conversion("a", 200.0)])
    clicks, known = log.known(TARGET, START, START + 3600.0, START + 30 * DAY, WINDOW)

    assert len(clicks.final) == 1
    assert known.delay.tolist() == [100.0, 200.0]
    assert known.repeats == 1


def test_settled_rows_know_their_conversions_without_the_others(log, root):
    log.write_clicks([click("a", 100.0), click("b", 100.0)])
    log.write_conversions([conversion("a", 400.25), conversion("a", 300.0)])
    log.finalise({TARGET: WINDOW}, START + 30 * DAY)
    for part in (root / "conversions").rglob("*.parquet"):
        part.unlink()

    assert known_delays(log) == {"a": 200.0, "b": None}


@pytest.mark.parametrize("clicks", [0, 1])
def test_without_conversions_nobody_has_converted(log, clicks):
    log.write_clicks([click("a")][:clicks])
    log.write_conversions([conversion("nobody", 5.0)])

    assert known_delays(log) == dict.fromkeys(["a"][:clicks])
