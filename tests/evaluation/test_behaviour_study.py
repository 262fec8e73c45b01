from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import auc, behaviour_study, log_loss, pcoc, quantile_rates
from evaluation.comparison.behaviour_study import stratified_folds
from pccem import Categorical, Features

LOGS = Path(__file__).parents[2].parent / "shared" / "data"


def visits(n=800, seed=1):
    """Time spent foretells the conversion, the device does so a little, the hour not at all."""
    rng = np.random.default_rng(seed)
    seconds, device = rng.exponential(100.0, n), rng.integers(0, 2, n)
    rate = np.where(seconds > 120.0, 0.5, 0.08) + 0.1 * device
    features = Features(
        {
            "behaviour.seconds": seconds,
            "feature.device": Categorical(device.astype(np.int32), ("app", "web")),
            "feature.hour": rng.integers(0, 24, n) * 1.0,
        },
        n,
    )
    return features, (rng.random(n) < rate) * 1.0


@pytest.fixture(scope="module")
def study():
    features, conversions = visits()
    return behaviour_study(features, conversions, ["behaviour.seconds"], num_threads=1)


def test_each_fold_is_scored_apart(study):
    _, conversions = visits()
    for name, p in study.probabilities.items():
        for metric, measure in (("auc", auc), ("log_loss", log_loss), ("pcoc", pcoc)):
            expected = [
                measure(p[study.folds == k], conversions[study.folds == k]) for k in range(5)
            ]
            np.testing.assert_array_equal(study.scores[name][metric], expected)


def test_the_gain_is_taken_fold_by_fold(study):
    rows = study.summary()
    gain = study.scores["all"]["auc"] - study.scores["pre_click"]["auc"]

    assert list(rows) == ["all", "pre_click", "gain"]
    assert rows["gain"]["auc"] == pytest.approx(gain.mean())
    assert rows["gain"]["auc_spread"] == pytest.approx(gain.std(ddof=1))
    assert gain.min() > 0.1


def test_no_sample_is_predicted_by_a_model_that_saw_it():
    """Outcomes drawn apart from the features cannot be foretold, but could be learnt by heart."""
    features, _ = visits(n=2_000)
    conversions = np.random.default_rng(9).integers(0, 2, 2_000)

    found = behaviour_study(features, conversions, ["behaviour.seconds"], num_threads=1)

    assert found.summary()["all"]["auc"] == pytest.approx(0.5, abs=0.05)


def test_the_seed_draws_the_folds(study):
    features, conversions = visits()
    again, other = (
        behaviour_study(features, conversions, ["behaviour.seconds"], seed=s, num_threads=1)
        for s in (0, 1)
    )

    np.testing.assert_array_equal(again.probabilities["all"], study.probabilities["all"])
    assert (other.folds != study.folds).any()


def test_without_features_from_before_the_click_there_is_one_model():
    features, conversions = visits()
    alone = features.without(["feature.device", "feature.hour"])

    found = behaviour_study(alone, conversions, [*alone.columns], folds=2, num_threads=1)

    assert list(found.summary()) == ["all"]


@pytest.mark.parametrize(
    ("behaviours", "conversions", "folds", "expected"),
    [
        (["behaviour.x"], [0, 1] * 20, 5, r"behaviours = \['behaviour.x'\]: must be names"),
        ([], [0, 1] * 20, 5, r"behaviours = \[\]: must be names"),
        (["behaviour.seconds"], [0, 1] * 19, 5, "features has 40, conversions has 38"),
        (["behaviour.seconds"], [0, 0.5] * 20, 5, r"conversions\[1\] = 0.5: must be 0 or 1"),
        (["behaviour.seconds"], [0, 1] * 20, 1, "folds = 1: must be at least 2"),
        (["behaviour.seconds"], [1] * 9 + [0] * 31, 5, "9 conversions, 5 folds need at least 10"),
        (["behaviour.seconds"], [0] * 9 + [1] * 31, 5, "9 samples without one, 5 folds need"),
    ],
)
def test_what_is_wrong_is_named(behaviours, conversions, folds, expected):
    features, _ = visits(n=40)

    with pytest.raises(ValueError, match=expected):
        behaviour_study(features, conversions, behaviours, folds=folds)


def test_figure_4_on_a_shop(shop):
    """Conversion rises with every quintile of time and pages; behaviour adds what visits' start
    does not tell."""
    features, conversions = shop

    for name in ("behaviour.session_seconds", "behaviour.page_views"):
        rates = quantile_rates(features.columns[name], conversions)
        assert len(rates.rates) == 5
        assert (np.diff(rates.rates) > 0).all()
        assert rates.lower[-1] > 4 * rates.rates[0]

    behaviours = [name for name in features.columns if name.startswith("behaviour.")]
    rows = behaviour_study(features, conversions, behaviours, num_threads=1).summary()
    assert rows["gain"]["auc"] > 3 * rows["gain"]["auc_spread"]
    assert rows["gain"]["log_loss"] < -3 * rows["gain"]["log_loss_spread"]
    assert rows["all"]["pcoc"] == pytest.approx(1.0, abs=0.05)


@pytest.fixture
def shop():
    path = LOGS / "online_shoppers.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is missing: put the real logs into ../shared/data")
    table = parquet.read_table(path)
    log = {name: table[name].to_numpy().astype(np.float64) for name in table.column_names}
    kinds = ("Administrative", "Informational", "ProductRelated")
    columns = {
        "behaviour.session_seconds": sum(log[f"{kind}_Duration"] for kind in kinds),
        "behaviour.page_views": sum(log[kind] for kind in kinds),
    }
    known = ("Month", "SpecialDay", "Browser", "Region", "TrafficType", "returning_ visitor")
    columns.update((f"feature.{name}", log[name]) for name in known)
    return Features(columns, len(table)), log["Revenue"]


OUTCOMES = st.lists(st.integers(0, 1), max_size=60).map(lambda y: np.array(y, np.float64))


@given(OUTCOMES, st.integers(1, 7), st.integers(0, 9))
def test_folds_hold_as_many_of_each_class_give_or_take_one(outcomes, n, seed):
    folds = stratified_folds(outcomes, n, seed)

    assert set(folds) <= set(range(n))
    for value in (0.0, 1.0):
        held = np.bincount(folds[outcomes == value], minlength=n)
        assert held.max() - held.min() <= 1
