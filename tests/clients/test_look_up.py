"""The compiled look-up by itself: what leads outside is refused before memory is read there."""

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sirocco_client.intervals import fill_quantiles
from sirocco_client.maps import COMPILED, EdgeMaps, PlainNames, index_of, plain_index

if COMPILED:
    from sirocco_client._look_up import LookUp, Names

pytestmark = pytest.mark.skipif(
    not COMPILED, reason="there was no compiler when the client was installed"
)
PROJECT = Path(__file__).parents[2]
LONG = "a campaign with a name that is longer than what stands in a slot"
NAMES = ("shoes", "socks")


def rows(*names: str) -> "Names":
    """Those of names."""
    found = index_of(names or NAMES, lambda: None)
    assert isinstance(found, Names)
    return found


def columns(**changed: object) -> tuple[object, ...]:
    """Three maps of two knots that share theirs."""
    whole = EdgeMaps(
        spans=np.array([[0, 2, 0], [0, 2, 2], [0, 2, 4]]),
        knots=np.array([0.0, 1.0]),
        segments=np.array([[0, 1], [1, 0], [0, 0.5], [0.5, 0], [0.25, 0], [0.25, 0]]),
    )
    return whole._replace(**changed)


@pytest.fixture
def look_up():
    return LookUp(rows(), columns())


@pytest.mark.parametrize(
    "last",
    [
        [1, 2, 4],
        [-1, 2, 4],
        [2**62, 2, 4],
        [0, 0, 4],
        [0, 3, 4],
        [0, 2**62, 4],
        [0, 2, 5],
        [0, 2, -1],
        [0, 2, -(2**63)],
    ],
)
def test_a_map_that_leads_outside_is_refused(last):
    for place in range(3):
        spans = columns()[0].copy()
        spans[place] = last
        with pytest.raises(ValueError, match="leads beyond"):
            LookUp(rows(), columns(spans=spans))


@pytest.mark.parametrize("changed", [{"segments": np.zeros((5, 2))}, {"knots": np.empty(0)}])
def test_columns_that_are_too_short_are_refused(changed):
    with pytest.raises(ValueError, match="leads beyond"):
        LookUp(rows(), columns(**changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"knots": np.zeros(2, np.float32)}, "kind d, 1 wide"),
        ({"knots": np.zeros(2, ">f8")}, "kind d, 1 wide"),
        ({"knots": np.zeros(2, np.int64)}, "kind d, 1 wide"),
        ({"knots": np.zeros((2, 1))}, "kind d, 1 wide"),
        ({"spans": np.zeros((3, 3))}, "kind lq, 3 wide"),
        ({"spans": np.zeros((3, 2), np.int64)}, "kind lq, 3 wide"),
        ({"segments": np.zeros(12)}, "kind d, 2 wide"),
        ({"segments": 3}, "bytes-like"),
    ],
)
def test_columns_of_another_kind_are_refused(changed, message):
    with pytest.raises(TypeError, match=message):
        LookUp(rows(), columns(**changed))


def test_every_other_number_of_an_array_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        LookUp(rows(), columns(knots=np.zeros(4)[::2]))


@pytest.mark.parametrize("maps", [columns()[:2], 7, ()])
def test_other_than_three_columns_are_refused(maps):
    with pytest.raises(TypeError):
        LookUp(rows(), maps)


@pytest.mark.parametrize("row", [-1, 3, 2**62, -(2**63)])
def test_a_row_without_a_map_is_refused(look_up, row):
    rows, found = np.array([0] * 40 + [row]), np.full(41, 7.0)
    with pytest.raises(IndexError):
        look_up.look_up(rows, np.zeros(41), found)
    with pytest.raises(IndexError):
        look_up.of_row(row, 0.5)
    with pytest.raises(IndexError):
        look_up.look_up_few([0, row], [0.5, 0.5])
    assert (found == 7.0).all()


def test_a_name_without_a_map_is_refused():
    with pytest.raises(IndexError):
        LookUp(rows("shoes", "socks", "hats"), columns()).at("hats", 0.5)


@pytest.mark.parametrize("names", [{"shoes": 1}, None, NAMES])
def test_names_that_are_none_are_refused(names):
    with pytest.raises(TypeError):
        LookUp(names, columns())


def test_columns_of_unequal_lengths_are_refused(look_up):
    rows, three = np.zeros(3, np.int64), np.zeros(3)
    for scores, found in ((np.zeros(2), three), (three, np.zeros(4))):
        with pytest.raises(ValueError, match="unequal"):
            look_up.look_up(rows, scores, found)


def test_what_may_not_be_written_is_left(look_up):
    found = np.zeros(1)
    found.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        look_up.look_up(np.zeros(1, np.int64), np.zeros(1), found)


@pytest.mark.parametrize("names", [["shoes"], ("shoes",), [7], 7])
def test_names_that_are_fewer_or_no_sequence_are_refused(names):
    with pytest.raises((IndexError, TypeError)):
        rows().fill(names, np.zeros(2, np.int64))


def test_names_that_are_made_as_they_are_asked_for_have_rows():
    class Made(Sequence[str]):
        def __len__(self) -> int:
            return 100

        def __getitem__(self, place: int) -> str:
            return f"{LONG} {range(100)[place]}"

    found = np.zeros(100, np.int64)
    assert rows(*Made()).fill(Made(), found)
    assert found.tolist() == list(range(1, 101))


class Emptying:
    """A number that empties the lists in which it stands."""

    def __init__(self, *lists: list[object]) -> None:
        self.lists = lists

    def __index__(self) -> int:
        for each in self.lists:
            each.clear()
        return 0

    __float__ = __index__


def test_a_number_that_empties_its_list_ends_in_an_error(look_up):
    rows, scores = [0, 0], [0.5, 0.5]
    rows[0] = Emptying(rows, scores)
    with pytest.raises((IndexError, TypeError)):
        look_up.look_up_few(rows, scores)
    for row, score in ((7, [0.5]), ([0], ["0.5"]), (["0"], [0.5])):
        with pytest.raises(TypeError):
            look_up.look_up_few(row, score)


@pytest.mark.parametrize("name", [[], 7, None, b"shoes", "\ud800", f"{LONG}s", ""])
def test_what_is_no_name_has_no_row(name):
    known, found = rows("shoes", LONG), np.full(1, 7)
    assert LookUp(known, columns()).at(name, 0.5) is None
    assert not known.fill([name], found)
    assert (found.item(), known.get(name, 8)) == (0, 8)


@given(st.lists(st.text(max_size=40), unique=True), st.lists(st.text(max_size=40)))
def test_rows_are_those_of_a_dict(names, others):
    others = [*others, *names[::2], *(name + "s" for name in names)]
    known = index_of(tuple(names), lambda: None)
    plain = plain_index(tuple(names), lambda: None)
    left, right = np.full(len(others), 7), np.full(len(others), 8)

    assert known.fill(others, left) == plain.fill(others, right)
    assert left.tolist() == right.tolist()
    assert [known.get(name, 9) for name in others] == [plain.get(name, 9) for name in others]
    assert len(known) == len(plain)


def test_slots_that_names_do_not_fit_in_are_refused():
    for count, width, kind in ((2, 32, "u1"), (3, 32, "u1"), (4, 31, "u1"), (4, 32, "i1")):
        with pytest.raises((TypeError, ValueError)):
            Names(NAMES, np.zeros((count, width), kind))
    with pytest.raises(TypeError):
        Names(list(NAMES), np.zeros((4, 32), np.uint8))
    with pytest.raises(KeyError, match="twice"):
        Names(("a", "a"), np.zeros((4, 32), np.uint8)).add(2)


def test_a_table_that_was_written_over_leads_nowhere_else():
    slots = np.zeros((4, 32), np.uint8)
    known = Names((LONG,), slots)
    known.add(1)
    (place,) = np.flatnonzero(slots.any(axis=1)).tolist()
    slots[place, 4:8] = 255
    assert known.get(LONG, 7) == 7
    assert known.fill(["shoes"], np.zeros(1, np.int64)) is False


@pytest.mark.parametrize("names", [("a" * 2**16, "b"), ("\ud800",)])
def test_names_that_no_slot_holds_are_left_to_a_dict(names):
    known = index_of(names, lambda: None)
    assert isinstance(known, PlainNames)
    assert [known.get(name, 0) for name in names] == [*range(1, len(names) + 1)]


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), 1, "0.5", None])
def test_what_is_no_score_is_left_to_the_caller(look_up, score):
    assert look_up.at("shoes", score) is None
    assert look_up.at("hats", 0.5) is None
    assert look_up.at("shoes", 0.5) == 0.25


@pytest.mark.parametrize("method", ["at", "of_row", "look_up_few", "look_up"])
def test_other_numbers_of_arguments_are_refused(look_up, method):
    with pytest.raises(TypeError, match="arguments are required"):
        getattr(look_up, method)(1)


def test_columns_live_as_long_as_the_look_up():
    kept = columns()
    look_up = LookUp(rows(), kept)
    del kept
    assert look_up.of_row(1, 0.5) == 0.25


def of_quantiles(**changed: object) -> list[object]:
    """Two scores by two maps, at one level."""
    whole = {
        "spreads": np.full((2, 8), 0.5, np.float32),
        "grid": np.array([-6.0, 1.0, 0.01, 0.5]),
        "rows": np.array([0, 1]),
        "scores": np.array([0.1, 0.2]),
        "probabilities": np.array([0.1, 0.2]),
        "variances": None,
        "factors": np.array([-1.0]),
        "found": np.full(2, 7.0),
    }
    return [*(whole | changed).values()]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"rows": np.array([0, 2])}, IndexError),
        ({"rows": np.array([0, -1])}, IndexError),
        ({"spreads": np.full((2, 7), 0.5, np.float32)}, TypeError),
        ({"spreads": np.full((2, 8), 0.5)}, TypeError),
        ({"spreads": np.full((0, 8), 0.5, np.float32)}, IndexError),
        ({"grid": np.zeros(3)}, ValueError),
        ({"scores": np.zeros(3)}, ValueError),
        ({"probabilities": np.zeros(1)}, ValueError),
        ({"variances": np.zeros(3)}, ValueError),
        ({"factors": np.zeros(2)}, ValueError),
        ({"found": np.zeros(3)}, ValueError),
    ],
)
def test_quantiles_of_columns_that_do_not_fit_are_refused(changed, error):
    given = of_quantiles(**changed)
    with pytest.raises(error):
        fill_quantiles(*given)
    assert set(given[-1]) <= {0.0, 7.0}


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", ["grid", "scores", "variances"])
def test_what_is_no_number_leads_nowhere(column, odd):
    """Its quantile is no number either, or one as of another; memory is read in bounds."""
    given = of_quantiles(**{column: np.full(4 if column == "grid" else 2, odd)})
    fill_quantiles(*given)
    assert not (given[-1] == 7.0).any()


CLIENT = (PROJECT / "clients/python", ["sirocco_client", "pyproject.toml", "README.md"])
"""What a wheel of the client is made of, and of the service."""
SERVICE = (
    PROJECT,
    [
        *("app", "calibrators", "evaluation", "pccem", "pyproject.toml", "README.md", "LICENSE"),
        "clients/python/sirocco_client/_look_up.c",
    ],
)
OF_CLIENT = (
    "import sirocco_client as s; print(s.COMPILED, s.atlas.EdgeAtlas.identity().at('a', 0.25))"
)
OF_SERVICE = (
    "from calibrators import Atlas; from calibrators.names import compiled\n"
    "print(compiled is not None, Atlas.empty().at('a', 0.25))"
)


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "asked"), [(CLIENT, OF_CLIENT), (SERVICE, OF_SERVICE)])
@pytest.mark.parametrize(("compiler", "compiled"), [("cc", True), ("false", False)])
def test_a_wheel_is_built_with_or_without_a_compiler(
    tmp_path, monkeypatch, compiler, compiled, parts, asked
):
    """One wheel for all versions of Python, typed, with all modules and no others; without a
    compiler it is the same, but for one file."""
    source, built, installed = (tmp_path / name for name in ("source", "built", "installed"))
    folder, names = parts
    for name in names:
        part, target = folder / name, source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.is_dir():
            copytree(part, target, ignore=ignore_patterns("*.so", "__pycache__"))
        else:
            copy(part, target)
    monkeypatch.setenv("CC", compiler)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "-w", built, source], check=True, cwd=tmp_path)
    (wheel,) = built.glob("sirocco*-cp311-abi3-*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    of_python = [path for path in source.rglob("*.py*") if "build" not in path.parts]
    assert {path.relative_to(installed) for path in installed.rglob("*.py*")} == {
        path.relative_to(source) for path in of_python
    }
    assert len([*installed.rglob("*.so")]) == compiled
    # What is installed from the checkout would be found behind this one.
    only = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in str(f)]"
    run = subprocess.run(
        [sys.executable, "-c", f"{only}\n{asked}"],
        cwd=installed,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == f"{compiled} 0.25\n"
