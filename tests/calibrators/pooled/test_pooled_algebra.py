"""The algebra of the pooled method, against dense and literal computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from calibrators.pooled.hierarchy import Eliminated, Moments, Precisions, Variances, trust_in
from calibrators.pooled.serving import monotone_rows
from calibrators.pooled.spline import Coordinates, Knots

RNG = np.random.default_rng(7)
KNOTS = Knots(-20, 8, 0.35)
COORDINATES = Coordinates.of(KNOTS, RNG.random(8))
SIZE = KNOTS.count


def test_knots_span_the_scores_and_stay_on_their_lattice():
    """A small move of the range leaves the knots where they are."""
    knots = Knots.between(-5.1, -1.2)

    assert knots.positions[0] <= -5.1
    assert knots.positions[-1] >= -1.2
    assert knots == Knots.between(-5.12, -1.15)


def test_knots_are_few_for_any_range():
    """Between 4 for a single score and 22 for the widest range."""
    assert Knots.between(-2.0, -2.0).count == 4
    assert 10 < Knots.between(-17.5, 17.5).count <= 22


def test_curves_move_between_sets_of_knots_along_their_lines():
    """A straight curve stays on its line, constant beyond the knots it came from."""
    onto = Knots(-21, 12, 0.35)
    moved = KNOTS.moved(KNOTS.positions[None], onto)[0]

    expected = np.clip(onto.positions, KNOTS.positions[0], KNOTS.positions[-1])
    assert moved == pytest.approx(expected)
    assert KNOTS.moved(moved[None, :8], KNOTS) is not None


def test_the_waves_have_independent_second_differences():
    """Second differences of the waves are an orthonormal basis."""
    bends = np.diff(COORDINATES.basis[:, 2:], n=2, axis=0)

    assert bends.T @ bends == pytest.approx(np.eye(SIZE - 2), abs=1e-9)


def test_steps_between_knots_are_independent_in_the_waves():
    """Second differences of independent steps have the covariance that `steepness` says."""
    bends = np.diff(COORDINATES.basis[:, 2:], n=2, axis=0)
    walk = 2 * np.eye(SIZE - 2) - np.eye(SIZE - 2, k=1) - np.eye(SIZE - 2, k=-1)

    assert bends.T @ walk @ bends == pytest.approx(np.diag(COORDINATES.steepness), abs=1e-9)


def test_coordinates_and_curves_are_two_sides_of_the_same():
    """From coordinates to a curve and back."""
    values = RNG.normal(size=(3, SIZE))

    assert COORDINATES.of_curves(values @ COORDINATES.basis.T) == pytest.approx(values)


def test_tridiagonal_matrices_change_coordinates_as_dense_ones_do():
    """basis' M basis, and its counterpart for covariances."""
    diagonal, beside = RNG.random((4, SIZE)), RNG.random((4, SIZE - 1))
    dense = [
        np.diag(d) + np.diag(b, 1) + np.diag(b, -1) for d, b in zip(diagonal, beside, strict=True)
    ]
    found = COORDINATES.matrices(diagonal, beside)

    basis = COORDINATES.basis
    assert found == pytest.approx(basis.T @ np.array(dense) @ basis)
    own, neighbours = COORDINATES.variances(found)
    spread = basis @ found @ basis.T
    assert own == pytest.approx(np.einsum("nii->ni", spread))
    assert neighbours == pytest.approx(np.einsum("nii->ni", spread[:, :-1, 1:]))


def test_elimination_is_the_newton_step_of_the_whole_system():
    """Solving children first and the parent then equals one dense solve of both."""
    nodes = 3
    roots = RNG.normal(size=(nodes, SIZE, SIZE))
    information = roots @ roots.transpose(0, 2, 1)
    gradients, values = RNG.normal(size=(2, nodes, SIZE))
    offsets = RNG.normal(size=nodes)
    prior = Precisions.of(Variances(), offsets, COORDINATES.steepness, np.array([1, 0.5, 1]))
    precision = prior.plus(np.zeros((nodes, SIZE, SIZE)))
    top = np.eye(SIZE)

    solved = Eliminated.of(gradients, information, prior, values)
    told, left = solved.left_for_parents(values)
    parent = np.linalg.solve(top + left.sum(axis=0), told.sum(axis=0))
    steps = solved.moved(np.tile(parent, (nodes, 1)))

    system = np.zeros(((nodes + 1) * SIZE,) * 2)
    right = np.zeros((nodes + 1) * SIZE)
    system[:SIZE, :SIZE] = top + information.sum(axis=0)
    right[:SIZE] = gradients.sum(axis=0)
    for node in range(nodes):
        span = slice((node + 1) * SIZE, (node + 2) * SIZE)
        system[span, span] = information[node] + precision[node]
        system[:SIZE, span] = system[span, :SIZE] = information[node]
        right[span] = gradients[node] - precision[node] @ values[node]
    whole = np.linalg.solve(system, right).reshape(nodes + 1, SIZE)
    assert parent == pytest.approx(whole[0], rel=1e-6, abs=1e-8)
    assert steps == pytest.approx(whole[1:], rel=1e-6, abs=1e-8)
    inverse = np.linalg.inv(system)
    parents = np.linalg.inv(top + left.sum(axis=0))[None]
    own = solved.own_covariances(parents)
    assert own[1] == pytest.approx(inverse[2 * SIZE : 3 * SIZE, 2 * SIZE : 3 * SIZE], abs=1e-8)


def test_empirical_bayes_finds_the_variances_that_the_deviations_were_drawn_with():
    """Known normal deviations, observed with noise of known variance."""
    truth = Variances(0.09, 0.04, 0.01, 0.02)
    nodes, noise = 4000, 0.02
    spread = np.concatenate(([truth.level, truth.slope], truth.of_waves(COORDINATES.steepness)))
    drawn = RNG.normal(size=(nodes, SIZE)) * np.sqrt(spread)
    seen = drawn + RNG.normal(size=drawn.shape) * np.sqrt(noise)
    found = Variances()
    for _ in range(60):
        prior = np.concatenate(([found.level, found.slope], found.of_waves(COORDINATES.steepness)))
        posterior = 1 / (1 / prior + 1 / noise)
        modes = seen * posterior / noise
        covariances = np.broadcast_to(np.diag(posterior), (nodes, SIZE, SIZE))
        zeros = np.zeros(nodes)
        moments = Moments.of(modes, covariances, zeros, zeros + 1)
        found = found.updated(moments, COORDINATES.steepness)

    assert found.values == pytest.approx(truth.values, rel=0.15)


@given(st.floats(1.2, 100.0), st.floats(1e4, 1e7), st.floats(-7.0, 4.0))
def test_rounds_with_leaps_end_where_the_likelihood_is_highest(ratio, precision, start):
    """Of four levels, seen with a precision each, whose squares are `ratio` times as large as
    chance alone has them: at v = (ratio - 1) / precision. Leaps without bounds go past it, and
    back, for ever."""
    found = earlier = before = Variances(level=10.0**start)
    for turn in range(60):
        earlier, before = before, found
        shrunken = found.level / (found.level + 1 / precision)
        squares, variances = np.zeros((2, SIZE))
        squares[0], variances[0] = 4 * ratio / precision * shrunken**2, 4 * shrunken / precision
        moments = Moments(np.array([4]), squares, variances)
        found = Variances(level=found.updated(moments, COORDINATES.steepness).level)
        if found.change(before) < 1e-4:
            break
        if turn % 2 == 0:
            found = found.ahead(before, earlier)
    else:
        pytest.fail(f"still moves after {turn + 1} rounds: {before.level} to {found.level}")

    assert found.level * precision == pytest.approx(ratio - 1, rel=0.2)


def test_a_prior_of_which_the_data_say_nothing_stays():
    """Nodes without data have their prior as posterior."""
    start = Variances(0.3, 0.2, 0.01, 0.02)
    prior = np.concatenate(([start.level, start.slope], start.of_waves(COORDINATES.steepness)))
    nothing = Moments(5, np.zeros(SIZE), 5 * prior)

    assert start.updated(nothing, COORDINATES.steepness).values == pytest.approx(start.values)


def test_trust_falls_only_for_levels_far_out():
    """1 up to two and a half standard deviations, in inverse proportion beyond."""
    values = np.zeros((3, SIZE))
    values[:, 0] = [0.1, -0.5, 5.0]
    trust = trust_in(values, np.zeros(3), Variances(level=0.04))

    assert trust.tolist() == pytest.approx([1.0, 1.0, 0.1])


@given(st.integers(1, 9), st.integers(0, 2**31))
def test_falling_rows_become_their_isotonic_regression(size, seed):
    """Row by row as scipy finds it; rows that rise stay to the last bit."""
    rng = np.random.default_rng(seed)
    rows = np.vstack((rng.normal(size=(6, size)), np.arange(float(size))))
    weights = rng.random((7, size)) + 1e-3

    found = monotone_rows(rows, weights)

    for row, weight, fitted in zip(rows, weights, found, strict=True):
        assert fitted == pytest.approx(isotonic_regression(row, weights=weight).x, abs=1e-9)
        assert (np.diff(fitted) >= 0).all()
    assert np.array_equal(found[-1], rows[-1])


@pytest.mark.parametrize("most", [1e3, 1e9, 1e15])
def test_falling_rows_whose_weights_are_very_unequal_do_so_too(most):
    """As of knots without traffic beside those of ten million million impressions."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 12))
    weights = np.where(rng.random((200, 12)) < 0.5, 1e-6, most)

    found = monotone_rows(rows, weights)

    for row, weight, fitted in zip(rows, weights, found, strict=True):
        assert fitted == pytest.approx(isotonic_regression(row, weights=weight).x, abs=0.01)
