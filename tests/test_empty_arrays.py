"""Every public function of the numeric packages that takes arrays, given empty ones: it answers
with empty arrays, or raises a ValueError of its own that says what is missing."""

import pkgutil
import re
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import isclass, isfunction, signature
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibrators
import pccem
from calibrators import Atlas, BinsTable, CalibrationMap
from calibrators.bins.bins import GRID
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import MapRows
from calibrators.pooled.families import Deviations
from calibrators.pooled.hierarchy import Variances
from calibrators.pooled.levels import Amounts, LevelModel
from calibrators.pooled.outliers import CampaignHours
from calibrators.pooled.state_space import OF_CAMPAIGNS, CampaignSeries
from pccem.model import Boosting, boosted, dataset, loaded

NONE, ROWS, START = np.empty(0), np.empty(0, np.int64), np.zeros(1, np.int64)
TABLE = np.empty((0, 3))
ATTRIBUTION = pccem.attribute(NONE, NONE, NONE, NONE, window=1.0, as_of=1.0)
DELAYS = pccem.DelayDistribution.fit(
    [0.5] * 5, [2.0] * 5, [0] * 5, ["a"], window=1.0, min_conversions=1
)
BOOSTED = dataset(np.eye(300, 2), np.eye(300, 1)[:, 0], (), Boosting(rounds=1))

ARGUMENTS: Mapping[str, Any] = {
    "amounts": Amounts(TABLE, TABLE),
    "as_of": 1.0,
    "attribution": ATTRIBUTION,
    "behind": 1,
    "bin_size": 5.0,
    "bins": 1,
    "block": CampaignHours.of(TABLE, TABLE),
    "blocks": [CampaignHours.of(TABLE, TABLE)],
    "booster": loaded(boosted(BOOSTED, None, Boosting(rounds=1))),
    "boosting": Boosting(rounds=1),
    "bound": 1.0,
    "campaigns": 0,
    "chance": 0.5,
    "categorical": (),
    "clicks": pccem.Clicks(NONE, (), ROWS, NONE, pccem.Features({}, 0)),
    "delays": DELAYS,
    "factor": 2.0,
    "grid": GRID,
    "groups": 0,
    "half_life": 1.0,
    "half_lives": (1.0, 2.0),
    "jump": 0.1,
    "least": 0,
    "length": 0,
    "models": OF_CAMPAIGNS,
    "most": 2,
    "n_campaigns": 0,
    "name": "scores",
    "num_threads": 1,
    "odd": 0.1,
    "offsets": START,
    "rate": 0.1,
    "rule": "must be",
    "rules": pccem.LabelRules(),
    "series": CampaignSeries.none(0),
    "share": 0.5,
    "size": 0,
    "stage": LevelModel(1.0, 1.0),
    "strength": 1.0,
    "strata": [],
    "tails": "clip",
    "text": b"",
    "variances": Variances(),
    "window": 1.0,
}
"""What a parameter of the name is given; arrays that are not named here are empty vectors."""

BY_HOUR = {"expected": TABLE, "observed": TABLE, "ages": np.array([2.5, 1.5, 0.5])}
DEVIATIONS = Deviations(np.empty((0, 4)), np.empty((0, 4, 4)))
PARTS = {"parts": [(ROWS, np.empty((3, 0), np.int64))]}
LABELS = {"campaigns": (), "delays": DELAYS, "attribution": ATTRIBUTION}
PACKED = {"tables": [], "rows": [], "campaigns": range(0), "choices": [set()]}

OWN_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "Atlas.__call__": {"campaigns": ()},
    "Atlas.by_maps": {"campaigns": (), "fields": {}, "codes": ROWS},
    "Atlas.at_scores": {"moved": lambda rows, scores: scores},
    "Atlas.quantiles": {"levels": (0.1,)},
    "Atlas.served": {"campaigns": (), "fields": {}},
    "Bins.of_sums": {"sums": np.empty((3, 0), np.int64)},
    "BinsTable.from_cells": {"campaigns": ()},
    "BinsTable.from_columns": {"campaigns": ()},
    "BinsTable.of_all": {"names": (), "sums": np.empty((3, 0), np.int64)},
    "BinsTable.chosen": {"campaigns": np.empty(0, bool)},
    "Cohorts.of": {"post_click": 0.0},
    "DelayDistribution.at_paces": {"weights": np.full(17, 1 / 17)},
    "DelayDistribution.fit": {"campaigns": ()},
    "DelayDistribution.share": {"campaigns": ()},
    "PostClickModel.fit": {"features": pccem.Features({"pages": NONE}, 0)},
    "calibrators.bins.codecs.sorted_rows": {"campaigns": ()},
    "calibrators.fields.columns.chosen": {"columns": {}},
    "calibrators.bins.bins.cell_means": {"sums": np.empty((3, 0), np.int64)},
    "calibrators.methods.equal_frequency.bin_counts": {"distinct": ROWS},
    "calibrators.methods.equal_frequency.bins_of_cells": {"samples": (NONE, NONE, NONE)},
    "calibrators.methods.equal_frequency.inner_cuts": {"bins": ROWS},
    "calibrators.methods.equal_frequency.reaching": {"campaigns": ROWS},
    "calibrators.methods.equal_frequency.running_sums": {"values": np.empty((3, 0))},
    "calibrators.bins.codecs.sum_parts": PARTS,
    "calibrators.pooled.families.find_families": {"seen": DEVIATIONS},
    "calibrators.pooled.levels.block_weights": BY_HOUR,
    "calibrators.pooled.levels.levels_of_blocks": BY_HOUR,
    "calibrators.pooled.change_points.hour_weights": BY_HOUR,
    "calibrators.maps.calibration_map.quantiles_of": {"levels": (0.2,)},
    "calibrators.pooled.outliers.outlier_hours": BY_HOUR,
    "calibrators.pooled.change_points.negative_binomial": {"y": NONE},
    "calibrators.pooled.serving.mixture_variance": {**BY_HOUR, "variances": NONE},
    "calibrators.pooled.serving.missing_variance": {"missed": [np.zeros(27)]},
    "calibrators.pooled.serving.monotone_rows": {"table": TABLE, "weights": TABLE},
    "calibrators.pooled.change_points.drift_rates": BY_HOUR,
    "calibrators.pooled.change_points.jump_levels": BY_HOUR,
    "calibrators.pooled.hierarchy.own_levels": {"values": TABLE, "offsets": NONE},
    "calibrators.pooled.hierarchy.trust_in": {"values": TABLE, "offsets": NONE},
    "calibrators.pooled.change_points.run_lengths": BY_HOUR,
    "calibrators.pooled.outliers.poisson_evidence": BY_HOUR,
    "calibrators.pooled.outliers.span_sums": {"values": TABLE, "span": 1},
    "calibrators.pooled.cells.mix_sums": {"samples": np.empty((0, GRID.size))},
    "calibrators.samples.all_obey": {"array": NONE, "obeys": np.empty(0, bool)},
    "calibrators.samples.sum_at": {"places": ROWS},
    "calibrators.pooled.change_points.likelihood_ratio_prefilter": BY_HOUR,
    "calibrators.pooled.hierarchy.collect": {"sums": (TABLE, TABLE), "groups": ROWS},
    "calibrators.pooled.hierarchy.shortened": {"steps": TABLE, "basis": np.eye(3)},
    "calibrators.bins.packed_table.sum_in_spans": PARTS,
    "calibrators.bins.packed_table.sum_packed": PACKED,
    "calibrators.bins.packed_table.sums_packed": PACKED,
    "pccem.model.dataset": {"matrix": TABLE},
    "pccem.labels.conversions_due": LABELS,
    "pccem.labels.label": LABELS,
}
"""Of a function that takes something else by that name, or a table of no rows."""

INSTANCES: Mapping[type, Any] = {
    Atlas: Atlas.build({"a": CalibrationMap(*[np.linspace(0.0, 1.0, 200)] * 2)}),
    BinsTable: BinsTable.empty(),
    CalibrationMap: CalibrationMap.identity(),
    calibrators.Calibrator: calibrators.Identity(),
    calibrators.Sufficiency: calibrators.Sufficiency(),
    pccem.Categorical: pccem.Categorical(ROWS.astype(np.int32), ()),
    pccem.Clicks: ARGUMENTS["clicks"],
    pccem.Cohorts: pccem.Cohorts.of(NONE, NONE, NONE, NONE, window=1.0, post_click=0.0),
    pccem.DelayDistribution: DELAYS,
    pccem.Features: pccem.Features({}, 0),
}

FILLED = {
    "calibrators.pooled.cells.mix_sums": "every cell of the grid",
    "calibrators.canary.log_ratios": "what no events say for each alternative: nothing",
    "calibrators.bins.packed_table.sum_packed": "where the first campaign begins",
    "calibrators.bins.packed_table.sums_packed": "where the first campaign begins",
    "pccem.delays.delay_curve": "the end of the window",
}
"""Functions whose result has entries that the arrays do not bring, and what for."""


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in (calibrators, pccem):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(import_module(found.name)).items():
                if isfunction(value) and value.__module__ == found.name and name[0] != "_":
                    yield f"{found.name}.{name}", value
        yield from public_methods(package)


def public_methods(package: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Of the classes that the package exports, bound to an instance where there is one."""
    for kind in filter(isclass, map(vars(package).get, package.__all__)):
        for name, value in vars(kind).items():
            function = getattr(value, "__func__", value)
            if isfunction(function) and (name == "__call__" or name[0] != "_"):
                yield f"{kind.__name__}.{name}", getattr(INSTANCES.get(kind, kind), name)


def annotations(function: Callable[..., Any]) -> dict[str, Any]:
    # Names that only a type checker imports stand for themselves.
    names = {"Dataset": object, "Booster": object, "Atlas": Atlas}
    return typing.get_type_hints(function, localns=names)


def is_array(annotation: Any) -> bool:
    return "numpy.ndarray" in str(annotation) or "_array_like" in str(annotation)


TAKING_ARRAYS = {
    name: function
    for name, function in public_functions()
    if any(is_array(kind) for key, kind in annotations(function).items() if key != "return")
}


def arguments(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """KeyError for a parameter that no table knows: give it a value above."""
    own, given, kinds = OWN_ARGUMENTS.get(name, {}), {}, annotations(function)
    for parameter in signature(function).parameters.values():
        key = parameter.name
        if key in own:
            given[key] = own[key]
        elif parameter.default is parameter.empty:
            known = {**({key: empty(kinds[key])} if is_array(kinds[key]) else {}), **ARGUMENTS}
            given[key] = known[key]
    return given


def empty(annotation: Any) -> NDArray[Any]:
    kind = re.search(r"numpy\.(bool|u?int\d+|float\d+)", str(annotation))
    return np.empty(0, kind[1] if kind else np.float64)


def arrays_in(result: Any) -> Iterator[NDArray[Any]]:
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, tuple | list | Iterator):
        for part in result:
            yield from arrays_in(part)


def test_no_rows_give_no_rows_or_a_refusal():
    for name, function in TAKING_ARRAYS.items():
        found = answer(name, arguments(name, function))

        assert all(array.size == 0 for array in found) or name in FILLED, name


def test_campaigns_without_an_hour_are_answered_or_refused():
    table, each = np.empty((3, 0)), np.zeros(3)
    no_hours = {
        "amounts": Amounts(table, table),
        "ages": NONE,
        "blocks": [CampaignHours.of(table, table)],
        "drift": each,
        "expected": table,
        "observed": table,
    }
    for name in (name for name, own in OWN_ARGUMENTS.items() if own is BY_HOUR):
        given = arguments(name, TAKING_ARRAYS[name])
        found = answer(name, {key: no_hours.get(key, value) for key, value in given.items()})

        assert all(np.isfinite(array).all() for array in found), name


def answer(name: str, given: Mapping[str, Any]) -> list[NDArray[Any]]:
    """The arrays of the result; none where a rule of the package, not numpy, refuses."""
    try:
        return list(arrays_in(TAKING_ARRAYS[name](**given)))
    except ValueError as refusal:
        raised = str(traceback.extract_tb(refusal.__traceback__)[-1].line)
    assert raised.startswith("raise ")
    return []


@given(
    st.lists(st.integers(2, 200), min_size=1, max_size=5), st.sampled_from((np.float64, np.float32))
)
def test_maps_of_any_number_of_knots_are_asked_for_no_score(lengths, kind):
    knots = np.concatenate([np.linspace(0.0, 1.0, length) for length in lengths])
    maps = MapRows.of(MapColumns(np.array(lengths), knots, knots))

    assert maps.look_up(ROWS, np.empty(0, kind)).shape == (0,)
    assert maps.look_up(np.array([len(lengths) - 1]), np.array([0.3])) == pytest.approx([0.3])
