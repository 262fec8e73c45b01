"""Files of the product that a score, an event and a refit pass through, and calls of a score."""

import json
import sys

from benchmarks.trace import main

MOST_FILES = {"calibrate": 9, "events": 14, "refit": 50}
MOST_CALLS_OF_A_SCORE = 20


def test_few_files_are_passed_through_and_a_score_in_few_calls(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trace", "--json"])

    main()

    found = json.loads(capsys.readouterr().out)
    assert found.keys() == MOST_FILES.keys()
    assert all(0 < way["files"] <= way["calls"] for way in found.values())
    assert found["calibrate"]["calls"] <= MOST_CALLS_OF_A_SCORE
    assert {
        name: way["files"] for name, way in found.items() if way["files"] > MOST_FILES[name]
    } == {}
