"""Tables 5 and 6 of paper 001 on a synthetic search log, small."""

import pytest

from research.reproduction import Conclusion
from research.reproduction.search import EXPERIMENT
from research.reproduction.search_experiment import search_experiment


@pytest.fixture(scope="module")
def found(shares):
    """The quick run."""
    return EXPERIMENT.run(quick=True, seed=0, progress=shares.append)


def test_rows_are_those_of_the_experiment_in_per_cent(found):
    """Nothing but the unit is added: the experiment of seed 1 gives the same changes."""
    row = search_experiment(1, pages=5_000, alphas=()).rows["sharper_head"]
    ours = {check.what: check.ours for check in found.checks}

    assert ours["sharper_head, AUC"] == pytest.approx(100 * row.auc_change)
    simulated = row.simulated["click_yield"].value
    assert ours["sharper_head, simulated CY"] == pytest.approx(100 * simulated)
    assert ours["sharper_head, online CY"] == pytest.approx(100 * row.online["click_yield"])
    gap = ours["sharper_head: CY, simulated less online, points"]
    assert gap == pytest.approx(100 * row.gap("click_yield"))


def test_the_printed_tables_stand_beside(found):
    """Table 5 has no simulated yield, Table 6 has both."""
    printed = {check.what: check.paper_shown for check in found.checks}

    assert printed["sharper_head, online CY"] == "-9.96"
    assert printed["sharper_head, simulated CY"] == "-"
    assert printed["less_noise, simulated mainline CY"] == "+46"


def test_offline_metrics_rise_while_clicks_fall(found):
    """The point of Table 5, large enough for a small log; only faint changes are left out."""
    scored = {c.what: c.verdict for c in found.checks if c.part.startswith("Shape")}
    left_out = {what for what, verdict in scored.items() if verdict is Conclusion.NOT_CHECKED}

    assert {scored[what] for what in scored.keys() - left_out} == {Conclusion.AGREES}
    assert left_out == {
        f"times_three: simulated {short} in the direction of the online one, %"
        for short in ("CY", "mainline CY")
    }


def test_operating_points_are_shown_in_order_of_alpha(found):
    """More click investment power, more clicks online and less revenue."""
    points = [check for check in found.checks if check.part.startswith("Operating")]
    clicks = [check.ours for check in points if "online CY" in check.what]
    revenue = [check.ours for check in points if "online RPM" in check.what]

    assert len(points) == 4 * len(clicks)
    assert clicks == sorted(clicks)
    assert revenue == sorted(revenue, reverse=True)


def test_progress_runs_to_the_end(found, shares):
    """It never goes back."""
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
