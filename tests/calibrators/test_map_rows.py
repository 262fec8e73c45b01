"""Maps by row, with knots of their own or shared: looked up as each alone, to the bit."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import MapRows
from calibrators.maps.shared_knots import MOST_SETS, SharedKnots, maps_by_row
from calibrators.names import PlainIndex, compiled, index_of
from calibrators.samples import Floats, Integers
from tests.calibrators.strategies import maps_of_sets, scores, scores_around

MANY = 3000


@pytest.fixture(params=["compiled", "numpy"], scope="module", autouse=True)
def look_up(request):
    """All of this holds with either."""
    chosen = compiled if request.param == "compiled" else None
    if chosen is None and request.param == "compiled":
        pytest.skip("there was no compiler when the service was installed")
    with patch("calibrators.maps.look_up.compiled", chosen):
        yield


def columns_of(sets: list[Floats], maps: int, seed: int = 0) -> MapColumns:
    """Maps with the knots of each set in turn."""
    rng = np.random.default_rng(seed)
    own = [sets[number % len(sets)] for number in range(maps)]
    return MapColumns.of_maps([CalibrationMap(knots, rng.random(len(knots))) for knots in own])


def columns(lengths: Integers, rng: np.random.Generator) -> MapColumns:
    """Maps of these lengths with knots of their own."""
    knots, values = [], []
    for length in lengths.tolist():
        inner = np.sort(rng.random(length - 2))
        knots.append(np.concatenate(([0.0], inner, [1.0])))
        values.append(np.sort(rng.random(length)))
    return MapColumns(lengths, np.concatenate(knots), np.concatenate(values))


@given(maps_of_sets(), st.lists(scores, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_each_score_is_looked_up_as_by_its_map_alone(maps, others, singles, share):
    """On the knots, beside them and between; one by one, as few and as many."""
    given = MapColumns.of_maps(maps)
    rows_of = maps_by_row(given) if share else MapRows.of(given)
    around = scores_around(np.concatenate([each.knots for each in maps]), np.array(others))
    asked = np.clip(around, -0.0, 1.0).astype(np.float32 if singles else np.float64)
    rows = np.arange(len(asked)) % len(maps)
    pairs = [*zip(rows.tolist(), asked.tolist(), strict=True)]
    expected = np.array([maps[row].at(score) for row, score in pairs])

    assert rows_of.look_up(rows, asked).tobytes() == expected.tobytes()
    assert rows_of.look_up(rows.astype(np.uint32), asked).tobytes() == expected.tobytes()
    assert [rows_of.at(row, score) for row, score in pairs] == expected.tolist()
    few = rows_of.look_up_few(rows.tolist(), asked.tolist())
    assert np.array(few).tobytes() == expected.tobytes()
    last = np.full(len(others), len(maps) - 1)
    assert rows_of.look_up(last, np.array(others)).tobytes() == maps[-1](others).tobytes()
    assert len(rows_of.look_up(last[:0], np.empty(0))) == 0


@given(st.lists(st.sampled_from(["a", "b", "c", "ä"])), st.sets(st.sampled_from(["a", "b", "ä"])))
def test_names_have_rows_and_unknown_ones_have_none(names, known):
    known_rows = {name: row for row, name in enumerate(sorted(known), 1)}
    for index in (PlainIndex(known_rows), index_of((*known_rows,))):
        rows = np.full(len(names), -1)
        assert index.fill(names, rows) == all(name in known for name in names)
        assert rows.tolist() == [known_rows.get(name, 0) for name in names]


def test_as_many_names_as_fill_half_of_their_table_are_found_in_it():
    names = tuple(f"campaign {number}" for number in range(2**19 - 1))
    index = index_of(names)
    assert isinstance(index, PlainIndex) is (compiled is None)
    rows = np.empty(1000, np.int64)
    assert index.fill(names[-1000:], rows)
    assert rows.tolist() == list(range(len(names) - 999, len(names) + 1))


@given(maps_of_sets(), st.booleans())
def test_maps_come_back_as_they_were(maps, share):
    given = MapColumns.of_maps(maps)
    rows_of = maps_by_row(given) if share else MapRows.of(given)

    found = rows_of.columns()

    assert found.lengths.tolist() == given.lengths.tolist()
    assert found.knots.tobytes() == given.knots.tobytes()
    assert found.values.tobytes() == given.values.tobytes()
    assert [rows_of.columns(slice(row, row + 1)).only for row in range(len(maps))] == maps


@pytest.mark.parametrize("longest", [3, 64, 65, 300])
def test_many_maps_are_filled_as_each_alone(longest):
    """They are more than one piece of the fill, and of the search."""
    rng = np.random.default_rng(longest)
    given = columns(rng.integers(2, longest + 1, MANY), rng)
    rows_of = MapRows.of(given)
    rows, asked = rng.integers(0, MANY, 5000), rng.random(5000)

    found = rows_of.look_up(rows, asked)

    for row in rng.choice(MANY, 50).tolist():
        alone = given.taken(np.array([row])).only
        assert rows_of.columns(np.array([row])).only == alone
        assert found[rows == row].tobytes() == alone(asked[rows == row]).tobytes()


@pytest.mark.parametrize("row", [0, 1, 2])
def test_one_map_longer_than_a_piece_of_the_fill_stands_whole(row):
    rng = np.random.default_rng(1)
    lengths = np.full(3, 2)
    lengths[row] = 70_000
    given, asked = columns(lengths, rng), rng.random(100)

    found = MapRows.of(given).look_up(np.full(100, row), asked)

    assert found.tobytes() == given.taken(np.array([row])).only(asked).tobytes()


@pytest.mark.parametrize("place", [0, MANY // 2, MANY - 1])
def test_a_bad_map_is_refused_wherever_it_stands(place):
    given = columns(np.full(MANY, 40), np.random.default_rng(2))
    given.knots[40 * place + 7] = given.knots[40 * place + 6]

    with pytest.raises(ValueError, match="must increase strictly"):
        MapRows.of(given)


@pytest.mark.parametrize("place", [0, 70, 139])
def test_a_bad_value_is_refused_wherever_it_stands(place):
    maps = columns_of([spline_knots()], 140)
    maps.values[place * 52 + 7] = 1.5

    with pytest.raises(ValueError, match=r"= 1.5"):
        maps_by_row(maps)


def test_unequal_lengths_of_a_handful_are_refused():
    with pytest.raises(ValueError, match=r"shorter|unequal"):
        Atlas.empty().look_up_few([0, 0], [0.5])


@pytest.mark.parametrize("count", [1, 300])
def test_a_row_beyond_the_last_is_an_error(count):
    shared = maps_by_row(columns_of([spline_knots()], 4))

    with pytest.raises(IndexError):
        shared.look_up(np.full(count, 4), np.ones(count))


def spline_knots(first: float = -8.0) -> Floats:
    """As `pooled` has them: evenly in log-odds."""
    return np.concatenate(([0.0], 1 / (1 + np.exp(-np.linspace(first, 17.5, 50))), [1.0]))


def test_maps_share_where_two_have_the_same_knots_on_average():
    three = [spline_knots(-8.0), spline_knots(-7.0), spline_knots(-6.0)]

    assert isinstance(maps_by_row(columns_of(three, 6)), SharedKnots)
    assert not isinstance(maps_by_row(columns_of(three, 5)), SharedKnots)
    assert not isinstance(maps_by_row(columns_of(three, 3)), SharedKnots)


@pytest.mark.parametrize(("sets", "shared"), [(MOST_SETS, True), (MOST_SETS + 1, False)])
def test_no_more_sets_share_than_a_byte_can_number_and_a_cache_hold(sets, shared):
    """Piece by piece of the maps, so that a set may return in another piece."""
    knots = [np.array([0.0, (1 + number) / 1000, 1.0]) for number in range(sets)]
    maps = columns_of(knots, 40 * sets)

    found = maps_by_row(maps)

    assert isinstance(found, SharedKnots) == shared
    rows, asked = np.arange(len(maps)), np.random.default_rng(1).random(len(maps))
    expected = MapRows.of(maps).look_up(rows, asked)
    assert found.look_up(rows, asked).tobytes() == expected.tobytes()


def test_a_map_takes_less_than_half_of_what_it_takes_alone():
    """Values and slopes, and no knots."""
    maps = columns_of([spline_knots()], 1000)

    data = Atlas.of_columns([f"{n}" for n in range(999)], maps, True).to_bytes()

    assert len(data) < 0.55 * 16 * len(maps.knots)


def test_the_work_is_paused_between_pieces():
    pauses = []

    maps_by_row(columns_of([spline_knots()], 200), lambda: pauses.append(1))

    assert len(pauses) > 4
