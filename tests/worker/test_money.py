"""Money in the report, and days of units: what the events say; nothing where they say nothing."""

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage import keys
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import TERMS, Terms
from app.storage.event_columns import EventColumns
from app.storage.integrity.damage import Damage
from app.storage.statistics.breakdowns import COLUMNS, DAYS_KEPT
from app.worker.monitoring import MoneyReport
from app.worker.refit import Request
from calibrators import Atlas, BinsTable
from calibrators.bins.codecs import from_fixed
from tests.worker.conftest import HOUR


def terms_of(log):
    """A bid that grows with the score, a cost of half of it, and 3 for each outcome."""
    bids = 1 + 10 * log.scores
    rows = zip(range(len(bids)), bids, log.outcomes, strict=True)
    return [Terms(0, row % 7, bid, bid / 2, 3 * outcome) for row, bid, outcome in rows]


def paid_batch(log, terms):
    batch = EventBatch()
    columns = (log.campaigns, log.rows.astype(np.intp), log.hours, log.scores, log.outcomes)
    batch.add_columns("click", EventColumns(*columns, terms=np.array(terms, TERMS)))
    return batch


def test_money_of_an_hour_and_of_the_window(refitter, refit_as_of, append, outcomes):
    log = outcomes(hours=6)
    append(paid_batch(log, terms_of(log)))

    first = refit_as_of(5)
    money = refit_as_of(6)["targets"]["click"]
    row, window = money["money"]["hour"], money["money"]["window"]

    chosen = log.hours == HOUR + 5
    bids, outcome = 1 + 10 * log.scores[chosen], log.outcomes[chosen]
    atlas = Atlas.from_bytes(refitter.versions.load(first["version"]).atlases["click"])
    p = atlas.look_up(atlas.rows(log.campaigns)[log.rows[chosen]], log.scores[chosen])
    assert row["cost"] == pytest.approx(bids.sum() / 2)
    assert (row["value"], row["outcomes"]) == pytest.approx((3 * outcome.sum(), outcome.sum()))
    assert row["impressions"] == 900
    assert row["rpm"] == pytest.approx(bids.sum() / 2 / 900 * 1000)
    assert row["roi"] == pytest.approx(3 * outcome.sum() / (bids.sum() / 2))
    assert row["ropr"] == pytest.approx((bids * outcome).sum() / (bids * p).sum(), rel=1e-3)
    expected = (bids * log.scores[chosen]).sum()
    assert row["ropr_raw"] == pytest.approx((bids * outcome).sum() / expected)
    # Hours of the window that no version had been published for served raw scores.
    assert window["impressions"] == 4 * 900
    assert [int(hour) for hour in money["money"]["hours"]] == [*range(HOUR + 2, HOUR + 6)]


def test_copc_in_money_weighs_campaigns_by_what_an_outcome_is_worth(refit_as_of, append, outcomes):
    """Dear outcomes are predicted twice too often, cheap ones right."""
    log = outcomes(hours=1)
    dear = log.rows == 0
    log.scores[:] = np.where(dear, 0.5, 0.25)
    log.outcomes[:] = np.arange(len(log.scores)) % 4 == 0
    worth = np.where(dear, 100.0, 1.0) * log.outcomes
    append(paid_batch(log, [Terms(value=value) for value in worth]))

    refit_as_of(0)
    row = refit_as_of(1)["targets"]["click"]
    hour = row["money"]["hour"]

    names = range(len(log.campaigns))
    came = np.array([log.outcomes[log.rows == each].sum() for each in names])
    values = np.array([worth[log.rows == each].sum() for each in names])
    each = (values + 10 * worth.sum() / came.sum()) / (came + 10)
    expected = worth.sum() / (each[log.rows] * log.scores).sum()
    assert hour["copc_value_raw"] == pytest.approx(expected)
    assert 0.4 < hour["copc_value_raw"] < 0.7
    assert hour["copc_value"] == pytest.approx(expected), "nothing was published before"


def test_hours_of_a_report_with_fewer_sums_are_left_out(refitter, refit_as_of, append, outcomes):
    log = outcomes(hours=3)
    append(paid_batch(log, terms_of(log)))
    before = refit_as_of(2)["targets"]["click"]
    old = {"hours": {hour: row[:7] for hour, row in before["money"]["hours"].items()}}
    report = MoneyReport(
        refitter.bins, refitter.cache, refitter.versions.history(), refitter.settings.window_hours
    )

    found = report.of("click", HOUR + 3, {**before, "money": old})

    assert [int(hour) for hour in found["money"]["hours"]] == [HOUR + 1, HOUR + 2]


def test_a_refit_between_hours_keeps_the_money(
    refitter, refit_as_of, lease, append, outcomes, clock
):
    log = outcomes(hours=2)
    append(paid_batch(log, terms_of(log)))
    before = refit_as_of(2)

    request = Request((HOUR + 2) * SECONDS + 900, between_hours=True)
    after = refitter.run(request, lease.token, clock)

    assert after["targets"]["click"]["money"] == before["targets"]["click"]["money"]


def test_without_terms_there_is_no_money_and_no_day(
    refit_as_of, append_log, outcomes, redis_client
):
    append_log(outcomes(hours=2))

    report = refit_as_of(2)

    assert "money" not in report["targets"]["click"]
    assert not redis_client.exists(keys.unit_days("click"))


@pytest.mark.slow
def test_each_hour_is_in_the_days_of_units_once(refitter, lease, append, outcomes, clock):
    log = outcomes(hours=3)
    terms = terms_of(log)
    append(paid_batch(log, terms))

    for hour in (HOUR + 2, HOUR + 3, HOUR + 3, HOUR + 4):
        refitter.run(Request(hour * SECONDS), lease.token, clock)

    days = refitter.bins.unit_days.read("click")
    assert list(days) == [HOUR // 24]
    found = from_fixed(days[HOUR // 24])
    columns = (np.ones(len(terms)), log.outcomes, [t.cost for t in terms], [t.value for t in terms])
    buckets = [one.bucket for one in terms]
    assert len(columns) == len(COLUMNS)
    for sums, column in zip(found, columns, strict=True):
        assert sums == pytest.approx(np.bincount(buckets, column, minlength=4096))


def hour_of(count):
    return BinsTable.from_columns(
        ["7"], np.zeros(1, int), np.zeros(1), np.array([count]), np.zeros(1)
    )


def test_a_damaged_day_is_set_aside_and_old_days_go(redis_client):
    days = BinsStore(redis_client, 3600).unit_days
    empty = BinsTable.empty()
    for hour in (HOUR, HOUR + 24, HOUR + 24 * DAYS_KEPT):
        days.add("click", hour, hour_of(2.0), empty)
        days.add("click", hour, hour_of(5.0), empty)
    first, last = sorted(days.read("click"))
    redis_client.hset(
        keys.unit_days("click"), str(last), redis_client.hget(keys.unit_days("click"), str(first))
    )

    assert (first, last) == (HOUR // 24 + 1, HOUR // 24 + DAYS_KEPT)
    assert {day: int(sums[0, 7]) for day, sums in days.read("click").items()} == {first: 2 * 10**9}
    assert days.until("click") == HOUR + 25
    assert Damage(redis_client).counts()["breakdown"] == 1
