"""Table 2 of paper 004 on the synthetic platform of clicks, small."""

import numpy as np
import pytest

from research.reproduction import Conclusion
from research.reproduction.pccem_platform import EXPERIMENT


@pytest.fixture(scope="module")
def found(shares):
    """The quick run."""
    return EXPERIMENT.run(quick=True, seed=1, progress=shares.append)


def test_all_rows_of_the_table_are_there(found):
    """In the paper's order, the oracle and the noise floor last."""
    rows = [c.what.partition(",")[0] for c in found.checks if c.what.endswith("GC-3")]

    assert rows == ["none", "stc", "ltc", "pccem", "pccem_posterior", "oracle", "noise floor"]


def test_a_small_platform_trains_a_model(found):
    """Otherwise its row would say nothing: its labels correct the level."""
    ratios = {c.what: c.ours for c in found.checks if c.what.endswith("PCOC")}

    assert abs(ratios["pccem, PCOC"] - 1.0) < 0.5 * abs(ratios["none, PCOC"] - 1.0)
    assert ratios["stc, PCOC"] < 0.3


def test_a_small_run_judges_the_coarse_order_only(found):
    """Stale labels beat none, and those of the first hour are the worst, whatever the size."""
    scored = {c.what: c.verdict for c in found.checks if c.part == "Order" and "cuts" not in c.what}
    coarse = {what for what in scored if "ltc below none" in what or "none below stc" in what}

    assert len(coarse) == 6
    assert {scored[what] for what in coarse} == {Conclusion.AGREES}
    assert {scored[what] for what in scored.keys() - coarse} == {Conclusion.NOT_CHECKED}


def test_an_order_is_the_ratio_of_two_rows(found):
    """Beside the two printed numbers."""
    by_name = {check.what: check for check in found.checks}

    order = by_name["GC-4: ltc below none, as a share of it"]
    assert order.ours == pytest.approx(by_name["ltc, GC-4"].ours / by_name["none, GC-4"].ours)
    assert order.paper_shown == "1.72 < 4.47"


def test_a_cut_is_shown_beside_the_printed_one(found):
    """1 - 0.50 / 4.46."""
    cut = next(check for check in found.checks if check.what == "GC-3: pccem cuts none by")

    assert cut.paper == pytest.approx(1.0 - 0.50 / 4.46)
    assert cut.verdict is Conclusion.SHOWN


def test_the_notes_say_how_many_clicks(found):
    """12 days at 150 clicks an hour, by a harmonic share of the campaigns."""
    assert found.notes[0].startswith("4")
    assert "clicks, of which" in found.notes[0]


def test_progress_runs_to_the_end(found, shares):
    """Once for each scored hour."""
    assert shares == pytest.approx(np.arange(1, 25) / 24)
