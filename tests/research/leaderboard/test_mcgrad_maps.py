"""MCGrad's pipe, played by a stand-in program: the package itself runs in benchmarks and proofs."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrators import BinsTable
from calibrators.bins.table import History
from research.leaderboard import MethodUnavailable, prequential
from research.leaderboard.mcgrad_maps import Child, McGradMaps
from tests.research.leaderboard.tiny import TINY

PROGRAM = """
import json, sys
import numpy as np
print(json.dumps({"ready": True}), flush=True)
ratio = None
for line in sys.stdin:
    asked = json.loads(line)
    if "fit" in asked:
        columns = {name: np.load(file) for name, file in asked["fit"].items()}
        assert sorted(columns) == ["outcomes", "rows", "scores", "weights"]
        w = columns["weights"]
        ratio = (w @ columns["outcomes"]) / (w @ columns["scores"])
        answer = {"rounds": 1}
    else:
        file = asked["serve"]["scores"]
        assert len(np.load(asked["serve"]["rows"])) == len(np.load(file))
        np.save(file + ".npy", np.minimum(ratio * np.load(file), 1.0))
        answer = {"probabilities": file + ".npy"}
    print(json.dumps(answer), flush=True)
"""
HERE = Path(__file__).parent


def command(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


def child(program: str) -> Child:
    return Child(command(program), HERE, 30.0)


def test_columns_travel_there_and_back():
    """The stand-in multiplies by the ratio of the past day, campaign and weight included."""
    found = prequential(TINY, [McGradMaps(command(PROGRAM))], first_scored=24, scored_hours=2)

    assert found.unavailable == {}
    assert 0.0 < found.excess("mcgrad") < 0.1


def test_nothing_is_asked_about_no_impressions():
    table = BinsTable.from_columns(["a"], np.array([0]), np.array([0.1]), np.ones(1), np.ones(1))
    serve = McGradMaps(command(PROGRAM)).refit(History(100.0, [{99: table}]), ("a",))

    assert serve(np.empty(0, np.int64), np.empty(0)).tolist() == []
    assert serve(np.array([0]), np.array([0.05])).tolist() == pytest.approx([0.5])


def test_it_serves_scores_until_there_is_a_positive():
    table = BinsTable.from_columns(["a"], np.array([0]), np.array([0.1]), np.ones(1), np.zeros(1))
    serve = McGradMaps(command("raise SystemExit")).refit(History(100.0, [{99: table}]), ("a",))

    assert serve(np.array([0]), np.array([0.3])).tolist() == [0.3]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('no luck')", "its process has ended: no luck"),
        ("pass", "its process has ended"),
        ('print(\'{"error": "does not install"}\')', "does not install"),
    ],
)
def test_who_is_not_ready_says_why(program, reason):
    found = prequential(TINY, [McGradMaps(command(program))], first_scored=3, scored_hours=2)

    assert found.unavailable == {"mcgrad": reason}


def test_an_error_while_it_works_is_its_end():
    ready = 'print("{\\"ready\\": true}", flush=True); input(); raise ValueError("bad cells")'
    working = child(ready)

    with pytest.raises(MethodUnavailable, match="ended: ValueError: bad cells"):
        working.request({"fit": {}}, 30.0)
    with pytest.raises(MethodUnavailable):
        working.request({"fit": {}}, 30.0)


def test_who_takes_too_long_is_ended():
    waiting = child('print("{\\"ready\\": true}", flush=True); import time; time.sleep(600)')

    with pytest.raises(MethodUnavailable, match="no answer within 0 s"):
        waiting.request({}, 0.05)
    with pytest.raises(MethodUnavailable):
        waiting.request({}, 30.0)


def test_a_program_that_is_not_there_is_told():
    with pytest.raises(MethodUnavailable, match="/no/python does not start: No such file"):
        Child(("/no/python",), HERE, 1.0)


def test_the_child_ends_and_its_files_go_with_the_method():
    working = child("import os; print('{\"ready\": true}', flush=True); input()")
    (file,) = working.stored(scores=np.ones(2)).values()
    folder = os.path.dirname(file)
    assert os.path.exists(file)

    working.close()

    assert not os.path.exists(folder)
