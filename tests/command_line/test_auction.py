"""`sirocco auction`: from a log to a table, JSON and a report."""

import orjson
import pytest

from evaluation.auction.comparison import compare_auctions
from evaluation.auction.simulation import sweep_operating_points
from tests.command_line.auction_logs import NAMED, ROWS, drawn, write_drawn, write_rows


def test_the_numbers_are_those_of_the_comparison(tmp_path, answered):
    """The library's, for a log under other names, in another order of rows."""
    log = drawn()
    models = {"baseline": log.scores, "candidate": log.models["sharper_head"]}
    expected = compare_auctions(log.log, models, shrinkage=20.0)

    found = answered("auction", write_drawn(tmp_path / "log.parquet"), *NAMED)

    for name, judged in expected.models.items():
        row = found["rows"][name]
        given = {**judged.offline, **judged.simulation.metrics}
        assert {column: row[column] for column in given} == pytest.approx(given)
        levels = [row[f"level_{level}"] for level in (1, 2, 3)]
        assert levels == pytest.approx(judged.simulation.level_shares)
    change = expected.models["candidate"].changes["click_yield"]
    row = found["rows"]["candidate"]
    ends = ("click_yield_change", "click_yield_change_lower", "click_yield_change_upper")
    assert [row[end] for end in ends] == pytest.approx([change.value, change.lower, change.upper])
    assert found["conclusive"] is True
    assert found["verdict"].startswith("Fewer clicks: per page -")
    assert found["agreement"] == 1.0
    assert found["click_curve"]["factors"][0] == 1.0
    assert (found["warnings"], found["sweep"], found["truth"]) == ([], [], {})
    assert (found["pages"], found["candidates"]) == (2_000, 28_000)


def test_settings_reach_the_auction(tmp_path, answered):
    """Slots, alpha, reserves, and how clicks are expected."""
    path = write_rows(tmp_path / "log.csv", *ROWS)
    settings = ("--mainline", "1", "--sidebar", "1", "--alpha", "0", "--reserve", "0.6")

    found = answered("auction", path, *settings, "--mainline-reserve", "1.5", "--curve", "naive")

    assert found["point"] == {"alpha": 0.0, "reserve": 0.6, "mainline_reserve": 1.5}
    assert found["rows"]["baseline"]["ads_per_page"] == 2.0
    assert found["rows"]["baseline"]["mainline_ads_per_page"] == 1.0
    # a pays b's bid of 1, but at least 1.5; clicked in 1 of 2, drawn to nothing else.
    assert found["rows"]["baseline"]["revenue_per_mille"] == pytest.approx(750.0)


def test_a_sweep_tries_both_models(tmp_path, answered):
    """At equal load, against the model and settings in force."""
    log = drawn()
    points = ("--alphas", "0.8, 1.2", "--loads", "0.9,1")

    path = write_drawn(tmp_path / "log.parquet")
    sweep = answered("auction", path, *NAMED, "--sweep", *points)["sweep"]

    keys = [(point["model"], point["alpha"], point["load"]) for point in sweep]
    assert keys == [
        (m, a, x) for m in ("baseline", "candidate") for a in (0.8, 1.2) for x in (0.9, 1)
    ]
    expected = sweep_operating_points(
        log.log,
        log.models["sharper_head"],
        alphas=[0.8, 1.2],
        loads=[0.9, 1.0],
        baseline=log.scores,
        shrinkage=20.0,
    )
    for point, one in zip(sweep[4:], expected, strict=True):
        assert point["click_yield"] == pytest.approx(one.metrics["click_yield"])
        assert point["mainline_reserve"] == pytest.approx(one.point.mainline_reserve)


def test_the_table_sets_models_beside_each_other(tmp_path, called):
    """In 80 columns, with a verdict, the sweep, and how to read it on stderr. The page has changes,
    operating points at each load, click curve and score quantiles, too."""
    path = write_drawn(tmp_path / "log.parquet")

    run = called("auction", path, *NAMED, "--sweep", "--loads", "0.9,1", "--report", "out.html")

    lines = run.stdout.splitlines()
    assert lines[0] == "log.parquet: 2,000 pages, 28,000 candidates"
    assert lines[1].split() == ["baseline", "candidate", "change", "95", "%", "interval"]
    headings = {line[:25].strip() for line in lines}
    assert headings >= {"clicks a page", "revenue of 1,000 pages", "AUC", "RIG"}
    assert headings >= {"slots never", "clicks guessed"}
    assert "AUC and RIG rose: they see only what the model in force chose to show." in run.stdout
    assert all(len(line) <= 80 for line in lines if not line.startswith("Fewer"))
    assert "are simulated: what the logged pages would have brought" in run.stderr
    assert "Report: out.html" in run.stderr
    page = (tmp_path / "out.html").read_text()
    for words in (
        "Simulated auctions: log.parquet",
        "Fewer clicks: per page -",
        "What the models would bring",
        "Change from the model in force",
        "Change of clicks at 0.9 times the mainline load",
        "Change of revenue at equal mainline load",
        "Click curve",
        "Errors by score",
        "Made by: ",
    ):
        assert words in page


def test_one_model_is_simulated_alone(tmp_path, called, answered):
    """Its operating points too."""
    rows = [row.rpartition(",")[0] for row in ROWS]
    path = write_rows(tmp_path / "log.csv", *rows, head="page,query,ad,position,clicked,bid,score")

    table = called("auction", path, "--sweep", "--alphas", "1", "--report", "one.html")
    found = answered("auction", path)

    assert "give another with --candidate to compare them" in table.stdout
    assert "change" not in table.stdout.splitlines()[1]
    assert "Change from the model in force" not in (tmp_path / "one.html").read_text()
    assert list(found["rows"]) == ["baseline"]
    assert found["conclusive"] is None


def test_guesses_are_not_concluded_from(tmp_path, answered):
    """The candidate shows an ad that the log never showed."""
    rows = [f"p{n},q,a,1,{n % 2},1,0.5,0.1" for n in range(10)]
    rows += [f"p{n},q,b,,,1,0.1,0.5" for n in range(10)]
    path = write_rows(tmp_path / "log.csv", *rows)
    one_slot = ("--mainline", "1", "--sidebar", "0")

    usual = answered("auction", path, *one_slot)
    allowed = answered("auction", path, *one_slot, "--most-unseen", "1")

    assert usual["verdict"].startswith("Do not conclude: in 100% of the simulated slots")
    assert (usual["conclusive"], allowed["conclusive"]) == (False, True)


def test_warnings_say_why_the_numbers_may_mislead(tmp_path, called):
    """Another model in force, nothing but winners, few clicks, positions that nothing links."""
    path = write_rows(
        tmp_path / "log.csv",
        "p1,q,a,1,1,1,0.1,0.1",
        "p1,q,b,2,1,1,0.9,0.1",
        "p2,q,a,1,0,1,0.1,0.1",
        "p2,q,b,2,0,1,0.9,0.1",
    )

    told = called("auction", path).stderr
    warnings = orjson.loads(called("auction", path, "--json").stdout)["warnings"]

    for words in (
        "repeats only 0% of the logged placements",
        "Every candidate of the log was shown",
        "The log has 2 clicks, too few",
        "Nothing links these positions with the first: 2.",
    ):
        assert f"Careful: {words}" in told.replace("The model in force, simulated, ", "")
        assert any(words in warning for warning in warnings)


def test_a_curve_that_does_not_settle_is_told(tmp_path, called):
    """The only ad that links the positions is clicked in one of them alone."""
    rows = ["p1,q,a,1,1,1,0.5,0.5", "p2,q,a,2,0,1,0.5,0.5"]
    rows += ["p3,q,b,2,1,1,0.5,0.5", "p4,q,b,3,1,1,0.5,0.5"]

    told = called("auction", write_rows(tmp_path / "log.csv", *rows)).stderr

    assert "Careful: The click curve has not settled" in told


def test_a_log_without_clicks_is_no_crash(tmp_path, called):
    """Undefined numbers are - in the table and null in JSON."""
    path = write_rows(tmp_path / "log.csv", *[row.replace(",1,1,", ",1,0,") for row in ROWS])

    run, found = called("auction", path, "--report", "x.html"), called("auction", path, "--json")

    assert run.returncode == 0, run.stderr
    assert "Do not conclude: the baseline has no clicks" in run.stdout
    row = orjson.loads(found.stdout)["rows"]["candidate"]
    assert row["auc"] is row["click_yield_change"] is None
    assert row["click_yield"] == 0.0


def test_the_demo_needs_no_log_and_knows_the_truth(tmp_path, called, answered):
    """AUC and RIG rise, clicks fall, and the truth agrees."""
    table = called("auction", "--demo", "--pages", "4000", "--report", "demo.html")
    found = answered("auction", "--demo", "--pages", "4000")

    assert table.stdout.startswith("Synthetic log 1: 4,000 pages, 56,000 candidates")
    assert "What would really happen" in table.stdout
    assert "What would really happen" in (tmp_path / "demo.html").read_text()
    before, after = found["rows"].values()
    assert after["auc"] > before["auc"]
    assert after["rig"] > before["rig"]
    assert after["click_yield_change_upper"] < 0 > found["truth"]["click_yield_change"]


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_the_log_of_the_demo_can_be_kept_and_read(tmp_path, called, answered, refused, name):
    """It gives the same numbers."""
    demo = ("auction", "--demo", "--pages", "1000")
    run = called(*demo, "--seed", "3", "--write", name)
    shown, read = answered(*demo, "--seed", "3"), answered("auction", name)

    said, kept = refused(*demo, "--write", name), (tmp_path / name).read_bytes()
    answered(*demo, "--write", name, "--force")
    assert f"{name}: 14,000 candidates. Next: sirocco auction {name}" in run.stderr
    assert said == f"sirocco: {name}: --write is there already; --force replaces it"
    assert kept != (tmp_path / name).read_bytes()
    for model, row in shown["rows"].items():
        assert read["rows"][model] == pytest.approx(row)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "give a log of auctions, or --demo for a synthetic one"),
        (("log.csv", "--demo"), "give a log of auctions, or --demo for a synthetic one"),
        (("log.csv", "--write", "x.csv"), "--write goes with --demo only"),
        (("--demo", "--write", "x.json"), "x.json: --write makes a .parquet or a .csv"),
        (("--demo", "--write", "no/x.csv"), "no/x.csv: --write is a file in a folder that is"),
        (("log.csv", "--curve", "em"), "--curve 'em': must be one of mle, naive"),
        (("log.csv", "--sweep", "--alphas", "1,x"), "--alphas '1,x': give numbers from 0 up"),
        (("log.csv", "--sweep", "--loads", "-1"), "--loads '-1': give numbers from 0 up"),
        (("log.csv", "--sweep", "--alphas", ","), "--alphas ',': give numbers from 0 up"),
        (("log.csv", "--mainline", "0", "--sidebar", "0"), "a page must have a slot"),
        (("log.csv", "--report", "x.txt"), "x.txt: a report's name ends in .html"),
        (("log.csv",), "log.csv: there is no such file"),
    ],
)
def test_bad_options_are_one_sentence(refused, arguments, expected):
    """Before any work is done."""
    assert expected in refused("auction", *arguments)


def test_a_log_that_cannot_be_saved_is_an_error(tmp_path, refused):
    """A folder stands where the file would go, which no force replaces."""
    (tmp_path / "x.csv").mkdir()

    said = refused("auction", "--demo", "--pages", "1000", "--write", "x.csv", "--force")

    assert said.startswith("sirocco: x.csv: --write is a file")


def test_help_teaches_the_columns(called):
    """What a row is, and how a stranger starts."""
    run = called("auction", "--help")

    assert "sirocco auction --demo" in run.stdout.partition("Examples")[2]
    for name in ("page", "query", "ad", "position", "clicked", "bid", "score", "candidate"):
        assert f"--{name} " in run.stdout
