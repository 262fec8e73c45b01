"""The list of experiments, and what a run of one says."""

import re

import pytest

from research.reproduction import Conclusion, Erratum, Reproduction
from research.reproduction.experiment import printed, shown
from research.reproduction.registry import EXPERIMENTS

RIGHT = printed("x", "1.0", 1.0)
WRONG = printed("y", "1.0", 2.0, part="Table 1")
MISPRINTED = printed(
    "z", "1.0", 2.0, part="Table 1", erratum=Erratum.exact(2.0, "Two of two, by hand.")
)


def reproduction(*checks):
    return Reproduction("x", "X", "paper", checks)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_listed_under_its_name(name):
    """In one line of a terminal, with a time."""
    experiment = EXPERIMENTS[name]

    assert experiment.name == name
    assert re.fullmatch(r"[a-z_]+", name)
    assert 0 < len(experiment.about) <= 100
    assert experiment.title
    assert experiment.seconds > 0


def test_titles_are_unique():
    """They are the headings of one page."""
    titles = [experiment.title for experiment in EXPERIMENTS.values()]

    assert len(set(titles)) == len(titles)


def test_a_run_counts_verdicts():
    """One of each kind."""
    found = reproduction(RIGHT, WRONG, MISPRINTED, shown("s", 1.0))

    assert found.counts == {
        Conclusion.AGREES: 1,
        Conclusion.DIFFERS: 1,
        Conclusion.PAPER_ERRS: 1,
        Conclusion.SHOWN: 1,
    }


def test_a_run_differs_when_one_check_does():
    """An erratum of the paper is no difference."""
    assert reproduction(RIGHT, WRONG).differs
    assert not reproduction(RIGHT, MISPRINTED, shown("s", 1.0)).differs


def test_errata_are_of_checks_that_found_one():
    """With the printed number, ours and the reason."""
    assert reproduction(RIGHT, WRONG, MISPRINTED).errata == [
        "Table 1, z: printed 1.0, is 2.00. Two of two, by hand."
    ]
