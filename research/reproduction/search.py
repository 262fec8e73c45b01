"""Tables 5 and 6 of paper 001 in shape: offline, simulated and online metrics of search ads."""

from collections.abc import Iterator, Mapping
from typing import Final

from research.reproduction.experiment import (
    Check,
    Experiment,
    Progress,
    Reproduction,
    bounded,
    shown,
)
from research.reproduction.search_experiment import (
    ExperimentRow,
    SearchExperiment,
    search_experiment,
)

_PAGES, _QUICK_PAGES = 150_000, 5_000
_MOST_APART: Final = 5.0
"""Points by which the simulated change may miss the online one."""

_SHARPER, _TIMES_THREE = "sharper_head", "times_three"
_YIELDS: Final = {"click_yield": "CY", "mainline_click_yield": "mainline CY"}
_PRINTED: Final[Mapping[str, Mapping[str, str]]] = {
    "sharper_head": {
        "AUC": "+8.6",
        "RIG": "+19.5",
        "online CY": "-9.96",
        "online mainline CY": "-8.07",
    },
    "less_noise": {
        "AUC": "+0.2",
        "RIG": "+78",
        "simulated CY": "+40",
        "simulated mainline CY": "+46",
        "online CY": "+39",
        "online mainline CY": "+44",
    },
}
"""In per cent, against the model that was in force: Table 5, and Table 6 of another model."""

_NOTES: Final = (
    "The printed numbers are of a search engine's own logs. Ours are of a synthetic one: 150,000"
    " pages, 1,500 queries with 14 ads each, 4 slots in the mainline and 5 beside. What has to"
    " agree is the sign, and simulation with truth.",
    "sharper_head stands for Table 5: AUC and RIG rise, because the model is better on what was"
    " shown, and clicks fall, because it thinks too much of poor ads and shows them. less_noise"
    " stands for Table 6. times_three is the model in force, its scores times 3: RIG collapses and"
    " nearly nothing else happens. CY are the clicks of an average page.",
    "Simulated: by the click rates of the log. Online: the true expected clicks, which only a"
    " synthetic log tells.",
    "Operating points: less_noise with another click investment power, mainline ads per page held"
    " at those of the model in force. More power, more clicks; revenue (RPM) pays for it in the"
    " end.",
)


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Score three models offline, by simulation and by the truth, on two logs.

    quick : one log of 5,000 pages; the faint changes are not checked.
    seed : at least 0; the logs are those of the two seeds behind it.
    progress : called with the share of the work that is done.
    """
    seeds = (seed + 1,) if quick else (seed + 1, seed + 2)
    pages = _QUICK_PAGES if quick else _PAGES
    checks: list[Check] = []
    for done, each in enumerate(seeds):
        each_progress = _part(progress, done / len(seeds), (done + 1) / len(seeds))
        found = search_experiment(each, pages=pages, progress=each_progress)
        checks += [*_table(found), *_criteria(found, checked=not quick), *_points(found)]
    return Reproduction(EXPERIMENT.name, EXPERIMENT.title, _SOURCE, checks, _NOTES)


def _table(found: SearchExperiment) -> Iterator[Check]:
    part = f"Tables 5 and 6, change in %, seed {found.seed}"
    for name, row in found.rows.items():
        for what, value in _changes(row).items():
            printed = _PRINTED.get(name, {}).get(what, "")
            yield shown(f"{name}, {what}", 100 * value, paper_text=printed, part=part, form="+.2f")


def _changes(row: ExperimentRow) -> dict[str, float]:
    """What a row of the paper's tables has."""
    simulated = {f"simulated {short}": row.simulated[long].value for long, short in _YIELDS.items()}
    online = {f"online {short}": row.online[long] for long, short in _YIELDS.items()}
    return {"AUC": row.auc_change, "RIG": row.rig_change, **simulated, **online}


def _criteria(found: SearchExperiment, *, checked: bool) -> Iterator[Check]:
    part = f"Shape, seed {found.seed}"
    for name, row in found.rows.items():
        for long, short in _YIELDS.items():
            along = row.simulated[long].value * (1.0 if row.online[long] > 0.0 else -1.0)
            sure = checked or name != _TIMES_THREE
            what = f"{name}: simulated {short} in the direction of the online one, %"
            yield bounded(what, 100 * along, above=0.0, part=part, form=".2f", checked=sure)
            what = f"{name}: {short}, simulated less online, points"
            gap, most = 100 * row.gap(long), _MOST_APART
            yield bounded(what, gap, above=-most, below=most, part=part, form=".2f")
    sharper = _changes(found.rows[_SHARPER])
    for what in ("AUC", "RIG"):
        risen = 100 * sharper[what]
        yield bounded(f"{_SHARPER}: {what} rises, %", risen, above=0.0, part=part, form=".2f")
    for what in ("simulated CY", "online CY"):
        fallen = 100 * sharper[what]
        yield bounded(f"{_SHARPER}: {what} falls, %", fallen, below=0.0, part=part, form=".2f")


def _points(found: SearchExperiment) -> Iterator[Check]:
    part = f"Operating points at equal mainline load, change in %, seed {found.seed}"
    for point, online in zip(found.points, found.online_points, strict=True):
        what = f"alpha {point.point.alpha:g}"
        for kind, name in (("CY", "click_yield"), ("RPM", "revenue_per_mille")):
            simulated = 100 * point.changes[name].value
            yield shown(f"{what}, simulated {kind}", simulated, part=part, form="+.2f")
            yield shown(f"{what}, online {kind}", 100 * online[name], part=part, form="+.2f")


def _part(progress: Progress, first: float, last: float) -> Progress:
    """Progress of one part of the work."""
    return lambda share: progress(first + share * (last - first))


_SOURCE: Final = "001, section 6, Tables 5 and 6"
EXPERIMENT: Final = Experiment(
    "search",
    "Offline, simulated and online metrics",
    "001, Tables 5 and 6: offline metrics and simulated auctions against the truth, search logs",
    30.0,
    run,
)
