"""Conversions that count for no click are counted."""

from app.click_log.log import ClickLog, UnattributedConversions
from tests.click_log.rows import START, TARGET, click, conversion

WINDOW = 3600.0


def strays(log: ClickLog, reach: float = 86400.0) -> UnattributedConversions:
    """Of the third hour."""
    first = START + 2 * 3600.0
    return log.unattributed(TARGET, first, first + 3600.0, window=WINDOW, reach=reach)


def test_each_conversion_is_judged_by_its_click(log):
    log.write_clicks([click("old", 100.0), click("recent", 7000.0), click("after", 9000.0)])
    log.write_clicks([click("other", 7000.0, scores={"install": 0.5})])
    log.write_conversions(
        [
            conversion("recent", 7200.0),
            conversion("recent", 7300.0),
            conversion("old", 7300.0),
            conversion("after", 8000.0),
            conversion("other", 8000.0),
            conversion("nobody", 8000.0),
            conversion("nobody", 20000.0),
            conversion("nobody", 8000.0, "install"),
        ]
    )

    assert strays(log) == UnattributedConversions(conversions=6, orphans=2, early=1, late=1)


def test_clicks_beyond_the_reach_are_not_looked_for(log):
    log.write_clicks([click("old", 100.0)])
    log.write_conversions([conversion("old", 7300.0)])

    assert strays(log) == UnattributedConversions(conversions=1, orphans=0, early=0, late=1)
    assert strays(log, reach=3600.0) == UnattributedConversions(
        conversions=1, orphans=1, early=0, late=0
    )


def test_of_two_clicks_with_one_id_the_earlier_one_counts(log):
    log.write_clicks([click("a", 7000.0)])
    log.write_clicks([click("a", 7400.0, campaign="hats")])
    log.write_conversions([conversion("a", 7300.0)])

    assert strays(log) == UnattributedConversions(conversions=1, orphans=0, early=0, late=0)


def test_without_conversions_there_are_no_strays(log):
    assert strays(log) == UnattributedConversions(conversions=0, orphans=0, early=0, late=0)
