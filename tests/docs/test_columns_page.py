"""What docs/columns.md shows must work as shown."""

import json
import re
import shlex
import struct
import subprocess
from typing import Any

from app.columns import layout
from app.columns.campaigns import CampaignIds
from calibrators import Atlas, CalibrationMap
from tests.columns.bodies import ONE_CAMPAIGN, scores_body
from tests.docs.pages import code_blocks, table_below, text_of

PAGE = text_of("docs/columns.md")
EXAMPLE = code_blocks(PAGE, "python")[0]
SHOWN_URL = "http://127.0.0.1:8080"


def run_example(url: str) -> dict[str, Any]:
    """The names that the example leaves behind."""
    names: dict[str, Any] = {}
    exec(compile(EXAMPLE.replace(SHOWN_URL, url), "columns.md", "exec"), names)
    return names


def test_the_example_prints_what_it_shows(service, capsys):
    """Beside a fresh service."""
    assert SHOWN_URL in EXAMPLE

    run_example(service.url)

    assert capsys.readouterr().out == code_blocks(PAGE, "text")[0]


def test_the_example_gets_the_probabilities_of_json(service):
    """By names and by ids, once there are maps."""
    maps = {name: CalibrationMap.proportional(0.5) for name in ("hats", "shoes")}
    service.publish({"click": Atlas.build(maps, CalibrationMap.proportional(0.25))})

    names = run_example(service.url)

    campaigns, scores = ["shoes", "unseen", "hats"], [0.1, 0.2, 0.3]
    asked = {"target": "click", "campaigns": campaigns, "scores": scores}
    expected = service.http.post("/v1/calibrate", json=asked).json()["probabilities"]
    assert names["id_of"] == {"hats": 1, "shoes": 2}
    by_name = names["encode"]("click", campaigns, scores)
    assert names["calibrate"](by_name) == (200, expected)
    dictionary = int(names["listed"]["dictionary"], 16)
    by_id = names["encode"]("click", [2, 0, 1], scores, dictionary)
    assert names["calibrate"](by_id) == (200, expected)


def test_the_list_that_is_shown_has_the_dictionary_that_is_shown():
    """Whoever makes the digest again can check it with this."""
    shown = json.loads(code_blocks(PAGE, "json")[0])
    maps = {name: CalibrationMap.identity() for name in shown["campaigns"]}

    assert f"{CampaignIds.of(Atlas.build(maps)).dictionary:016x}" == shown["dictionary"]


def test_the_shell_sends_the_body_that_it_means():
    """One score of one campaign."""
    command = code_blocks(PAGE, "sh")[0].partition("|")[0]

    sent = subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout

    assert shlex.split(command)[0] == "printf"
    assert sent == scores_body([0.5], campaigns=["shoes"], flags=ONE_CAMPAIGN)


def test_the_header_is_the_one_in_the_table():
    """Where each field begins, and how wide it is."""
    rows = table_below(PAGE, "| byte | what | meaning |")

    starts = [int(cells[0]) for cells in rows]
    widths = [int(size[1]) if (size := re.search(r"u(\d)$", cells[1])) else 4 for cells in rows]
    codes = {1: "B", 2: "H", 4: "I", 8: "Q"}

    assert starts == [sum(widths[:place]) for place in range(len(widths))]
    assert sum(widths) == layout.HEADER_BYTES
    written = "<4s" + "".join(codes[width] for width in widths[1:])
    assert struct.calcsize(written) == layout.HEADER_BYTES
    assert written == layout.LAYOUT.format


def test_the_flags_are_those_in_the_table():
    rows = table_below(PAGE, "| flag | name | kinds | meaning |")

    names = ("FLOAT32", "INTERNED", "ONE_CAMPAIGN", "EVENT_IDS", "LEVELS", "UNITS")
    assert {cells[1].strip("`"): int(cells[0]) for cells in rows} == {
        name: getattr(layout, name) for name in (*names, "FIELDS", "QUANTILES", "MONEY")
    }
