"""The tables of the worlds with fields, in Markdown: means over the seeds."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np

from research.leaderboard.fields.methods import METHODS
from research.leaderboard.fields.scores import TRUTH, Summary


class Result(TypedDict):
    """What the methods and the truth had in a world of a seed."""

    world: str
    seed: int
    found: dict[str, Summary]
    unavailable: dict[str, str]


def as_markdown(results: Sequence[Result]) -> str:
    """Excess, that of new campaigns, Field-RCE over its noise floor, and CPU, by world."""
    born = [each for each in results if each["found"][TRUTH]["new_impressions"]]
    tables = {
        "Excess log loss x 10^6": _table(results, lambda each, who: each[who]["excess"], ",.0f"),
        "That of new campaigns": _table(born, lambda each, who: each[who]["new_excess"], ",.0f"),
        "Field-RCE over the truth's, mean of the fields": _table(results, _relative_rce, ".2f"),
        "CPU seconds of a run": _table(results, lambda each, who: each[who]["cpu"], ",.0f"),
    }
    return "\n".join(f"{title}\n\n{table}\n" for title, table in tables.items())


_Figure = Callable[[dict[str, Summary], str], float]


def _relative_rce(found: dict[str, Summary], who: str) -> float:
    floor, mine = (found[name]["field_rce"] for name in (TRUTH, who))
    return float(np.mean([mine[name] / floor[name] for name in floor]))


def _table(results: Sequence[Result], figure: _Figure, form: str) -> str:
    worlds = list(dict.fromkeys(each["world"] for each in results))
    lines = [["method", *worlds], ["---", *["---:"] * len(worlds)]]
    for who in METHODS:
        cells = [_cell(results, world, who, figure, form) for world in worlds]
        if any(cells):
            lines.append([f"`{who}`", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(results: Sequence[Result], world: str, who: str, figure: _Figure, form: str) -> str:
    """The mean of the seeds that have this method; empty where none has."""
    there = [each["found"] for each in results if each["world"] == world and who in each["found"]]
    return format(np.mean([figure(found, who) for found in there]), form) if there else ""
