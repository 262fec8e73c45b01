"""`sirocco compare`: two models on the same impressions."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from evaluation import log_loss, scorecard
from tests.command_line.model_logs import expit, impressions, two_logs, write

QUICK = ("--draws", "100")


def test_rows_are_the_metrics_of_both_and_the_better_is_named(tmp_path, answered):
    a, b = two_logs(tmp_path, noise=1.0)

    found = answered("compare", a, b, *QUICK)

    table = pq.read_table(b).to_pydict()
    card = scorecard(table["score"], table["outcome"], table["campaign"])
    assert list(found["rows"]) == ["A", "B"]
    assert {name: found["rows"]["B"][name] for name in card} == pytest.approx(card)
    difference = found["differences"]["log_loss"]
    assert difference["value"] == pytest.approx(
        found["rows"]["A"]["log_loss"] - found["rows"]["B"]["log_loss"]
    )
    assert difference["better"] == "A"
    assert difference["lower"] < difference["value"] < difference["upper"] < 0
    assert (found["unit"], found["blocks"]) == ("campaign-days", 12)
    verdict = found["verdict"]
    assert verdict.startswith("A is better: log loss A less B -0.")
    assert "It stays better once the overall bias of both is taken out" in verdict
    assert "A ranks better" in verdict
    assert "PCOC" in verdict


def test_a_model_that_needs_calibration_only(tmp_path, answered):
    """Better ranking, worse level: calibrate it and it wins."""
    columns = impressions(6_000)
    noise = np.random.default_rng(1).normal(0, 1.0, 6_000)
    a = write(tmp_path / "a.parquet", columns, score=expit(columns["odds"] + 1.5))
    b = write(tmp_path / "b.parquet", columns, score=expit(columns["odds"] * 0.6 - 0.6 + noise))

    verdict = answered("compare", a, b, *QUICK)["verdict"]

    assert verdict.startswith("B is better as it is: log loss")
    assert "Calibrate A, and it wins." in verdict
    assert "A ranks better" in verdict
    assert "B predicts nearer to what happens" in verdict


def test_a_model_that_is_off_in_level_only(tmp_path, answered):
    verdict = answered("compare", *two_logs(tmp_path, shift=0.6), *QUICK)["verdict"]

    assert verdict.startswith("A is better: log loss")
    assert "they cannot be told apart" in verdict
    assert "what B lacks is its level" in verdict
    assert "Neither ranks better beyond chance." in verdict


def test_one_score_for_all_does_not_rank_better_without_a_word(tmp_path, answered):
    """csAUC pays a tie in full, so that of a constant is 1 where bids are equal."""
    columns = impressions()
    noise = np.random.default_rng(1).permutation(columns["score"])
    a = write(tmp_path / "a.parquet", columns, score=noise, bid=np.ones(4_000))
    b = write(tmp_path / "b.parquet", columns, score=np.full(4_000, 0.1), bid=np.ones(4_000))

    found = answered("compare", a, b, *QUICK)

    assert found["rows"]["B"]["cs_auc"] == 1.0
    assert found["differences"]["auc"]["better"] is None
    assert "(csAUC, in money). csAUC pays pairs of one score x bid in full" in found["verdict"]


def test_models_that_cannot_be_told_apart(tmp_path, answered):
    """It says how many more days it would take, roughly."""
    columns = impressions()
    errors = np.random.default_rng(5).normal(0, 0.4, (2, 4_000))
    a, b = (
        write(tmp_path / f"{name}.parquet", columns, score=expit(columns["odds"] + error))
        for name, error in zip("ab", errors, strict=True)
    )

    verdict = answered("compare", a, b, *QUICK)["verdict"]

    assert verdict.startswith("A and B cannot be told apart on this log: log loss A less B")
    assert "would be needed" in verdict or "it would take more than 100 times" in verdict


def test_calibration_decides_where_log_loss_cannot(tmp_path, answered):
    """A ranks better and is too high by as much as that is worth."""
    columns = impressions(6_000)
    noise = np.random.default_rng(1).normal(0, 0.8, 6_000)
    a = write(tmp_path / "a.parquet", columns, score=expit(columns["odds"] + 0.69))
    b = write(tmp_path / "b.parquet", columns, score=expit(columns["odds"] - 0.2 + noise))

    verdict = answered("compare", a, b, *QUICK)["verdict"]

    assert verdict.startswith("A and B cannot be told apart on this log")
    assert "With the overall bias of both taken out A is better" in verdict
    assert "Calibrate A, and it wins." in verdict


def test_the_same_column_twice_is_zero_by_construction(tmp_path, answered):
    a, _ = two_logs(tmp_path)

    found = answered("compare", a, a, *QUICK)

    assert found["verdict"] == (
        "A and B are the same column of the same file: every difference is zero by construction."
    )
    assert {d["value"] for d in found["differences"].values()} == {0.0}


def test_equal_scores_of_two_files(tmp_path, answered):
    a, b = two_logs(tmp_path)

    verdict = answered("compare", a, b, *QUICK)["verdict"]

    assert verdict == "A and B give every impression the same score: every difference is zero."


def test_two_columns_of_one_log(tmp_path, answered):
    columns = impressions(500)
    log = write(tmp_path / "log.parquet", columns, new=columns["score"] / 2)

    found = answered("compare", log, log, "--score-b", "new", *QUICK)

    assert found["rows"]["B"]["pcoc"] == pytest.approx(found["rows"]["A"]["pcoc"] / 2)
    assert found["names"]["B"].endswith("log.parquet, new")


def test_what_one_log_lacks_is_taken_from_the_other(tmp_path, answered):
    """Scores alone are enough of B; bids are taken from where they are."""
    columns = impressions(500)
    bids = np.random.default_rng(1).lognormal(0, 1, 500)
    a = write(tmp_path / "a.parquet", columns, time=None, bid=bids)
    b = write(tmp_path / "b.parquet", columns, campaign=None, outcome=None)

    found = answered("compare", a, b, *QUICK)

    assert found["rows"]["A"]["n"] == 500
    assert "cs_auc" in found["differences"]


def test_text_and_parquet_in_step(tmp_path, answered):
    """Batches of different lengths; times that a file rounds to milliseconds are the same."""
    columns = impressions(3_000)
    a = write(tmp_path / "a.parquet", columns, time=columns["time"] + 4e-4)
    names = ["time", "campaign", "score", "outcome"]
    lines = [",".join(names)]
    lines += [
        f"{t!r},{c},{s / 2!r},{y}"
        for t, c, s, y in zip(*(columns[name].tolist() for name in names), strict=True)
    ]
    b = tmp_path / "b.csv"
    b.write_text("\n".join(lines))

    found = answered("compare", a, b, *QUICK)

    assert found["rows"]["B"]["pcoc"] == pytest.approx(found["rows"]["A"]["pcoc"] / 2)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("campaign", "other", "the campaign is '{before}' in a.parquet and 'other' in b.parquet"),
        ("outcome", 0.25, "the outcome is {before} in a.parquet and 0.25 in b.parquet"),
        ("time", 1_767_225_600.0, "in a.parquet and 2026-01-01T00:00:00+00:00 in b.parquet"),
    ],
)
def test_rows_must_be_the_same_impressions(tmp_path, refused, column, value, said):
    """The first row that differs is named, with both values."""
    columns = impressions(50)
    changed = columns[column].astype(object if isinstance(value, str) else float)
    before = changed[6] if isinstance(value, str) else f"{changed[6]:g}"
    changed[[6, 9]] = value
    a = write(tmp_path / "a.parquet", columns)
    b = write(tmp_path / "b.parquet", columns, **{column: changed.tolist()})

    message = refused("compare", a, b)

    assert message.startswith(f"sirocco: row 7: the {column} is ")
    assert said.format(before=before) in message
    assert "the same impressions in the same order, or name an id" in message


@pytest.mark.parametrize("longer", ["a", "b"])
def test_logs_must_have_as_many_rows(tmp_path, refused, longer):
    columns = impressions(50)
    short = {name: column[:30] for name, column in columns.items()}
    a, b = (
        write(tmp_path / f"{name}.parquet", columns if name == longer else short) for name in "ab"
    )

    message = refused("compare", a, b)

    counts = ("50", "30") if longer == "a" else ("30", "50")
    assert f"a.parquet has {counts[0]} rows, {b} has {counts[1]}" in message


def test_an_id_joins_rows_in_any_order(tmp_path, answered):
    columns = impressions(2_000)
    order = np.random.default_rng(3).permutation(2_000)
    ids = np.array([f"imp-{n}" for n in range(2_000)])
    other = {"key": ids[order], "score": expit(columns["odds"] * 0.5)[order]}
    a = write(tmp_path / "a.parquet", columns, key=ids)
    b = write(tmp_path / "b.parquet", other)

    found = answered("compare", a, b, "--id", "key", *QUICK)

    expected = log_loss(expit(columns["odds"] * 0.5), columns["outcome"])
    assert found["rows"]["B"]["log_loss"] == pytest.approx(expected)


def test_ids_must_be_in_both_logs(tmp_path, refused):
    columns = impressions(40)
    a = write(tmp_path / "a.parquet", columns, key=np.arange(40))
    b = write(tmp_path / "b.parquet", columns, key=np.arange(3, 43))

    message = refused("compare", a, b, "--id", "key")

    assert f"3 ids of {a} are not in {b}, 3 of {b} are not in {a}" in message


@pytest.mark.parametrize("twice", ["a", "b"])
def test_an_id_stands_for_one_row(tmp_path, refused, twice):
    columns, ids = impressions(40), np.arange(40)
    doubled = np.where(ids < 3, 0, ids)
    a, b = (
        write(tmp_path / f"{name}.parquet", columns, key=doubled if name == twice else ids)
        for name in "ab"
    )

    message = refused("compare", a, b, "--id", "key")

    assert f"{twice}.parquet: 2 rows have an id that stands in a row before" in message
    assert "column 'key' must hold every id once" in message


def test_rows_of_one_id_must_agree(tmp_path, refused):
    columns = impressions(40)
    a = write(tmp_path / "a.parquet", columns, key=np.arange(40))
    b = write(tmp_path / "b.parquet", columns, key=np.arange(40), outcome=1 - columns["outcome"])

    assert "rows of one id must be the same impression" in refused("compare", a, b, "--id", "key")


@pytest.mark.parametrize(
    ("score", "said"),
    [(1.5, "score = 1.5; a score must be a number in [0, 1]"), (np.nan, "score = nan")],
)
def test_a_bad_score_is_named(tmp_path, refused, score, said):
    columns = impressions(30)
    bad = columns["score"].copy()
    bad[4] = score
    a = write(tmp_path / "a.parquet", columns)
    b = write(tmp_path / "b.parquet", columns, score=bad)

    assert f"b.parquet, row 5: {said}" in refused("compare", a, b)


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_only(tmp_path, refused, outcome):
    log = write(tmp_path / "a.parquet", impressions(30), outcome=np.full(30, outcome))

    message = refused("compare", log, log)

    assert f"the outcomes of all 30 rows are {outcome}: nothing can be ranked" in message
    log = write(tmp_path / "one.parquet", impressions(1), outcome=np.full(1, outcome))
    assert f": the only outcome is {outcome}: nothing" in refused("compare", log, log)


def test_a_log_without_rows(tmp_path, refused):
    columns = impressions(30)
    a = write(tmp_path / "a.parquet", columns)
    b = write(tmp_path / "b.parquet", {name: column[:0] for name, column in columns.items()})

    assert refused("compare", a, b).endswith("b.parquet: the log has no rows")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--score-a", "old"), "a.parquet has no column 'old': name the score-a column"),
        (("--score-b", "old"), "b.parquet has no column 'old': name the score-b column"),
        (("--id", "key"), "has no column 'key': name the id column with --id"),
        (("--time", "when"), "neither a.parquet nor b.parquet has a column of the time"),
        (("--bias-share", "1"), "--bias-share 1: must be above 0 and below 1"),
        (("--report", "page.txt"), "page.txt: a report's name ends in .html"),
    ],
)
def test_an_option_that_does_not_fit(tmp_path, refused, arguments, said):
    assert said in refused("compare", *two_logs(tmp_path, rows=30), *arguments)


def test_few_rows_for_the_bias_are_told(tmp_path, answered):
    """The calibrated log loss is undefined then, and the rest is not."""
    columns = impressions(400)
    clicks = np.arange(400) % 100 == 0
    a = write(tmp_path / "a.parquet", columns, outcome=clicks.astype(int))
    b = write(tmp_path / "b.parquet", columns, outcome=None, score=columns["score"] / 9)

    found = answered("compare", a, b, "--bias-share", "0.01", *QUICK)

    assert found["rows"]["A"]["calibrated_log_loss"] is None
    assert "the calibrated log loss is undefined" in found["warnings"][0]
    assert "calibrated" not in found["verdict"]


def test_few_campaign_days_are_told(tmp_path, answered):
    found = answered("compare", *two_logs(tmp_path, rows=300, days=1), *QUICK)

    assert found["unit"] == "campaign-hours"
    assert "fewer than 10 campaign-days" in found["warnings"][0]


def test_a_few_rows_have_no_interval(tmp_path, answered):
    """One campaign-hour: only values."""
    columns = impressions(20)
    one = {"time": np.full(20, columns["time"][0]), "campaign": ["x"] * 20}
    a = write(tmp_path / "a.parquet", columns, **one)
    b = write(tmp_path / "b.parquet", columns, **one, score=columns["score"] / 2)

    found = answered("compare", a, b, *QUICK)

    assert found["verdict"].startswith("There is too little to compare")
    assert found["differences"]["log_loss"]["lower"] is None


def test_without_draws_there_is_no_interval(tmp_path, called):
    run = called("compare", *two_logs(tmp_path, noise=1.0), "--draws", "0")

    assert "A has the lower log loss; whether by chance, nobody can tell" in run.stdout
    assert " to " not in run.stdout


@pytest.mark.slow
def test_a_seed_is_an_answer(tmp_path, answered):
    logs = two_logs(tmp_path, noise=0.3, rows=500)

    first, again, other = (answered("compare", *logs, *QUICK, "--seed", seed) for seed in (1, 1, 2))

    assert first == again
    assert first["differences"]["log_loss"]["lower"] != other["differences"]["log_loss"]["lower"]


def test_a_table_fits_a_terminal_of_80_columns(tmp_path, called):
    """And comes with how to read it. The page has the verdict too, and the charts."""
    columns = impressions()
    bids = np.random.default_rng(1).lognormal(0, 1, 4_000)
    a = write(tmp_path / "a.parquet", columns, bid=bids)
    b = write(tmp_path / "b.parquet", columns, score=columns["score"] ** 1.3)

    run = called("compare", a, b, *QUICK, "--report", "page.html")

    table = run.stdout.split("B: ")[1].split("\n\n")[0].splitlines()[1:]
    assert max(map(len, table)) <= 80
    assert "log loss" in run.stdout
    assert "A calibrated loss is what is left" in run.stderr
    assert "95 % intervals over 12 campaign-days, drawn 100 times." in run.stderr
    assert "Report: page.html" in run.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run.stdout.strip().rpartition("\n\n")[2] in page
    assert page.count("<svg") >= 6
    for title in ("A against B", "hour by hour", "by campaign", "csAUC", "low scores"):
        assert title in page
    assert "http://" not in page.replace("http://www.w3.org", "")
