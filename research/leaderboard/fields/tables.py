"""The tables of the worlds with fields, in Markdown: means over the seeds."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np

from research.leaderboard.fields.contenders import CONTENDERS
from research.leaderboard.fields.scores import TRUTH, Summary

_BORN = "advertisers"


class Result(TypedDict):
    """What the contenders and the truth had in a world of a seed."""

    world: str
    seed: int
    found: dict[str, Summary]
    unavailable: dict[str, str]


def as_markdown(results: Sequence[Result]) -> str:
    """Excess, that of new campaigns, Field-RCE over its noise floor, and CPU, by world."""
    tables = (
        ("Excess log loss x 10^6 (advertisers' new campaigns in the last column)", _excess_table),
        ("Field-RCE over that of the truth, mean of the fields", _rce_table),
        ("CPU seconds of a run", _cpu_table),
    )
    return "\n".join(f"{title}\n\n{table(results)}\n" for title, table in tables)


def _excess_table(results: Sequence[Result]) -> str:
    columns = [
        *(
            (name, name, lambda result, who: result["found"][who]["excess"])
            for name in _worlds(results)
        ),
        *(
            ("new", name, lambda result, who: result["found"][who]["new_excess"])
            for name in _worlds(results)
            if name == _BORN
        ),
    ]
    return _table(results, columns, "{:,.0f}")


def _rce_table(results: Sequence[Result]) -> str:
    def relative(result: Result, who: str) -> float:
        floor, mine = (result["found"][name]["field_rce"] for name in (TRUTH, who))
        return float(np.mean([mine[name] / floor[name] for name in floor]))

    return _table(results, [(name, name, relative) for name in _worlds(results)], "{:.2f}")


def _cpu_table(results: Sequence[Result]) -> str:
    columns = [
        (name, name, lambda result, who: result["found"][who]["cpu"]) for name in _worlds(results)
    ]
    return _table(results, columns, "{:,.0f}")


_Column = tuple[str, str, Callable[[Result, str], float]]
"""Its heading, the world that it is of, and the figure of a contender in a result."""


def _table(results: Sequence[Result], columns: Sequence[_Column], form: str) -> str:
    contenders = [who for who in CONTENDERS if any(who in each["found"] for each in results)]
    rows = [
        [f"`{who}`", *(_cell(results, who, each, form) for each in columns)] for who in contenders
    ]
    head = ["contender", *(heading for heading, _, _ in columns)]
    lines = [head, ["---", *["---:"] * len(columns)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(results: Sequence[Result], who: str, column: _Column, form: str) -> str:
    _, name, figure = column
    there = [each for each in results if each["world"] == name and who in each["found"]]
    return form.format(np.mean([figure(each, who) for each in there])) if there else ""


def _worlds(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(each["world"] for each in results))
