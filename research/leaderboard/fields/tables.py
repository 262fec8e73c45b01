"""The tables of the worlds with fields, in Markdown: means over the seeds, and what `pooled` with
fields is meant to reach."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypedDict

import numpy as np

from research.leaderboard.fields.methods import METHODS
from research.leaderboard.fields.scores import TRUTH, Summary


class Result(TypedDict):
    """What the methods and the truth had in a world of a seed."""

    world: str
    seed: int
    found: dict[str, Summary]
    unavailable: dict[str, str]


class FieldTarget(NamedTuple):
    """At most `limit` times the least that the rivals have of a figure of `Summary`."""

    text: str
    figure: Literal["excess", "new_excess", "cpu"]
    rivals: tuple[str, ...]
    limit: float


MATTER: Final = (
    FieldTarget("excess of `pooled`", "excess", ("pooled",), 0.5),
    FieldTarget("excess of LightGBM or MCGrad", "excess", ("lightgbm", "mcgrad"), 0.7),
    FieldTarget("excess of the composite key", "excess", ("composite",), 1.0),
    FieldTarget("CPU of the composite key", "cpu", ("composite",), 0.1),
    FieldTarget("excess of `pooled`, new campaigns", "new_excess", ("pooled",), 0.6),
)
"""Where fields do something; the last where campaigns are new."""
NOTHING: Final = (FieldTarget("excess of `pooled`, no effects", "excess", ("pooled",), 1.02),)
NONE: Final = "none"
"""The world whose fields do nothing."""
RCE_LIMIT: Final = 1.3
"""Of the worst field's Field-RCE, by that of the true probabilities."""
OURS: Final = ("pooled_groups", "pooled_fields")
"""Whose targets these are: the first of them that was run in a world."""


def as_markdown(results: Sequence[Result]) -> str:
    """Targets, excess, that of new campaigns, Field-RCE over its noise floor, and CPU, by world."""
    results = _of_runs(results)
    born = [each for each in results if each["found"][TRUTH]["new_impressions"]]
    tables = {
        "Targets: `pooled` with fields, over": _targets(results),
        "Excess log loss x 10^6": _table(results, lambda each, who: each[who]["excess"], ",.0f"),
        "That of new campaigns": _table(born, lambda each, who: each[who]["new_excess"], ",.0f"),
        "Field-RCE over the truth's, mean of the fields": _rce_table(results),
        "CPU seconds of the scored hours": _table(
            results, lambda each, who: each[who]["cpu"], ",.0f"
        ),
    }
    return "\n".join(f"**{title}**\n\n{table}\n" for title, table in tables.items())


def _of_runs(results: Sequence[Result]) -> list[Result]:
    """One for each world and seed, whose methods may have been run apart."""
    runs: dict[tuple[str, int], Result] = {}
    for each in results:
        run = runs.setdefault((each["world"], each["seed"]), {**each, "found": {}})
        run["found"] |= each["found"]
    return list(runs.values())


def _targets(results: Sequence[Result]) -> str:
    worlds = _worlds(results)
    lines = [
        [f"{target.text}, ≤ {target.limit:g}", *(_reached(results, at, target) for at in worlds)]
        for target in (*MATTER, *NOTHING)
    ]
    each = [_relative_rce(_of_ours(results, world)) for world in worlds]
    worst = [_beside(max(fields, default=np.nan), RCE_LIMIT) for fields in each]
    lines.append([f"Field-RCE of the truth, worst field, ≤ {RCE_LIMIT:g}", *worst])
    return _as_table(["target", *worlds], lines)


def _of_ours(results: Sequence[Result], world: str) -> list[tuple[str, dict[str, Summary]]]:
    """Whose targets they are in each seed of a world, and what all methods had in it."""
    found = [each["found"] for each in results if each["world"] == world]
    mine = [[who for who in OURS if who in each] for each in found]
    return [(who[0], each) for who, each in zip(mine, found, strict=True) if who]


def _reached(results: Sequence[Result], world: str, target: FieldTarget) -> str:
    """Mean of all seeds over the least of the rivals' means; empty where it is not meant or a
    rival was not run."""
    seeds = _of_ours(results, world)
    absent = any(who not in found for who in target.rivals for _, found in seeds)
    if absent or not seeds or (world == NONE) != (target in NOTHING):
        return ""
    ours = np.mean([found[who][target.figure] for who, found in seeds])
    least = min(np.mean([found[who][target.figure] for _, found in seeds]) for who in target.rivals)
    return _beside(float(ours / least), target.limit) if least else ""


def _relative_rce(seeds: Sequence[tuple[str, dict[str, Summary]]]) -> list[float]:
    """Of each field the mean over the seeds by that of the true probabilities."""
    floors = [found[TRUTH]["field_rce"] for _, found in seeds]
    mine = [found[who]["field_rce"] for who, found in seeds]
    names = floors[0] if floors else ()
    return [sum(each[name] for each in mine) / sum(each[name] for each in floors) for name in names]


def _beside(ratio: float, limit: float) -> str:
    return f"{ratio:.2f}" if ratio <= limit else f"**missed: {ratio:.2f}**"


_Figure = Callable[[dict[str, Summary], str], float]


def _rce_table(results: Sequence[Result]) -> str:
    worlds, lines = _worlds(results), []
    for who in METHODS:
        runs = ([each["found"] for each in results if each["world"] == world] for world in worlds)
        there = ([(who, found) for found in seeds if who in found] for seeds in runs)
        cells = [f"{np.mean(_relative_rce(seeds)):.2f}" if seeds else "" for seeds in there]
        if any(cells):
            lines.append([f"`{who}`", *cells])
    return _as_table(["method", *worlds], lines)


def _table(results: Sequence[Result], figure: _Figure, form: str) -> str:
    worlds = _worlds(results)
    rows = ([_cell(results, world, who, figure, form) for world in worlds] for who in METHODS)
    lines = [[f"`{who}`", *cells] for who, cells in zip(METHODS, rows, strict=True) if any(cells)]
    return _as_table(["method", *worlds], lines)


def _worlds(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(each["world"] for each in results))


def _as_table(header: list[str], lines: Sequence[list[str]]) -> str:
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(results: Sequence[Result], world: str, who: str, figure: _Figure, form: str) -> str:
    """The mean of the seeds that have this method; empty where none has."""
    there = [each["found"] for each in results if each["world"] == world and who in each["found"]]
    return format(np.mean([figure(found, who) for found in there]), form) if there else ""
