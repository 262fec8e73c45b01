import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pccem import Clicks, Features, PostClickModel, Training, TrainingRules, train
from pccem.clicks import canonical_order
from pccem.features import Categorical
from pccem.training import MatureDays, Trial, offset_of, refusal
from tests.pccem.sample_clicks import AS_OF, DAY, WINDOW, attributed, sample_clicks, sample_outcomes

RULES = TrainingRules(num_threads=1)
CLICKS = sample_clicks(6_000)
CONVERTED = sample_outcomes(CLICKS.features)


def train_on(
    clicks: Clicks = CLICKS,
    converted: np.ndarray = CONVERTED,
    rules: TrainingRules = RULES,
    in_force: PostClickModel | None = None,
    as_of: float = AS_OF,
) -> Training:
    attribution = attributed(clicks, converted, as_of)
    return train(clicks, attribution, as_of=as_of, rules=rules, in_force=in_force)


TRAINING = train_on()


def published(training: Training = TRAINING) -> PostClickModel:
    assert training.model is not None
    return training.model


def newest() -> np.ndarray:
    return CLICKS.clicked_at >= AS_OF - WINDOW - DAY


def test_the_newest_mature_day_is_held_out_and_scored():
    held_out = TRAINING.held_out

    assert sorted(held_out.tolist()) == np.flatnonzero(newest()).tolist()
    assert np.array_equal(
        TRAINING.scores, published().score(CLICKS.select(held_out).model_features())
    )
    assert TRAINING.in_force_scores is None


def test_the_report_is_what_the_clicks_and_the_scores_say():
    report, y = TRAINING.report, CONVERTED[TRAINING.held_out]
    p = TRAINING.scores

    assert (report["clicks"], report["conversions"]) == (6_000, CONVERTED.sum())
    assert (report["held_out_clicks"], report["held_out_conversions"]) == (len(y), y.sum())
    assert report["days"] == 14
    assert (report["first_click"], report["last_click"]) == (
        CLICKS.clicked_at.min(),
        CLICKS.clicked_at.max(),
    )
    assert report["pcoc"] == pytest.approx(p.sum() / y.sum())
    expected = -np.mean(np.where(y, np.log(p), np.log1p(-p)))
    assert report["log_loss"] == pytest.approx(expected)
    assert report["rounds"] == published().rounds
    assert next(iter(report["importances"])) == "behaviour.pages"
    assert set(report["importances"]) == set(CLICKS.model_features().columns)
    assert json.loads(json.dumps(report, allow_nan=False)) == report


@given(st.integers(0, 1_000))
@settings(max_examples=2)
def test_the_order_of_clicks_features_and_campaigns_means_nothing(seed):
    order = np.random.default_rng(seed).permutation(len(CLICKS))
    shuffled = CLICKS.select(order)
    swapped = replace(
        shuffled,
        campaigns=("unused", "south", "north"),
        rows=2 - shuffled.rows,
        features=Features(dict(reversed(shuffled.features.columns.items())), len(CLICKS)),
    )

    again = train_on(swapped, CONVERTED[order], replace(RULES, num_threads=2))

    assert published(again).to_bytes() == published().to_bytes()
    assert order[again.held_out].tolist() == TRAINING.held_out.tolist()
    assert again.report == TRAINING.report


def test_clicks_outside_the_mature_days_change_nothing():
    others = sample_clicks(900, seed=5)
    edges = [AS_OF - WINDOW, AS_OF, AS_OF + DAY, AS_OF - WINDOW - 14 * DAY - 1.0]
    outside = replace(others, clicked_at=np.resize(edges, 900))
    more = Clicks.concatenate([outside, CLICKS])

    again = train_on(more, np.concatenate([np.zeros(900, bool), CONVERTED]))

    assert published(again).to_bytes() == published().to_bytes()
    assert (again.held_out - 900).tolist() == TRAINING.held_out.tolist()


def test_a_click_on_the_first_edge_counts():
    moved = np.where(newest(), CLICKS.clicked_at, AS_OF - WINDOW - 14 * DAY)

    report = train_on(replace(CLICKS, clicked_at=moved)).report

    assert report["clicks"] == 6_000
    assert report["days"] == 2


def test_a_click_on_the_edge_of_the_newest_day_is_held_out():
    moved = np.where(newest(), AS_OF - WINDOW - DAY, CLICKS.clicked_at)

    training = train_on(replace(CLICKS, clicked_at=moved))

    assert sorted(training.held_out.tolist()) == np.flatnonzero(newest()).tolist()


def test_immature_clicks_teach_nothing():
    """The attribution may know less than the moment of training."""
    attribution = attributed(CLICKS, CONVERTED, AS_OF - 3 * DAY)

    training = train(CLICKS, attribution, as_of=AS_OF, rules=RULES)

    assert training.refused == ("0 clicks of the newest mature day: training needs at least 1")
    assert training.report["clicks"] == (CLICKS.clicked_at <= AS_OF - WINDOW - 3 * DAY).sum()


def test_what_the_post_click_window_decided_teaches_nothing():
    """As if these clicks were not there: the model is one of later conversions."""
    known = attributed(CLICKS, CONVERTED)
    soon = CONVERTED & (np.arange(len(CLICKS)) % 3 == 0)
    delay = np.where(soon, 60.0, np.where(CONVERTED, 3600.0, np.nan))
    known = replace(known, delay=delay)
    others = np.flatnonzero(~soon)

    rules = replace(RULES, post_click=3600.0)
    training = train(CLICKS, known, as_of=AS_OF, rules=rules)

    without = train_on(CLICKS.select(others), CONVERTED[others])
    assert published(training).to_bytes() == published(without).to_bytes()
    assert training.report == without.report
    assert np.array_equal(training.held_out, others[without.held_out])


def test_too_many_clicks_are_thinned_out_the_same_way_each_time():
    rules = replace(RULES, max_clicks=3_000)
    order = np.random.default_rng(1).permutation(len(CLICKS))

    training = train_on(rules=rules)

    assert training.report["clicks"] == 3_000
    assert training.report["days"] == 14
    again = train_on(CLICKS.select(order), CONVERTED[order], rules)
    assert published(again).to_bytes() == published(training).to_bytes()
    other = train_on(rules=replace(rules, seed=1))
    assert published(other).to_bytes() != published(training).to_bytes()


@pytest.mark.parametrize(
    ("clicks", "converted", "rules", "refused"),
    [
        (
            CLICKS,
            CONVERTED,
            {"min_clicks": 6_001},
            "6000 mature clicks: training needs at least 6001",
        ),
        (CLICKS, CONVERTED, {"min_conversions": 10**6}, "mature conversions: training needs"),
        (CLICKS.select(~newest()), CONVERTED[~newest()], {}, "0 clicks of the newest mature day"),
        (
            CLICKS.select(newest()),
            CONVERTED[newest()],
            {"min_clicks": 100, "min_conversions": 10},
            "0 clicks before the newest mature day",
        ),
        (CLICKS, CONVERTED & newest(), {"min_conversions": 10}, "0 conversions before the newest"),
        (CLICKS, CONVERTED | ~newest(), {}, "0 clicks without conversion before it"),
        (CLICKS.select(slice(0, 0)), CONVERTED[:0], {}, "0 mature clicks"),
    ],
)
def test_too_little_to_learn_from_is_said(clicks, converted, rules, refused):
    training = train_on(clicks, converted, replace(RULES, **rules), published())

    assert training.model is None
    assert refused in str(training.refused)
    assert training.report.keys() == TRAINING.report.keys()
    assert training.report["rounds"] is None
    assert len(training.scores) == 0
    assert training.in_force_scores is not None
    assert len(training.in_force_scores) == len(training.held_out)


def test_a_model_that_is_off_on_the_newest_day_is_corrected():
    """Half of the newest day's conversions are gone: its clicks are worth half as much."""
    kept = CONVERTED & (~newest() | (np.random.default_rng(0).random(6_000) < 0.5))

    report = train_on(converted=kept).report

    assert report["pcoc_before"] > 1.3
    assert report["offset"] < 0.0
    assert report["pcoc"] == pytest.approx(1.0, abs=1e-9)


def test_a_day_without_conversions_refuses_the_model():
    """Nothing can be corrected by no conversions; a feed that is cut off looks like that."""
    training = train_on(converted=CONVERTED & ~newest())

    assert training.model is None
    assert "where 0 were observed, too few to correct it by" in str(training.refused)
    assert training.report["pcoc"] is None
    assert len(training.scores) == len(training.held_out)


def test_a_model_like_the_one_in_force_is_published():
    training = train_on(in_force=published())

    assert training.refused is None
    assert training.report["in_force_log_loss"] == training.report["log_loss"]
    assert training.report["in_force_pcoc"] == training.report["pcoc"]
    assert np.array_equal(training.in_force_scores, training.scores)  # type: ignore[arg-type]


def test_a_model_worse_than_the_one_in_force_is_refused():
    rng = np.random.default_rng(3)
    noise = np.where(newest(), CONVERTED, rng.permutation(CONVERTED))

    training = train_on(converted=noise, in_force=published())

    assert training.model is None
    assert str(training.refused).startswith("its log loss on the newest mature day is 0.")
    assert training.report["log_loss"] > training.report["in_force_log_loss"]


def test_a_model_in_force_that_cannot_score_is_no_rival():
    fewer = replace(CLICKS, features=CLICKS.features.without({"behaviour.cart"}))

    training = train_on(fewer, in_force=published())

    assert training.refused is None
    assert training.in_force_scores is None
    assert training.report["in_force_log_loss"] is None
    assert "missing: behaviour.cart" in training.report["in_force_mismatch"]


def test_unequal_lengths_and_endless_times_are_refused():
    attribution = attributed(CLICKS, CONVERTED)

    with pytest.raises(ValueError, match="clicks has 5999, attribution has 6000"):
        train(CLICKS.select(slice(1, None)), attribution, as_of=AS_OF, rules=RULES)
    with pytest.raises(ValueError, match="as_of = nan: must be finite"):
        train(CLICKS, attribution, as_of=float("nan"), rules=RULES)


@pytest.mark.parametrize(
    ("field", "least"),
    [
        ("days", 2),
        ("min_clicks", 2),
        ("min_conversions", 1),
        ("max_clicks", 2),
        ("seed", 0),
        ("num_threads", 0),
    ],
)
def test_a_rule_below_its_least_value_is_refused(field, least):
    with pytest.raises(ValueError, match=f"{field} = {least - 1}: must be at least {least}"):
        TrainingRules(**{field: least - 1})
    assert getattr(TrainingRules(**{field: least}), field) == least


few = st.integers(0, 2)


@given(st.lists(st.tuples(few, few, few, few, few, few), max_size=25), st.randoms())
def test_canonical_order_sorts_rows_as_tuples(drawn, random):
    """Against Python's own sort, with missing values and categories in another order."""
    names = ("c", "a", "b")

    def ordered(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        table = np.array(rows, float).reshape(-1, 6)
        clicks = Clicks(
            table[:, 0],
            names,
            table[:, 1].astype(np.int32),
            table[:, 2] / 2,
            Features(
                {
                    "feature.b": Categorical(table[:, 4].astype(np.int32) - 1, names),
                    "feature.a": np.where(table[:, 3] == 2, np.nan, table[:, 3]),
                },
                len(table),
            ),
        )
        return [rows[place] for place in canonical_order(clicks, table[:, 5])]

    rank = [2, 0, 1]
    expected = sorted(
        drawn,
        key=lambda r: (r[0], rank[r[1]], r[2], r[3], -1 if r[4] == 0 else rank[r[4] - 1], r[5]),
    )
    shuffled = list(drawn)
    random.shuffle(shuffled)
    assert ordered(shuffled) == expected


def trial_of(p: float, conversions: int, clicks: int) -> Trial:
    outcomes = (np.arange(clicks) < conversions).astype(float)
    return Trial(np.full(clicks, np.log(p / (1 - p))), outcomes)


@pytest.mark.parametrize(
    ("p", "conversions", "clicks", "corrected"),
    [
        (0.5, 59, 100, False),  # 1.8 standard errors
        (0.5, 61, 100, True),  # 2.2
        (0.5, 39, 100, True),
        (0.5, 19, 60, False),  # 2.8, but too few conversions
        (0.5, 41, 60, False),  # too few without one
        (0.5, 20, 60, True),
    ],
)
def test_only_a_sure_deviation_is_corrected(p, conversions, clicks, corrected):
    trial = trial_of(p, conversions, clicks)

    offset = offset_of(trial)

    assert (offset != 0.0) == corrected
    if corrected:
        assert expit(trial.log_odds + offset).sum() == pytest.approx(conversions)


def test_the_lower_log_loss_wins_and_a_draw_is_published():
    good, bad = trial_of(0.5, 50, 100), trial_of(0.45, 50, 100)

    assert refusal(good, bad) is None
    assert refusal(good, good) is None
    assert "0.698172, that of the model in force 0.693147" in str(refusal(bad, good))
    assert refusal(bad, None) is None


def test_a_trial_without_clicks_says_nothing():
    nothing = trial_of(0.5, 0, 0)

    assert (nothing.pcoc, nothing.log_loss) == (None, None)
    assert refusal(nothing, nothing) is None


def test_sampled_days_keep_their_indices():
    days = MatureDays(CLICKS, attributed(CLICKS, CONVERTED), AS_OF, replace(RULES, max_clicks=100))

    assert np.array_equal(CLICKS.clicked_at[days.indices], days.clicks.clicked_at)
    assert np.array_equal(CONVERTED[days.indices], days.outcomes == 1.0)
    assert (np.diff(days.clicks.clicked_at) >= 0).all()
    assert len(set(days.indices.tolist())) == 100
