"""Models side by side: changes with intervals, offline metrics, and when nothing is concluded."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation import auc, log_loss, pcoc, rig
from evaluation.auction.comparison import compare_auctions, conclusion
from evaluation.auction.gsp import OperatingPoint, SlotLayout
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import SearchPlatform
from evaluation.auction.simulation import METRICS, RelativeChange, relative_change, simulate_auction


@pytest.fixture(scope="module")
def drawn():
    return SearchPlatform(queries=30, pages=4_000, seed=1).draw()


@pytest.fixture(scope="module")
def compared(drawn):
    return compare_auctions(drawn.log, drawn.models)


def unseen_candidates():
    """A log whose query has two ads, of which one is never shown; and a model that prefers it."""
    pages = np.repeat(np.arange(50), 2)
    log = SearchLog.of(
        pages=pages,
        queries=np.zeros(100, int),
        ads=np.tile([0, 1], 50),
        positions=np.tile([1, 0], 50),
        clicks=np.tile([1, 0], 50) * (pages < 20),
        bids=np.ones(100),
        layout=SlotLayout(1, 0),
    )
    return log, np.tile([0.4, 0.1], 50), np.tile([0.1, 0.4], 50)


def test_every_model_is_simulated_and_compared_with_the_first(drawn, compared):
    """At the point of the log, with the changes that `relative_change` finds."""
    before = simulate_auction(drawn.log, drawn.scores, point=drawn.point)

    for name, judged in compared.models.items():
        after = simulate_auction(drawn.log, drawn.models[name], point=drawn.point)
        assert judged.simulation.metrics == after.metrics
        assert judged.simulation.point == drawn.point
        changes = (
            {} if name == "baseline" else {m: relative_change(before, after, m) for m in METRICS}
        )
        assert judged.changes == changes

    assert compared.baseline is compared.models["baseline"]
    assert compared.baseline.conclusion is None
    assert compared.agreement == 1.0


def test_offline_metrics_judge_scores_times_the_click_curve_where_ads_were_shown(drawn, compared):
    """The very functions that a user would call on those rows."""
    log, factors = drawn.log, compared.simulator.history.curve.factors
    at = log.positions[log.shown]
    clicks = log.clicks[log.shown].astype(float)

    for name, judged in compared.models.items():
        p = np.minimum(drawn.models[name][log.shown] * factors[at - 1], 1.0)
        assert judged.offline == pytest.approx(
            {
                "n": len(p),
                "positives": clicks.sum(),
                "pcoc": pcoc(p, clicks),
                "log_loss": log_loss(p, clicks),
                "auc": auc(p, clicks),
                "mainline_auc": auc(p, clicks, where=at <= 4),
                "rig": rig(p, clicks),
            }
        )


def test_scores_follow_their_rows(drawn):
    """The same log in another order of rows is the same log."""
    order = np.random.default_rng(1).permutation(len(drawn.log))
    log = drawn.log
    shuffled = SearchLog.of(
        pages=log.pages[order],
        queries=log.queries[order],
        ads=log.ads[order],
        positions=log.positions[order],
        clicks=log.clicks[order],
        bids=log.bids[order],
    )
    models = {name: drawn.models[name] for name in ("baseline", "sharper_head")}

    expected = compare_auctions(log, models)
    found = compare_auctions(shuffled, {name: p[order] for name, p in models.items()})

    for name in models:
        assert found.models[name].offline == expected.models[name].offline
        assert found.models[name].changes == expected.models[name].changes


def test_a_wrong_model_in_force_is_noticed(drawn):
    """Its auctions do not repeat what was logged."""
    random = np.random.default_rng(1).random(len(drawn.log))

    assert compare_auctions(drawn.log, {"baseline": random}).agreement < 0.5


def test_progress_is_told_after_each_model(drawn):
    """As the share that is done."""
    told = []

    compare_auctions(drawn.log, {"a": drawn.scores, "b": drawn.truth}, progress=told.append)

    assert told == [0.5, 1.0]


def test_a_comparison_needs_a_model(drawn):
    """None at all is an error."""
    with pytest.raises(ValueError, match=r"scores = \{\}: give those of one model at least"):
        compare_auctions(drawn.log, {})


def test_bad_scores_are_named_by_their_model(drawn):
    """Model, row and value."""
    scores = drawn.scores.copy()
    scores[7] = 1.5

    with pytest.raises(ValueError, match=r"new\[7\] = 1.5: every value must be in \[0, 1\]"):
        compare_auctions(drawn.log, {"old": drawn.scores, "new": scores})


def test_a_model_against_itself_does_not_change(drawn):
    """And that for certain."""
    found = compare_auctions(drawn.log, {"a": drawn.scores, "b": drawn.scores}).models["b"]

    assert found.changes["click_yield"] == RelativeChange(0.0, 0.0, 0.0, 0.0)
    assert found.conclusion.sentence.startswith("No clear difference in clicks: per page +0.0%")


@pytest.mark.slow
def test_the_interval_is_as_wide_as_resampled_pages_vary():
    """Pages drawn with replacement, counted and simulated anew: the same standard error, within
    what 120 draws can tell. The curve is the naive one, which hardly varies."""
    drawn = SearchPlatform(queries=4, pages=1_500, seed=3).draw()
    log, width, rng = drawn.log, 14, np.random.default_rng(0)
    columns = {
        name: getattr(log, name).reshape(-1, width)
        for name in ("queries", "ads", "positions", "clicks", "bids")
    }
    models = [
        drawn.models[name].reshape(-1, width) for name in ("baseline", "less_noise", "sharper_head")
    ]

    def changes(pages):
        """Those of both models from the first."""
        resampled = SearchLog.of(
            pages=np.repeat(np.arange(len(pages)), width),
            **{name: column[pages].ravel() for name, column in columns.items()},
        )
        options = {"point": drawn.point, "curve": "naive", "shrinkage": 20.0}
        before, *after = (simulate_auction(resampled, p[pages].ravel(), **options) for p in models)
        return [relative_change(before, each, "click_yield") for each in after]

    values = [
        [change.value for change in changes(rng.integers(0, 1_500, 1_500))] for _ in range(120)
    ]

    for found, spread in zip(changes(np.arange(1_500)), np.std(values, 0, ddof=1), strict=True):
        assert found.standard_error == pytest.approx(spread, rel=0.25)
        assert found.upper - found.lower == pytest.approx(2 * 1.959964 * found.standard_error)


def test_the_confidence_widens_the_interval(drawn):
    """By the normal quantile."""
    before, after = (simulate_auction(drawn.log, p) for p in (drawn.scores, drawn.truth))

    narrow, wide = (
        relative_change(before, after, "click_yield", confidence=confidence)
        for confidence in (0.5, 0.99)
    )

    assert narrow.value == wide.value
    reach = wide.upper - wide.value
    assert reach / (narrow.upper - narrow.value) == pytest.approx(2.575829 / 0.67449, rel=1e-5)
    with pytest.raises(ValueError, match=r"confidence = 1.0: must be between 0 and 1"):
        relative_change(before, after, "click_yield", confidence=1.0)


def test_a_change_from_nothing_is_undefined():
    """No clicks before: nan, and no conclusion."""
    log, before, after = unseen_candidates()
    silent = replace(log, clicks=np.zeros(len(log), bool))

    judged = compare_auctions(silent, {"a": before, "b": after}, most_unseen=1.0).models["b"]

    assert np.isnan(judged.changes["click_yield"].value)
    assert not judged.changes["click_yield"].is_clear
    assert judged.conclusion.sentence == (
        "Do not conclude: the baseline has no clicks to compare with."
    )
    assert not judged.conclusion.conclusive


def test_one_page_has_no_interval():
    """Its value stands alone."""
    log = SearchLog.of(pages=[0], queries=[0], ads=[0], positions=[1], clicks=[1], bids=[1.0])

    model = compare_auctions(log, {"a": [0.5], "b": [0.4]}).models["b"]
    change = model.changes["click_yield"]

    assert model.conclusion.sentence == "Do not conclude: of one page there is no interval."
    assert change.value == 0.0
    assert np.isnan([change.standard_error, change.lower, change.upper]).all()


def test_nothing_is_concluded_from_ads_that_were_never_shown():
    """All slots of the candidate are guesses."""
    log, before, after = unseen_candidates()

    judged = compare_auctions(log, {"old": before, "new": after}).models["new"]

    assert judged.simulation.level_shares == (0.0, 0.0, 1.0)
    assert not judged.conclusion.conclusive
    assert judged.conclusion.sentence.startswith("Do not conclude: in 100% of the simulated slots")


@pytest.mark.parametrize(("most", "conclusive"), [(0.25, True), (0.2, True), (0.19, False)])
def test_the_share_of_guesses_that_is_too_much_is_a_setting(most, conclusive):
    """A fifth is still allowed by default."""
    log, before, after = unseen_candidates()
    mixed = np.where(log.pages < 10, after, before)

    judged = compare_auctions(log, {"old": before, "new": mixed}, most_unseen=most).models["new"]

    assert judged.simulation.level_shares[2] == 0.2
    assert judged.conclusion.conclusive is conclusive


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (RelativeChange(0.1, 0.01, 0.08, 0.12), "More clicks: per page +10.0% (+8.0% to +12.0%)"),
        (RelativeChange(-0.1, 0.01, -0.12, -0.08), "Fewer clicks: per page -10.0%"),
        (RelativeChange(0.1, 0.1, -0.1, 0.3), "No clear difference in clicks: per page +10.0%"),
    ],
)
def test_a_conclusion_says_what_is_clear(compared, change, words):
    """More, fewer, or no clear difference, with the interval; undefined changes are a dash."""
    simulation, undefined = compared.baseline.simulation, RelativeChange(*[float("nan")] * 4)
    changes = {
        "click_yield": change,
        "mainline_click_yield": change,
        "revenue_per_mille": undefined,
    }

    found = conclusion(simulation, simulation, changes)

    assert found.conclusive
    assert found.sentence.startswith(words)
    assert found.sentence.endswith("revenue -.")


def test_an_operating_point_may_be_given(drawn):
    """It is that of every model."""
    point = OperatingPoint(0.7, 0.01, 0.1)

    found = compare_auctions(drawn.log, {"a": drawn.scores, "b": drawn.truth}, point=point)

    assert {judged.simulation.point for judged in found.models.values()} == {point}
