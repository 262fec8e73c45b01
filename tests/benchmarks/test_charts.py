"""Charts are files of their own: well formed, named, with a key, in colours for light and dark."""

from math import nan
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.figures import Table
from benchmarks.parts import PARTS
from benchmarks.report.charts import DRAWINGS, drawings_of, write_charts
from benchmarks.report.page import DOCS, page
from benchmarks.report.results import Result, saved
from tests.benchmarks.test_page import result_of

SVG = "{http://www.w3.org/2000/svg}"
REFITS: Table = {
    "CPU s": {"100 campaigns": 0.1, "1,000 campaigns": 1.0, "1,000, SCALED": 9.0},
    "wall s": {"100 campaigns": 0.2, "1,000 campaigns": 2.0},
}
COLUMNS = [f"batch of {size}" for size in ("1", "10", "100", "1,000")]
ASKED = {
    "sirocco, columns": 40.0,
    "sirocco, one campaign": 40.0,
    "sirocco, binary, ids": 45.0,
    "raw ASGI echo, columns": 30.0,
    "naive, numpy.interp": 200.0,
    "naive, scikit-learn": 300.0,
    "LitServe": 900.0,
    "LitServe, batching": 800.0,
}
CALIBRATED: Table = {
    **{name: dict.fromkeys(COLUMNS, found) for name, found in ASKED.items()},
    "BentoML, one worker": {"batch of 1": "does not start"},
}


def drawn(result: Result, folder: Path) -> dict[str, ElementTree.Element]:
    """The charts of a result, by file."""
    write_charts([result], folder)
    return {path.name: ElementTree.parse(path).getroot() for path in folder.iterdir()}


def texts(picture: ElementTree.Element) -> set[str]:
    """All that is written in it."""
    return {element.text or "" for element in picture.iter(f"{SVG}text")}


def test_a_chart_shows_its_title_and_its_series(tmp_path):
    picture = drawn(result_of("refit", REFITS), tmp_path)["bench-refit.svg"]
    assert {"Refit of 24 hours, worker and Redis", "CPU s", "wall s"} <= texts(picture)
    assert picture.get("viewBox")
    style = picture.find(f"{SVG}style")
    assert "prefers-color-scheme: dark" in (style.text or "")


def test_every_colour_is_one_of_both_styles(tmp_path):
    """A variable that the picture does not set would be drawn black on black."""
    write_charts([result_of("calibrate", CALIBRATED)], tmp_path)
    text = (tmp_path / "bench-calibrate.svg").read_text()
    used = {part.split(")")[0] for part in text.split("var(")[1:]}
    light, dark = text.partition("@media")[::2]
    assert used
    assert all(f"{name}:" in light and f"{name}:" in dark for name in used)


def test_keys_stay_inside_the_picture(tmp_path):
    """Many series take several lines."""
    picture = drawn(result_of("calibrate", CALIBRATED), tmp_path)["bench-calibrate.svg"]
    keys = [found for found in picture.findall(f"{SVG}text") if found.get("class") == "key"]
    wide = float(str(picture.get("viewBox")).split()[2])
    assert len({key.get("y") for key in keys}) > 1
    assert all(float(str(key.get("x"))) < wide - 60 for key in keys)


def test_peers_are_shown_in_their_best_setting_and_left_out_where_they_do_not_run():
    found = dict(drawings_of(result_of("calibrate", CALIBRATED)))
    points = {drawing.name: points for drawing, points in found.items()}["peers"]
    assert list(points.places) == ["sirocco", "LitServe"]
    assert points.series == {"batch of 1": [40.0, 800.0], "batch of 100": [40.0, 800.0]}


def test_only_what_was_stored_in_several_sizes_is_a_line():
    rate = "events/s of a core"
    rows: Table = {
        "over HTTP: sirocco, binary, ids, batch of 1": {rate: 3.0},
        "over HTTP: sirocco, binary, ids, batch of 1,000": {rate: 900.0},
        "over HTTP: naive, impressions, batch of 1,000": {rate: 9.0},
    }
    ((_, points),) = drawings_of(result_of("ingest", rows))
    assert points.places == (1, 1000)
    assert points.series == {"over HTTP: binary, ids": [3.0, 900.0]}


def test_a_fit_that_was_not_run_is_a_gap_in_its_line():
    rows: Table = {
        "from bins of 100": {"cells": 7.0},
        "from 100 raw samples": {"sirocco": 2.0, "netcal": 5.0},
        "from 1,000 raw samples": {"sirocco": 3.0, "netcal": "over 8 s"},
    }
    ((_, points),) = drawings_of(result_of("fit", rows))
    assert points.places == (100, 1000)
    assert points.series == {
        "sirocco": [2.0, 3.0],
        "netcal": [5.0, pytest.approx(nan, nan_ok=True)],
    }


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_what_was_not_measured_is_not_drawn(drawing):
    part = next(found.part for found in DRAWINGS if found is drawing)
    assert not list(drawings_of(result_of(part, {"something else": {"b": 1.0}})))


def test_one_point_is_no_line():
    assert not list(drawings_of(result_of("refit", {"CPU s": {"100 campaigns": 0.1}})))


def test_the_page_shows_each_chart_that_is_drawn():
    said = "\n".join(page([result_of("refit", REFITS)]))
    assert "![Refit of 24 hours, worker and Redis](images/bench-refit.svg)" in said


def test_the_charts_of_the_docs_are_those_of_the_files():
    """None is missing, and none is left of a part that shows it no more."""
    results = saved()
    shown = {d.file for name in PARTS if name in results for d, _ in drawings_of(results[name])}
    assert {path.name for path in (DOCS / "images").glob("bench-*")} == shown
