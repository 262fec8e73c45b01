"""`sirocco reproduce`."""

import re
from collections.abc import Iterator
from dataclasses import replace

import orjson
import pytest

from research.reproduction import Experiment, Reproduction, registry
from research.reproduction.experiment import Progress, arithmetic, banded, bounded, printed
from research.reproduction.registry import EXPERIMENTS
from research.reproduction.tables import Finished, Size, counts_of, duration, run_each

EXACT = ("csauc", "auc_anomalies", "calibration_tables", "printed_coherence")


def run_of_wrong(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    progress(0.5)
    checks = (
        printed("wrong | digit", "0.5", 0.9),
        bounded("order", float("inf"), above=1.0),
        banded("chance", float("nan"), 1.0, 0.1, checked=False),
    )
    return Reproduction("wrong", "Wrong!", "nowhere", checks)


WRONG = Experiment("wrong", "Wrong!", "an experiment that differs", 0.1, run_of_wrong)


@pytest.fixture
def with_wrong(monkeypatch) -> None:
    experiments = {name: EXPERIMENTS[name] for name in ("csauc", "calibration_tables")}
    monkeypatch.setattr(registry, "EXPERIMENTS", {**experiments, "wrong": WRONG})


def test_without_a_name_the_experiments_are_listed(called):
    """Each with what it repeats and how long it takes; nothing is run."""
    run = called("reproduce")

    assert run.returncode == 0
    for experiment in EXPERIMENTS.values():
        assert re.search(rf"^{experiment.name} +\S", run.stdout, re.MULTILINE)
    assert "takes about" in run.stdout
    assert "sirocco reproduce --all" in run.stderr


def test_the_help_has_examples(called):
    run = called("reproduce", "--help")

    assert "sirocco reproduce csauc" in run.stdout.partition("Examples")[2]


def test_paper_and_ours_stand_side_by_side(called):
    """With tolerance and verdict; errata and a count below."""
    run = called("reproduce", "csauc")

    assert run.returncode == 0, run.stderr
    assert re.search(r"Seq1 DCBAE +0\.2976 +0\.29762 +± 5e-05 +agrees", run.stdout)
    assert re.search(r"Seq5 BCDEA +0\.9 +0\.75 +± 0\.05 +paper errs", run.stdout)
    assert "multiple of 1/8" in " ".join(run.stdout.partition("Errata")[2].split())
    assert re.search(r"csauc: 31 x agrees  2 x paper errs", run.stdout)


def test_several_names_are_run_in_their_order_and_once(called):
    run = called("reproduce", "calibration_tables", "csauc", "calibration_tables", "--json")

    assert list(orjson.loads(run.stdout)["rows"]) == ["calibration_tables", "csauc"]


def test_json_has_counts_and_every_check(called):
    run = called("reproduce", *EXACT, "--json", "--quick", "--seed", 3)

    content = orjson.loads(run.stdout)
    assert (content["quick"], content["seed"]) == (True, 3)
    assert list(content["rows"]) == list(EXACT)
    csauc = content["rows"]["csauc"]
    assert csauc["agrees"] == 31
    assert csauc["paper_errs"] == 2
    assert csauc["differs"] == csauc["not_checked"] == csauc["shown"] == csauc["arithmetic"] == 0
    # Nothing there is computed by us.
    coherence = content["rows"]["printed_coherence"]
    apart = coherence.pop("arithmetic"), coherence.pop("seconds")
    assert set(coherence.values()) == {0}
    assert apart[0] == len(content["experiments"]["printed_coherence"]["checks"])
    content["rows"]["printed_coherence"]["arithmetic"] = apart[0]
    assert csauc["seconds"] > 0
    for name, experiment in content["experiments"].items():
        assert {"title", "source", "notes", "errata", "checks"} == set(experiment)
        assert len(experiment["checks"]) == sum(
            count for what, count in content["rows"][name].items() if what != "seconds"
        )
    assert content["experiments"]["csauc"]["checks"][0] == {
        "part": "Table 3, csAUC",
        "what": "Seq1 DCBAE",
        "paper": 0.2976,
        "paper_text": "0.2976",
        "ours": pytest.approx(125 / 420),
        "low": pytest.approx(0.29755),
        "high": pytest.approx(0.29765),
        "tolerance": "± 5e-05",
        "verdict": "agrees",
        "arithmetic": False,
    }


def test_checks_without_our_code_are_marked_and_counted_apart(called):
    run = called("reproduce", "auc_anomalies")

    assert re.search(r"total of search +34 +34 .*agrees \(arithmetic\)", run.stdout)
    assert re.search(r"\d+ x agrees +\d+ x paper errs", run.stdout)
    assert re.search(r"\d+ x agrees by arithmetic", run.stdout)


def test_a_difference_by_arithmetic_is_a_difference():
    found = run_of_wrong(quick=True, seed=0, progress=lambda share: None)
    apart = replace(found, checks=[*arithmetic(found.checks)])

    assert apart.differs
    counts = counts_of(Finished(WRONG, apart, 0.1))
    assert (counts["agrees"], counts["differs"], counts["arithmetic"]) == (0, 1, 2)


@pytest.mark.usefixtures("with_wrong")
def test_a_difference_is_exit_code_1(called):
    run = called("reproduce", "wrong", "csauc")

    assert run.returncode == 1
    assert "1 x differs" in run.stdout
    assert "1 x not checked in quick" in run.stdout
    assert "csauc: 31 x agrees" in run.stdout


@pytest.mark.usefixtures("with_wrong")
def test_what_is_infinite_or_undefined_is_null(called):
    run = called("reproduce", "wrong", "--json")

    assert run.returncode == 1
    _, order, chance = orjson.loads(run.stdout)["experiments"]["wrong"]["checks"]
    assert (order["ours"], order["high"], order["verdict"]) == (None, None, "agrees")
    assert (chance["ours"], chance["verdict"]) == (None, "not checked in quick")


@pytest.mark.usefixtures("with_wrong")
def test_all_runs_everything_and_writes_the_page(tmp_path, called):
    run = called("reproduce", "--all", "--quick", "--seed", 2, "--write", "reproduction.md")

    assert run.returncode == 1
    assert "reproduction.md: written" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["reproduction.md"]
    page = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert "`sirocco reproduce --all --quick --seed 2 --write reproduction.md`" in page
    assert "do not edit" in page
    assert re.search(r"UTC", page)
    assert "* Machine: " in page
    assert "* Size: quick, with wider bands and fewer checks; seed 2" in page
    assert "| [csauc](#csauc-of-six-orders) | 31 | 2 | 0 | 0 | 0 | 0 | " in page
    assert "| [wrong](#wrong) | 1 | 0 | **1** | 1 | 0 | 0 | " in page
    assert "## Wrong!\n" in page
    assert "| wrong \\| digit | 0.5 | 0.90 | ± 0.05 | **differs** |" in page
    assert "| order | - | ∞ | > 1.000 | agrees |" in page


def test_a_page_reads_well(tmp_path, called):
    """Lines of at most 100 characters but for tables, errata up front, every link leads on."""
    called("reproduce", *EXACT, "--write", "page.md")

    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    prose = [line for line in page.splitlines() if line[:1] not in "|" and "`sirocco" not in line]
    assert max(map(len, prose)) <= 100
    assert page.index("Printed digits that cannot be right") < page.index("\n## csAUC")
    titles = {_anchor(line[3:]) for line in page.splitlines() if line.startswith("## ")}
    links = set(re.findall(r"\]\(#([^)]*)\)", page))
    assert len(links) == len(EXACT)
    assert links <= titles
    assert "* Size: full; seed 0" in page
    assert not re.search(r"\n\n\n", page)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.usefixtures("with_wrong")
def test_a_page_without_errata_says_so(tmp_path, called):
    called("reproduce", "wrong", "--write", "page.md")

    assert "* none among these experiments" in (tmp_path / "page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("csau",), "csau: there is no such experiment; is it csauc?"),
        (("xyz",), "xyz: there is no such experiment; there are csauc, auc_anomalies"),
        (("csauc", "--all"), "give names of experiments or --all, not both"),
        (("--json",), "--json: give names of experiments or --all"),
        (("csauc", "--write", "page.html"), "page.html: a page's name ends in .md"),
        (("csauc", "--write", "none/page.md"), "none/page.md: there is no folder"),
    ],
)
def test_bad_input_is_one_sentence_before_any_work(called, arguments, expected):
    run = called("reproduce", *arguments)

    assert run.returncode == 2
    assert run.stderr.startswith(f"sirocco: {expected}")
    assert run.stdout == ""


def test_a_page_without_experiments_is_refused(called):
    run = called("reproduce", "--write", "page.md")

    assert run.returncode == 2
    assert "--write: give names of experiments or --all" in run.stderr


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path, called):
    (tmp_path / "page.md").mkdir()

    run = called("reproduce", "csauc", "--write", "page.md")

    assert run.returncode == 1
    assert "sirocco: page.md: " in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def shares(*values: float) -> Iterator[Experiment]:
    def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
        for value in values:
            progress(value)
        return Reproduction("x", "X", "paper", ())

    yield replace(WRONG, run=run)


def test_the_bar_takes_any_shares(capsys):
    """Backwards or beyond the end it does not move."""
    runs = list(run_each(list(shares(0.1, 0.05, 0.55, 1.0, 1.2)), Size(True, 0), shown=True))

    assert len(runs) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01, "1 s"), (25.0, "25 s"), (90.0, "1.5 min"), (600.0, "10 min")]
)
def test_durations_are_rounded(seconds, text):
    assert duration(seconds) == text
