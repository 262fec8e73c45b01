"""The part on calibration over HTTP: its rows, its ratios, and the peers that are not there."""

from pathlib import Path

import pytest

from benchmarks.figures import Figure, Table, middle
from benchmarks.http import calibrate, languages
from benchmarks.http.bodies import FORMS
from benchmarks.http.calibrate_ratios import ECHOES, NAIVE, OPTIONS
from benchmarks.http.load import Rounds
from benchmarks.peers.environments import NotInstalled
from tests.benchmarks.cells import check

BRIEF = Rounds(seconds=0.001, most_requests=16)


@pytest.fixture(scope="module")
def calibrated() -> Table:
    """What a run without peers yields; all answers are checked in it."""

    def serving(peer: object, served: object) -> None:
        raise NotInstalled("BentoML does not install")

    sizes = calibrate.Sizes(5, (1, 40), 1, BRIEF, peers=("BentoML, one worker",))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibrate, "serving", serving)
        return calibrate.measure(sizes)


def test_calibrate_has_a_row_for_each_server_and_form(calibrated):
    check(calibrated)
    all_forms = ("sirocco", *ECHOES)
    forms = {f"{server}, {form}" for server in all_forms for form in FORMS}
    alone = {f"{name}, {form}, one connection" for name in all_forms for form in calibrate.ALONE}
    options = {f"sirocco, columns, {option}" for option in OPTIONS}
    assert set(calibrated) == forms | alone | options | set(NAIVE) | {"BentoML, one worker"}
    columns = ["batch of 1", "batch of 1, wall", "batch of 40", "batch of 40, wall"]
    assert all(list(calibrated[name]) == columns for name in forms | alone | options | set(NAIVE))


def test_calibrate_says_which_peer_is_not_there(calibrated):
    assert calibrated["BentoML, one worker"] == {"batch of 1": "BentoML does not install"}
    ratios = calibrate.ratios(calibrated)
    assert not any("BentoML" in name for name in ratios)
    assert set(ratios["sirocco over echo, columns"]) == {"batch of 1", "batch of 40"}
    assert all(ratios[f"columns with {option} over columns"] for option in OPTIONS)


def test_calibrate_puts_the_best_setting_of_a_peer_over_ours():
    figure = Figure(50.0, 40.0, 60.0)
    names = [*(f"{server}, {form}" for server in ("sirocco", *ECHOES) for form in FORMS), *NAIVE]
    names += [f"sirocco, columns, {option}" for option in OPTIONS]
    rows: Table = {name: {"batch of 100": figure, "batch of 100, wall": 9.0} for name in names}
    rows |= {"LitServe": {"batch of 100": 900.0}, "LitServe, batching": {"batch of 100": 800.0}}
    ratios = calibrate.ratios(rows)
    assert ratios["LitServe over sirocco, its best setting"] == {"batch of 100": 16.0}
    assert ratios["predictions/s of a core, columns"] == {"batch of 100": 2e6}


@pytest.mark.skipif(not Path("/usr/sbin/nginx").exists(), reason="install nginx-light")
def test_languages_are_asked_the_same(monkeypatch):
    monkeypatch.setattr(languages, "CAMPAIGNS", 5)
    monkeypatch.setattr(languages, "BODIES", 2)
    # No undisturbed moment is waited for: no figure is judged.
    monkeypatch.setattr(languages, "Rounds", lambda *_: BRIEF)

    table = languages.measure(rounds=1)

    assert set(table) == {"sirocco", *ECHOES, "nginx, fixed text"}
    assert table["sirocco"]["over sirocco"] == 1
    assert all(middle(row["a score, us"]) > 0 for row in table.values())
