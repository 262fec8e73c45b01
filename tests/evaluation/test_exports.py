"""What `evaluation` offers to its callers, and that each of it is explained."""

import doctest
import inspect
import re

import evaluation

FUNCTIONS = [name for name in evaluation.__all__ if inspect.isfunction(getattr(evaluation, name))]
CLASSES = [name for name in evaluation.__all__ if inspect.isclass(getattr(evaluation, name))]


def docstring(name):
    return inspect.getdoc(getattr(evaluation, name)) or ""


def test_the_list_of_names_is_sorted():
    """So that two changes to it seldom meet in one line."""
    assert sorted(evaluation.__all__) == evaluation.__all__


def test_the_list_of_names_is_true():
    """Every function and class that the package holds is listed, once, and nothing else."""
    held = [
        name
        for name, value in vars(evaluation).items()
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value))
    ]

    assert sorted(held) == evaluation.__all__
    assert sorted(FUNCTIONS + CLASSES) == evaluation.__all__


def test_a_docstring_begins_with_one_sentence():
    """A line of its own, closed by a full stop."""
    for name in evaluation.__all__:
        assert re.match(r"[^\n]+\.(\n\n|$)", docstring(name)), name


def test_every_function_names_its_source():
    """A paragraph "Source:", its own or that of a public function that it points to."""
    for name in FUNCTIONS:
        explained_by = [other for other in FUNCTIONS if f"`{other}" in docstring(name)]
        texts = map(docstring, [name, *explained_by])

        assert any("\nSource: " in text for text in texts), name


def test_every_function_has_an_example():
    """One that runs, and prints what it says (the doctests are collected with the tests)."""
    for name in FUNCTIONS:
        assert doctest.DocTestParser().get_examples(docstring(name)), name
