import struct

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pccem import Categorical, FeatureMismatch, Features, PostClickModel
from pccem.features import ModelColumns
from tests.pccem.sample_clicks import sample_features, sample_outcomes

FEATURES = sample_features(3_000)
OUTCOMES = sample_outcomes(FEATURES)
MODEL = PostClickModel.fit(FEATURES, OUTCOMES, rounds=10, num_threads=1)
BYTES = MODEL.to_bytes()
HEADER_AT = 8


def reordered(features: Features, seed: int = 0) -> Features:
    """The same rows: columns in another order, categories too, with some that no row uses."""
    columns = dict(reversed(features.columns.items()))
    device = columns["feature.device"]
    assert isinstance(device, Categorical)
    names = ("fridge", *np.random.default_rng(seed).permutation(device.categories).tolist())
    columns["feature.device"] = Categorical(device.codes_among(names), names)
    return Features(columns, len(features))


def test_scores_are_those_of_lightgbm_on_the_same_numbers():
    _, length = struct.unpack_from("<4sI", BYTES)
    booster = lightgbm.Booster(model_str=BYTES[HEADER_AT + length : -32].decode())
    device = FEATURES.columns["feature.device"]
    assert isinstance(device, Categorical)
    code = {"desk": 0.0, "phone": 1.0, "tablet": 2.0, None: np.nan}
    matrix = np.column_stack(
        [
            FEATURES.columns["behaviour.cart"],
            FEATURES.columns["behaviour.pages"],
            FEATURES.columns["feature.age"],
            [code[value] for value in device.values()],
        ]
    )

    assert np.array_equal(MODEL.score(FEATURES), expit(booster.predict(matrix, raw_score=True)))


def test_the_model_has_learned_what_drives_conversions():
    fresh = sample_features(20_000, seed=7)
    scores, outcomes = MODEL.score(fresh), sample_outcomes(fresh, seed=7)
    order = np.argsort(scores)

    assert outcomes[order[-5_000:]].mean() > 3 * outcomes[order[:5_000]].mean()
    assert scores.mean() == pytest.approx(outcomes.mean(), rel=0.1)
    assert next(iter(MODEL.importances())) == "behaviour.pages"
    assert sum(MODEL.importances().values()) == pytest.approx(1.0)


@given(st.integers(0, 100))
@settings(max_examples=5)
def test_features_go_by_name(seed):
    again = reordered(FEATURES, seed)

    assert np.array_equal(MODEL.score(again), MODEL.score(FEATURES))
    model = PostClickModel.fit(again, OUTCOMES, rounds=10, num_threads=1)
    assert model.to_bytes() == BYTES


@pytest.mark.slow
def test_the_number_of_threads_does_not_change_the_bytes():
    model = PostClickModel.fit(FEATURES, OUTCOMES, rounds=10, num_threads=2)

    assert model.to_bytes() == BYTES
    assert np.array_equal(model.score(FEATURES, 2), MODEL.score(FEATURES, 1))


def test_the_sign_of_zero_does_not_change_the_bytes():
    pages = FEATURES.columns["behaviour.pages"]
    assert not isinstance(pages, Categorical)
    signed = Features({**FEATURES.columns, "behaviour.pages": np.where(pages, pages, -0.0)}, 3_000)

    model = PostClickModel.fit(signed, OUTCOMES, rounds=10, num_threads=1)

    assert model.to_bytes() == BYTES


def test_an_unknown_category_counts_as_missing():
    strange = Features(
        {**FEATURES.columns, "feature.device": Categorical.of(["fridge"] * 3_000)}, 3_000
    )
    missing = Features(
        {**FEATURES.columns, "feature.device": Categorical.of([None] * 3_000)}, 3_000
    )

    assert np.array_equal(MODEL.score(strange), MODEL.score(missing))


def test_only_the_most_frequent_categories_are_known():
    names = [f"{number:03}" for number in range(300) for _ in range(1 + (number >= 100))]
    features = Features({"c": Categorical.of(names)}, len(names))

    column = ModelColumns.of(features).columns[0]

    frequent = [f"{number:03}" for number in range(100, 300)]
    assert column.categories == tuple(sorted([*frequent, *(f"{n:03}" for n in range(55))]))


def test_rows_held_out_stop_the_boosting_and_teach_nothing_else():
    held_out = np.arange(3_000) % 3 == 0
    noise = np.where(held_out, np.random.default_rng(0).random(3_000) < 0.5, OUTCOMES)

    stopped = PostClickModel.fit(FEATURES, OUTCOMES, held_out=held_out, num_threads=1)
    misled = PostClickModel.fit(FEATURES, noise, held_out=held_out, num_threads=1)

    assert misled.rounds < stopped.rounds <= 100
    alone = PostClickModel.fit(
        FEATURES.select(~held_out), OUTCOMES[~held_out], rounds=stopped.rounds, num_threads=1
    )
    assert alone.to_bytes() == stopped.to_bytes()


@given(st.floats(-30, 30))
@settings(max_examples=10)
def test_the_offset_moves_log_odds(offset):
    moved = MODEL.with_offset(offset)

    assert np.array_equal(moved.log_odds(FEATURES), MODEL.log_odds(FEATURES) + offset)
    assert (moved.offset, MODEL.offset) == (offset, 0.0)
    moved.check_probes()


@pytest.mark.parametrize("offset", [np.nan, np.inf])
def test_an_offset_is_finite(offset):
    with pytest.raises(ValueError, match=r"offset = .*: must be finite"):
        MODEL.with_offset(offset)


def test_scores_lie_in_the_unit_interval_however_far_the_offset():
    for offset in (-1e4, 1e4):
        scores = MODEL.with_offset(offset).score(FEATURES)
        assert ((scores >= 0.0) & (scores <= 1.0)).all()
    assert len(MODEL.score(FEATURES.select(slice(0, 0)))) == 0


def test_pieces_are_put_together_in_order(monkeypatch):
    expected = MODEL.score(FEATURES)
    monkeypatch.setattr("pccem.model._PIECE", 700)

    assert np.array_equal(MODEL.score(FEATURES), expected)


def test_a_mismatch_names_every_difference():
    columns = dict(FEATURES.columns)
    columns["feature.age"] = Categorical.of(["old"] * 3_000)
    columns["feature.new"] = columns.pop("behaviour.cart")

    with pytest.raises(FeatureMismatch) as refused:
        MODEL.score(Features(columns, 3_000))

    assert str(refused.value) == (
        "features differ from those the model was trained on: missing: behaviour.cart; "
        "unexpected: feature.new; changed: feature.age (was numeric, is categorical)"
    )
    assert (refused.value.missing, refused.value.unexpected) == (
        ["behaviour.cart"],
        ["feature.new"],
    )


@pytest.mark.parametrize(
    ("features", "outcomes", "held_out", "message"),
    [
        (Features({}, 2), [0, 1], None, "at least one column"),
        (FEATURES, [0, 1], None, "features has 3000, outcomes has 2"),
        (FEATURES, np.full(3_000, 0.5), None, r"outcomes\[0\] = 0.5: every outcome must be 0 or 1"),
        (FEATURES, np.full(3_000, 2), None, r"outcomes\[0\] = 2.0: every value must be in"),
        (FEATURES, np.zeros(3_000), None, "0 conversions in 3000 clicks to learn from"),
        (FEATURES, OUTCOMES, OUTCOMES, "0 conversions in"),
        (FEATURES, OUTCOMES, np.ones(3_000, bool), "0 conversions in 0 clicks"),
        (FEATURES, OUTCOMES, np.zeros(2, bool), "held_out has 2"),
        (FEATURES, OUTCOMES, np.zeros(3_000), "held_out must be booleans, not float64"),
        (FEATURES, OUTCOMES, np.zeros((3_000, 1), bool), "held_out must have one dimension"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(features, outcomes, held_out, message):
    with pytest.raises(ValueError, match=message):
        PostClickModel.fit(features, outcomes, held_out=held_out)


def test_bytes_bring_the_same_model_back():
    moved = MODEL.with_offset(0.25)
    again = PostClickModel.from_bytes(moved.to_bytes())

    assert again.to_bytes() == moved.to_bytes()
    assert np.array_equal(again.score(FEATURES), moved.score(FEATURES))
    assert again.feature_kinds == {
        "behaviour.cart": "numeric",
        "behaviour.pages": "numeric",
        "feature.age": "numeric",
        "feature.device": "categorical",
    }
    assert (again.rounds, again.offset) == (10, 0.25)
    again.check_probes()
