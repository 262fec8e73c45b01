"""Which predictions of a log differ beyond chance."""

import numpy as np
import pytest

from evaluation import Platform, paired_bootstrap, scorecard
from evaluation.bootstrap.paired import MOST_RANKED_DRAWS
from evaluation.comparison.significance import LOWER_IS_BETTER, significance


@pytest.fixture(scope="module")
def log():
    """A platform whose truth is known, and predictions of it."""
    hours = Platform(campaigns=5, impressions_per_hour=400, ctr=0.1, seed=3).hours(0, 72)
    events, truth = hours.events, hours.truth
    rng = np.random.default_rng(0)
    predictions = {
        "raw": events.scores,
        "truth": truth,
        "copy": truth.copy(),
        "noise": np.clip(truth * np.exp(rng.normal(0, 0.02, len(truth))), 0, 1),
    }
    cards = {name: scorecard(p, events.outcomes, events.rows) for name, p in predictions.items()}
    return events, predictions, cards


def found(log, pairs, **options):
    return significance(*log, pairs, **{"draws": 100, **options})


def test_the_truth_beats_wrong_scores(log):
    """By every metric, and never the other way round; a higher AUC is better, unlike losses."""
    result = found(log, [("truth", "raw"), ("raw", "truth")])

    for metric, sign in (("log_loss", -1), ("gc_3", -1), ("auc", 1)):
        assert result.differences["truth", "raw"][metric].sign == sign
        assert result.better(("truth", "raw"), metric) == 1
        assert result.better(("raw", "truth"), metric) == -1


def test_a_copy_is_not_better(log):
    """Zero in every draw."""
    difference = found(log, [("truth", "copy")]).differences["truth", "copy"]

    assert {(d.value, d.lower, d.upper) for d in difference.values()} == {(0.0, 0.0, 0.0)}


def test_values_are_those_of_the_scorecards(log):
    """The draws say how far they may be off."""
    result = found(log, [("noise", "truth")])

    for metric, difference in result.differences["noise", "truth"].items():
        assert difference.value == log[2]["noise"][metric] - log[2]["truth"][metric]
        assert difference.lower <= difference.value <= difference.upper
    assert list(result.differences["noise", "truth"]) == list(LOWER_IS_BETTER)


def test_it_is_the_paired_bootstrap_over_campaign_days(log):
    """The same draws, the same interval."""
    events, predictions, _ = log
    days = [f"{row} {hour // 24:08}" for row, hour in zip(events.rows, events.hours, strict=True)]

    result = found(log, [("truth", "raw")])

    expected = paired_bootstrap(
        predictions["truth"], predictions["raw"], events.outcomes, days, draws=100
    )
    ours = result.differences["truth", "raw"]["log_loss"]
    assert (ours.lower, ours.upper) == pytest.approx((expected.lower, expected.upper), rel=1e-9)
    assert (result.unit, result.blocks) == ("campaign-days", len(set(days)))


def test_what_takes_the_rows_is_drawn_less_often(log):
    """GC-3 and AUC get 300 draws at most."""
    result = found(log, [("truth", "raw")], draws=MOST_RANKED_DRAWS + 1)

    assert result.draws == {"log_loss": 301, "gc_3": 300, "auc": 300}


def test_a_seed_is_a_set_of_draws(log):
    """The same seed, the same numbers; another one, others."""
    first, again, other = (
        found(log, [("noise", "raw")], seed=seed).differences["noise", "raw"]["auc"].lower
        for seed in (1, 1, 2)
    )

    assert first == again != other
