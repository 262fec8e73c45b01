import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluation.comparison.behaviour_study import stratified_folds

OUTCOMES = st.lists(st.integers(0, 1), max_size=60).map(lambda y: np.array(y, np.float64))


@given(OUTCOMES, st.integers(1, 7), st.integers(0, 9))
def test_folds_hold_as_many_of_each_class_give_or_take_one(outcomes, n, seed):
    folds = stratified_folds(outcomes, n, seed)

    assert set(folds) <= set(range(n))
    for value in (0.0, 1.0):
        held = np.bincount(folds[outcomes == value], minlength=n)
        assert held.max() - held.min() <= 1


def test_the_seed_draws_them():
    outcomes = np.arange(200) % 2 * 1.0

    first, again, other = (stratified_folds(outcomes, 5, seed) for seed in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
