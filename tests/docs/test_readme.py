"""The first page must hold what it promises."""

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import middle
from benchmarks.http.calibrate_ratios import FRAMEWORKS, column_of
from benchmarks.report.page import other_machines
from benchmarks.report.results import saved
from tests.docs.pages import ROOT, code_blocks, text_of
from tests.docs.shown_commands import shown_commands
from tests.recorded.commands import sirocco

README = text_of("README.md")
_SHOWN_URL = "http://127.0.0.1:8080"
_EXAMPLE_LINES = 12


def test_client_example_prints_what_it_shows(service, capsys):
    """Whoever pastes the example into a shell beside a fresh service sees the printed lines."""
    example = code_blocks(README, "python")[0]
    shown = code_blocks(README, "text")[0]
    assert _SHOWN_URL in example

    names: dict[str, Any] = {}
    exec(compile(example.replace(_SHOWN_URL, service.url), "README.md", "exec"), names)
    names["sirocco"].close()

    assert capsys.readouterr().out == shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the log that the page has written."""
    here: Path = tmp_path_factory.mktemp("readme")
    (simulated,) = re.findall(r"^\.venv/bin/sirocco (simulate log\.parquet .+)$", README, re.M)
    assert sirocco(simulated, here).endswith("--- exit code 0\n")
    return here


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shown", shown_commands(), ids=lambda shown: shown.line.split()[0])
def test_commands_print_what_the_page_shows(shown, folder):
    """The page may end before the output does, and another processor round the last digit."""
    printed = sirocco(shown.line, folder).partition("\n--- stderr\n")[0].split()

    assert len(shown.words) > 20
    pairs = zip_longest(printed[: len(shown.words)], shown.words, fillvalue="")
    assert [pair for pair in pairs if not are_the_same(*pair)] == []


def are_the_same(printed: str, shown: str) -> bool:
    """Words, or numbers of as many digits whose last ones are neighbours."""
    number = re.compile(r"-?\d+\.(\d+)")
    found, expected = number.fullmatch(printed), number.fullmatch(shown)
    if not (found and expected and len(found[1]) == len(expected[1])):
        return printed == shown
    return round(abs(float(printed) - float(shown)) * 10 ** len(found[1])) <= 1


def test_neighbours_of_the_last_digit_are_the_same():
    """Nothing else is."""
    assert are_the_same("0.10871", "0.10870")
    assert not are_the_same("0.10872", "0.10870")
    assert not are_the_same("0.1087", "0.10870")
    assert not are_the_same("11", "10")


def test_every_block_of_output_is_of_a_command_that_is_run():
    """But for what `make run` prints, whose traffic is that of the hours before it is started."""
    outputs = [block for block in code_blocks(README, "") if "──" in block or "PCOC" in block]
    of_now = [block for block in outputs if block.startswith("20 synthetic campaigns")]

    assert len(of_now) == 1
    assert len(outputs) - len(of_now) == len(shown_commands()) == 4


def test_client_example_stays_short():
    """Ten lines or so: a reader decides on them."""
    lines = [line for line in code_blocks(README, "python")[0].splitlines() if line.strip()]
    assert len(lines) <= _EXAMPLE_LINES


def test_two_commands_are_targets_of_make():
    """`make run` and `make test` are named, and exist."""
    targets = re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE)

    named = re.findall(r"^make (\w+)", README, re.MULTILINE)

    assert {"run", "test"} <= set(named) <= set(targets)


def number_after(words: str) -> float:
    """The number that follows the words of the page, wherever its lines end."""
    found = re.search(re.escape(words) + r" ([\d,.]+)( million)?", " ".join(README.split()))
    assert found is not None, words
    return float(found[1].replace(",", "")) * (1e6 if found[2] else 1)


@pytest.mark.parametrize(
    ("words", "form", "size"),
    [
        ("a small cloud machine answered more than", "columns", 1),
        ("of one score, more than", "columns", 100),
        ("batches of 100, and more than", "binary, ids", 1_000),
    ],
)
def test_it_is_as_fast_as_it_was_measured_to_be(words, form, size):
    """On the slowest machine, and not so much slower that the page is out of date."""
    kept = other_machines(ROOT / "docs/benchmarks")
    others = [one["predictions/s of a core"][form][column_of(size)] for one in kept]
    rates = saved()["calibrate"].ratios[f"predictions/s of a core, {form}"]

    assert 0.7 < number_after(words) / min(middle(rates[column_of(size)]), *others) <= 1


def test_model_servers_are_no_nearer_than_it_says():
    ratios = saved()["calibrate"].ratios
    settings = [ratios[f"{name} over sirocco, its best setting"] for name in FRAMEWORKS]
    nearest = min(middle(row[column_of(size)]) for row in settings for size in (1, 100))

    assert 0.7 < number_after("single map took more than") / nearest <= 1
