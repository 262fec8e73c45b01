"""`sirocco readout`."""

from typing import Any

import numpy as np
import pytest

from evaluation import ab_analysis
from tests.command_line.logs import write

HEAD = "arm,cost,value,outcome\ncontrol,1,0,1\n"


def impressions(users: int = 600, lift: float = 2.0) -> dict[str, Any]:
    """Every second user is in arm "new", which clicks more and pays the same for a click."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(users), 1 + rng.poisson(4, users))
    new = user % 2 == 1
    clicks = rng.random(len(user)) < np.where(new, 0.2 * lift, 0.2)
    return {
        "arm": np.where(new, "new", "control"),
        "user": user,
        "cost": np.where(clicks, rng.uniform(0.5, 1.5, len(user)), 0.0),
        "value": np.where(clicks, 3.0, 0.0),
        "outcome": clicks.astype(np.int64),
    }


@pytest.mark.parametrize("name", ["test.parquet", "test.csv"])
def test_the_numbers_are_those_of_the_library(tmp_path, answered, name):
    """Rows by arm, lifts with intervals, verdicts and the check of the split."""
    log = impressions()

    found = answered("readout", write(tmp_path / name, log), "--unit", "user")

    amounts = log["arm"], log["cost"], log["value"]
    expected = ab_analysis(*amounts, clicks=log["outcome"], control="control", units=log["user"])
    assert list(found["rows"]) == ["control", "new"]
    row, arm = found["rows"]["new"], expected.arms["new"]
    assert row["n"] == arm.impressions
    assert row["units"] == arm.units == 300
    assert row["positives"] == pytest.approx(arm.clicks)
    assert row["cost"] == pytest.approx(arm.cost)
    assert row["value"] == pytest.approx(arm.value)
    for metric in ("rpm", "ctr", "roi"):
        estimate, lift = arm.metrics[metric], expected.lifts["new"][metric]
        assert row[metric] == pytest.approx(estimate.value)
        assert row[f"{metric}_upper"] == pytest.approx(estimate.upper)
        assert found["lifts"]["new"][metric] == pytest.approx(lift.value)
        assert found["lifts"]["new"][f"{metric}_lower"] == pytest.approx(lift.lower)
    assert found["verdicts"]["new"]["ctr"] == "higher"
    assert found["verdicts"]["new"]["roi"] == "no clear difference"
    assert found["split"] == {
        "counted": "units",
        "expected": {"control": 300.0, "new": 300.0},
        "p_value": 1.0,
        "mismatch": False,
    }


def test_tables_and_verdicts_in_words(tmp_path, called):
    run = called("readout", write(tmp_path / "test.parquet", impressions()), "--unit", "user")

    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "test.parquet: arms against control"
    assert "Split by units, found of expected: control 300 of 300, new 300 of 300 (p = 1)." in lines
    assert "RPM: what the platform earns with 1,000 impressions" in lines
    assert any(line.startswith("new: CTR is higher than control's by ") for line in lines)
    assert any(line.startswith("new: no clear difference in ROI from control (") for line in lines)
    assert "Intervals are of 95 %" in run.stderr
    assert "--unit" not in run.stderr
    tables = [line for line in lines if line.startswith((" ", "─"))]
    assert max(map(len, tables)) <= 80


def test_a_wrong_split_is_the_first_thing_said(tmp_path, called, answered):
    """Half and half where nine to one was meant."""
    path = write(tmp_path / "test.parquet", impressions())
    split = ("--split", "control=9", "--split", "new=1")

    run = called("readout", path, "--unit", "user", *split)
    found = answered("readout", path, "--unit", "user", *split)

    alarm = run.stdout.index("(p < 0.0001). THE SPLIT IS WRONG: believe nothing below")
    assert alarm < run.stdout.index("RPM:")
    assert found["split"]["mismatch"] is True
    assert found["split"]["expected"] == {"control": 540.0, "new": 60.0}


def test_columns_have_names_of_their_own(tmp_path, answered):
    log = impressions()
    names = {"arm": "bucket", "cost": "paid", "value": "sales", "outcome": "click"}
    path = write(tmp_path / "test.parquet", {names.get(n, n): c for n, c in log.items()})
    chosen = [text for what, name in names.items() for text in (f"--{what}", name)]

    found = answered("readout", path, *chosen, "--control", "new")

    assert list(found["rows"]) == ["new", "control"]
    assert found["lifts"]["control"]["ctr"] < 0
    assert found["split"]["counted"] == "impressions"


def test_what_the_log_does_not_have_is_left_out_and_said(tmp_path, called, answered):
    """Cost alone gives RPM."""
    log = impressions()
    path = write(tmp_path / "test.parquet", {name: log[name] for name in ("arm", "cost")})

    run = called("readout", path)

    assert run.returncode == 0, run.stderr
    assert "RPM:" in run.stdout
    assert "CTR" not in run.stdout
    assert "ROI" not in run.stdout
    assert "No CTR: the log has no column 'outcome'" in run.stderr
    assert "No ROI: the log has no column 'value'" in run.stderr
    assert "name the user with --unit" in run.stderr
    assert answered("readout", path)["rows"]["new"]["positives"] is None


def test_an_arm_without_clicks_cannot_be_compared(tmp_path, called, answered):
    """Undefined is null in JSON and a dash in the table."""
    log = {**impressions(), "outcome": np.zeros(len(impressions()["arm"]), int)}
    path = write(tmp_path / "test.parquet", log)

    run, found = called("readout", path), answered("readout", path)

    assert "new: CTR cannot be compared with control: in one of the two nothing" in run.stdout
    assert found["rows"]["new"]["ctr"] == 0
    assert found["rows"]["new"]["ctr_upper"] is None
    assert found["lifts"]["new"]["ctr"] is None
    assert found["verdicts"]["new"]["ctr"] == "undefined"


def test_names_of_arms_are_not_markup(tmp_path, called):
    """A name in square brackets is printed as it is."""
    log = impressions()
    path = write(
        tmp_path / "test.parquet", {**log, "arm": np.where(log["arm"] == "new", "[red]", "[b]")}
    )

    run = called("readout", path, "--control", "[b]")

    assert "[red]: CTR is higher than [b]'s" in run.stdout


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("new,-1,0,1", "cost = -1.0; a cost is a number from 0 up"),
        ("new,inf,0,1", "cost = inf; a cost is a number from 0 up"),
        ("new,,0,1", "cost = ''; a cost is a number from 0 up"),
        ("new,1,-3,1", "value = -3.0; a value is a number from 0 up, 0 where nothing came back"),
        ("new,1,,1", "value = ''; a value is a number from 0 up, 0 where nothing came back"),
        ("new,1,0,2", "outcome = 2.0; an outcome is a number in [0, 1], 1 for a click"),
        (",1,0,1", "arm = ''; an arm must have a name"),
    ],
)
def test_a_bad_value_is_named_with_its_row(tmp_path, refused, row, expected):
    """File, row, column, value and rule."""
    (tmp_path / "test.csv").write_text(f"{HEAD}{row}\n")

    assert f"test.csv, row 2: {expected}" in refused("readout", "test.csv")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--control", "old"), "--control 'old': test.csv has no such arm. It has: control, new"),
        (("--cost", "price"), "test.csv has no column 'price': name the cost column with --cost."),
        (
            ("--value", "worth"),
            "test.csv has no column 'worth': name the value column with --value",
        ),
        (("--unit", "user"), "test.csv has no column 'user': name the unit column with --unit."),
        (("--split", "control=1"), "--split must name every arm of test.csv once: control, new"),
        (("--split", "control"), "--split 'control': give ARM=SHARE, once for each arm"),
        (
            ("--split", "new=1", "--split", "new=2"),
            "--split 'new=2': give ARM=SHARE, once for each arm",
        ),
        (("--split", "new=half"), "--split 'new=half': a share is a number above 0"),
        (("--split", "new=0"), "--split 'new=0': a share is a number above 0"),
        (("--split", "new=inf"), "--split 'new=inf': a share is a number above 0"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, refused, options, expected):
    (tmp_path / "test.csv").write_text(f"{HEAD}new,1,0,0\n")

    assert expected in refused("readout", "test.csv", *options)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (HEAD, (), " has the arm 'control' only, and nothing to compare it with"),
        ("arm,cost,cost\ncontrol,1,1\n", (), " has 2 columns named 'cost'"),
        (
            "arm,cost,user\ncontrol,1,u\nnew,1,\n",
            ("--unit", "user"),
            ", row 2: user = ''; a unit must have a name",
        ),
    ],
    ids=["one arm", "a name twice", "a unit without a name"],
)
def test_a_log_that_is_no_test_is_refused(tmp_path, refused, text, options, expected):
    (tmp_path / "test.csv").write_text(text)

    assert f"test.csv{expected}" in refused("readout", "test.csv", *options)


def test_a_column_of_users_is_no_column_of_arms(tmp_path, refused):
    path = write(tmp_path / "test.parquet", impressions())

    said = refused("readout", path, "--arm", "user", "--control", "0")

    assert "test.parquet has 600 arms, and 50 are the most" in said
