"""How many files of the product a score, an event and a refit pass through."""

import json
import sys

import pytest

from benchmarks.trace import main

MOST_FILES = {"calibrate": 9, "events": 14, "refit": 59}


def test_few_files_are_passed_through(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["trace", "--json"])

    main()

    found = json.loads(capsys.readouterr().out)
    assert found.keys() == MOST_FILES.keys()
    assert all(0 < way["files"] <= way["calls"] for way in found.values())
    assert {
        name: way["files"] for name, way in found.items() if way["files"] > MOST_FILES[name]
    } == {}
