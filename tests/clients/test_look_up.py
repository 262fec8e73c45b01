"""The compiled look-up by itself: what leads outside is refused before memory is read there."""

import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import numpy as np
import pytest
from sirocco_client.maps import CompiledLookUp, EdgeMaps

pytestmark = pytest.mark.skipif(
    CompiledLookUp is None, reason="there was no compiler when the client was installed"
)
CLIENT = Path(__file__).parents[2] / "clients/python"
ROWS = {"shoes": 1, "socks": 2}


def columns(**changed: object) -> tuple[object, ...]:
    """Three maps of two knots that share theirs."""
    whole = EdgeMaps(
        firsts=np.array([0, 0, 0]),
        lengths=np.array([2, 2, 2]),
        shifts=np.array([0, 2, 4]),
        knots=np.array([0.0, 1.0]),
        values=np.array([0.0, 1.0, 0.0, 0.5, 0.25, 0.25]),
        slopes=np.array([1.0, 0.0, 0.5, 0.0, 0.0, 0.0]),
    )
    return whole._replace(**changed)


@pytest.fixture
def look_up():
    return CompiledLookUp(ROWS, columns())


@pytest.mark.parametrize(
    "changed",
    [
        {"firsts": np.array([0, 0, 1])},
        {"firsts": np.array([0, -1, 0])},
        {"firsts": np.array([0, 0, 2**62])},
        {"lengths": np.array([2, 0, 2])},
        {"lengths": np.array([2, 3, 2])},
        {"lengths": np.array([2, 2**62, 2])},
        {"shifts": np.array([0, 2, 5])},
        {"shifts": np.array([0, -1, 4])},
        {"shifts": np.array([0, -(2**63), 4])},
        {"lengths": np.array([2, 2])},
        {"shifts": np.array([0, 2, 4, 4])},
        {"slopes": np.zeros(5)},
        {"knots": np.empty(0)},
    ],
)
def test_columns_that_lead_outside_are_refused(changed):
    with pytest.raises(ValueError, match="leads beyond"):
        CompiledLookUp(ROWS, columns(**changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"knots": np.zeros(2, np.float32)}, "eight bytes, of kind d"),
        ({"knots": np.zeros(2, ">f8")}, "eight bytes, of kind d"),
        ({"knots": np.zeros(2, np.int64)}, "eight bytes, of kind d"),
        ({"firsts": np.zeros(3)}, "eight bytes, of kind lq"),
        ({"values": np.zeros((6, 1))}, "eight bytes, of kind d"),
        ({"values": 3}, "bytes-like"),
    ],
)
def test_columns_of_another_kind_are_refused(changed, message):
    with pytest.raises(TypeError, match=message):
        CompiledLookUp(ROWS, columns(**changed))


def test_every_other_number_of_an_array_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        CompiledLookUp(ROWS, columns(knots=np.zeros(4)[::2]))


@pytest.mark.parametrize("maps", [columns()[:5], 7, ()])
def test_other_than_six_columns_are_refused(maps):
    with pytest.raises(TypeError):
        CompiledLookUp(ROWS, maps)


@pytest.mark.parametrize("row", [-1, 3, 2**62, -(2**63)])
def test_a_row_without_a_map_is_refused(look_up, row):
    rows, found = np.array([0] * 40 + [row]), np.full(41, 7.0)
    with pytest.raises(IndexError):
        look_up.look_up(rows, np.zeros(41), found)
    with pytest.raises(IndexError):
        look_up.of_row(row, 0.5)
    with pytest.raises(IndexError):
        CompiledLookUp({"odd": row}, columns()).at("odd", 0.5)
    assert (found == 7.0).all()


def test_a_row_that_is_no_number_is_refused():
    odd = CompiledLookUp({"odd": "one"}, columns())
    with pytest.raises(TypeError):
        odd.at("odd", 0.5)
    with pytest.raises(TypeError):
        odd.fill_rows(["odd"], np.zeros(1, np.int64))


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


@pytest.mark.parametrize("names", [["shoes"], ("shoes", "socks"), 7])
def test_names_that_are_fewer_or_no_list_are_refused(look_up, names):
    with pytest.raises((IndexError, SystemError, TypeError)):
        look_up.fill_rows(names, np.zeros(2, np.int64))


def test_a_name_that_empties_the_list_while_it_is_looked_for_ends_in_an_error(look_up):
    class Odd(str):
        __slots__ = ()

        def __hash__(self) -> int:
            names.clear()
            return super().__hash__()

    names = [Odd("shoes"), "socks"]
    with pytest.raises(IndexError):
        look_up.fill_rows(names, np.zeros(2, np.int64))


@pytest.mark.parametrize("name", [[], {}])
def test_a_name_that_cannot_be_one_is_refused(look_up, name):
    with pytest.raises(TypeError, match="unhashable"):
        look_up.at(name, 0.5)
    with pytest.raises(TypeError, match="unhashable"):
        look_up.fill_rows([name], np.zeros(1, np.int64))


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), 1, "0.5", None])
def test_what_is_no_score_is_left_to_the_caller(look_up, score):
    assert look_up.at("shoes", score) is None
    assert look_up.at("hats", 0.5) is None
    assert look_up.at("shoes", 0.5) == 0.25


@pytest.mark.parametrize("method", ["at", "of_row", "fill_rows", "look_up"])
def test_other_numbers_of_arguments_are_refused(look_up, method):
    with pytest.raises(TypeError, match="arguments are required"):
        getattr(look_up, method)(1)


def test_columns_live_as_long_as_the_look_up():
    kept = columns()
    look_up = CompiledLookUp(dict(ROWS), kept)
    del kept
    assert look_up.of_row(1, 0.5) == 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "compiled"), [("cc", True), ("false", False)])
def test_a_wheel_is_built_with_or_without_a_compiler(tmp_path, monkeypatch, compiler, compiled):
    """One wheel for all versions of Python; without a compiler it is the same, but for one file."""
    source, built = tmp_path / "source", tmp_path / "built"
    copytree(CLIENT, source, ignore=ignore_patterns("*.so", "build", "*.egg-info", "__pycache__"))
    monkeypatch.setenv("CC", compiler)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "-w", built, source], check=True, cwd=tmp_path)
    (wheel,) = built.glob("sirocco_client-*-cp311-abi3-*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    # The client of the checkout would be found behind this one.
    asked = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in str(f)]\n"
        "import sirocco_client as s; print(s.COMPILED, s.atlas.EdgeAtlas.identity().at('a', 0.25))"
    )
    run = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=installed,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == f"{compiled} 0.25\n"
