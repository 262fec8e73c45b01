"""Targets of the worlds with fields, worked out by hand."""

from research.leaderboard.fields.scores import Summary
from research.leaderboard.fields.tables import Result, as_markdown


def summary(excess: float, rce: float = 0.1, new: float = 0.0) -> Summary:
    return {
        "excess": excess,
        "new_excess": new,
        "new_impressions": int(new),
        "field_rce": {"device": rce, "country": 0.2},
        "cpu": 10.0,
    }


def result(world: str, seed: int, **found: Summary) -> Result:
    truth = summary(0.0, new=found[next(iter(found))]["new_impressions"])
    return Result(world=world, seed=seed, found={"truth": truth, **found}, unavailable={})


def rows_of(results: list[Result]) -> dict[str, list[str]]:
    table = as_markdown(results).split("\n\n")[1]
    cells = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    return {name: row for name, *row in cells}


def test_targets_are_ratios_of_means_and_say_what_is_missed():
    """Methods that were run apart count together; a rival that was not run leaves its cell empty,
    and so does a world that a target is not of."""
    rows = rows_of(
        [
            result("mix", 0, pooled_fields=summary(30.0, rce=0.12), pooled=summary(90.0)),
            result("mix", 0, lightgbm=summary(40.0), mcgrad=summary(35.0)),
            result("mix", 1, pooled_fields=summary(50.0, rce=0.16), pooled=summary(110.0)),
            result("mix", 1, lightgbm=summary(60.0), mcgrad=summary(75.0)),
            result("none", 0, pooled_fields=summary(67.0), pooled=summary(66.0)),
        ]
    )

    assert rows["target"] == ["mix", "none"]
    assert rows["excess of `pooled`, ≤ 0.5"] == ["0.40", ""]
    assert rows["excess of LightGBM or MCGrad, ≤ 0.7"] == ["**missed: 0.80**", ""]
    assert rows["excess of the composite key, ≤ 1"] == ["", ""]
    assert rows["excess of `pooled`, no effects, ≤ 1.02"] == ["", "1.02"]
    assert rows["Field-RCE of the truth, worst field, ≤ 1.3"] == ["**missed: 1.40**", "1.00"]


def test_groups_count_where_they_were_given_and_new_campaigns_where_there_are_any():
    new = {"pooled": summary(90.0, new=50.0), "pooled_fields": summary(60.0, new=45.0)}
    rows = rows_of([result("advertisers", 0, pooled_groups=summary(27.0, new=10.0), **new)])

    assert rows["excess of `pooled`, ≤ 0.5"] == ["0.30"]
    assert rows["excess of `pooled`, new campaigns, ≤ 0.6"] == ["0.20"]
