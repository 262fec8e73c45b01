"""MCGrad's environment and program; the package runs where a contest is played, stand-ins here."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import environments, mcgrad
from benchmarks.peers.environments import NotInstalled

PANDAS = """
import numpy as np
class DataFrame:
    def __init__(self, columns):
        self.columns = columns
    def __getitem__(self, held):
        if isinstance(held, str):
            return self.columns[held]
        return DataFrame({name: values[held] for name, values in self.columns.items()})
"""
METHODS = """
import numpy as np
print("what a library prints is not an answer")
class MCGrad:
    def __init__(self, lightgbm_params):
        assert lightgbm_params == {"num_threads": 1}
    def fit(self, data, score, label, weight, campaign):
        assert campaign == ["campaign"] and set(data["campaign"]) == {"0", "1"}
        w = data[weight]
        self.rate = (w @ data[label]) / w.sum()
        self.mr = [1, 2]
    def predict(self, data, score, campaign):
        return np.full(len(data[score]), self.rate)
"""


@pytest.fixture
def standing_in(tmp_path, monkeypatch) -> None:
    """Packages that a child process finds in place of pandas and mcgrad."""
    (tmp_path / "pandas.py").write_text(PANDAS)
    (tmp_path / "mcgrad").mkdir()
    (tmp_path / "mcgrad" / "__init__.py").write_text("")
    (tmp_path / "mcgrad" / "methods.py").write_text(METHODS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def stored(folder: Path, **columns: list[float]) -> dict[str, str]:
    for name, values in columns.items():
        np.save(folder / f"{name}.npy", np.array(values))
    return {name: str(folder / f"{name}.npy") for name in columns}


@pytest.mark.usefixtures("standing_in")
def test_the_program_fits_cells_and_serves(tmp_path):
    """A cell becomes a row of its positives and one of its negatives; an error is an answer."""
    scores = {"rows": [0.0, 1.0], "scores": [0.1, 0.2]}
    cells = stored(tmp_path, **scores, outcomes=[0.0, 0.5], weights=[6.0, 4.0])
    asked = [{"fit": cells}, {"serve": {name: cells[name] for name in scores}}]
    other = stored(tmp_path, other=[0.5] * 3)["other"]
    asked.append({"fit": {**cells, "outcomes": other}})
    lines = "".join(json.dumps(each) + "\n" for each in asked)

    done = subprocess.run(
        [sys.executable, str(mcgrad.PROGRAM)], input=lines, capture_output=True, text=True
    )

    ready, fitted, served, refused = map(json.loads, done.stdout.splitlines())
    assert ready == {"ready": True}
    assert fitted == {"rounds": 2}
    assert np.load(served["probabilities"]).tolist() == pytest.approx([0.2, 0.2])
    assert "ValueError" in refused["error"]
    assert done.returncode == 0


def test_its_pins_are_whole_so_that_nothing_else_is_installed(tmp_path, monkeypatch):
    """torch and others, which it declares and its calibration never imports, stay out."""
    commands: list[tuple[str, ...]] = []

    def note(*command: str) -> None:
        commands.append(command)
        (tmp_path / "made" / "mcgrad").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(environments, "_run", note)
    pins = (environments.FOLDER / "mcgrad.txt").read_text().splitlines()

    python = mcgrad.python(tmp_path / "made")

    assert python == tmp_path / "made" / "mcgrad" / "bin" / "python"
    assert "--no-deps" in commands[1]
    assert all("==" in line for line in pins)
    assert {line.partition("==")[0].lower() for line in pins} >= {"mcgrad", "lightgbm", "pandas"}


def test_an_environment_that_cannot_be_made_is_an_answer(monkeypatch):
    def refuse() -> Path:
        raise NotInstalled("mcgrad does not install: no luck")

    said = io.StringIO()
    monkeypatch.setattr(mcgrad, "python", refuse)
    monkeypatch.setattr(sys, "stdout", said)

    mcgrad.main()

    assert json.loads(said.getvalue()) == {"error": "mcgrad does not install: no luck"}


def test_it_becomes_the_program_of_its_environment(monkeypatch):
    became: list[list[str]] = []
    monkeypatch.setattr(mcgrad, "python", lambda: Path("/made/python"))
    monkeypatch.setattr("os.execv", lambda path, words: became.append([path, *words]))

    mcgrad.main()

    assert became == [["/made/python", "/made/python", str(mcgrad.PROGRAM)]]
    assert mcgrad.PROGRAM.is_file()
