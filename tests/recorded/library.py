"""What the packages compute on fixed data, and the names by which users reach them."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sirocco_client

import calibrators
import evaluation
import pccem
from calibrators import (
    CALIBRATORS,
    METHODS,
    Atlas,
    Bins,
    BinsTable,
    CalibrationMap,
    History,
    Sufficiency,
    make_calibrator,
    make_method,
)
from calibrators.guard import guard
from evaluation import ClickPlatform, OperatingPoint, Platform, SearchPlatform
from pccem import TrainingRules, train
from tests.pccem.sample_clicks import AS_OF, DAY, attributed, sample_clicks, sample_outcomes
from tests.recorded.texts import Items, default, exact

START = 1_735_689_600.0
HOURS, BIN_SIZE = 30, 200
GRID = np.linspace(0.0, 1.0, 101)
GROUPS = {"campaign-1": "north", "campaign-2": "north", "campaign-3": "south"}
EVENTS = Platform(campaigns=6, impressions_per_hour=400, ctr=0.1, seed=5).hours(0, HOURS).events
NAMES = [EVENTS.campaigns[row] for row in EVENTS.rows.tolist()]
NEWER = np.clip(EVENTS.scores * (1.0 + 0.3 * np.sin(np.arange(len(EVENTS)))), 0.0, 1.0)
BIDS = 0.5 + (np.arange(len(EVENTS)) * 37 % 101) / 50.0
SLICES = (EVENTS.hours % 6).tolist()


def library_items() -> Items:
    """Every item by name."""
    return {
        **_public_names(),
        **_fitted_maps(),
        **_bytes(),
        **_refits(),
        **_guard(),
        **_metrics(),
        **_post_click(),
        **_platforms(),
    }


def _public_names() -> Items:
    packages = (calibrators, pccem, evaluation, sirocco_client)
    return {f"public/{package.__name__}": "\n".join(_signatures(package)) for package in packages}


def _signatures(package: Any) -> Iterator[str]:
    for name in sorted(package.__all__):
        thing = getattr(package, name)
        yield f"{name}{_parameters(thing)}"
        if inspect.isclass(thing):
            for member in sorted(member for member in dir(thing) if not member.startswith("_")):
                yield f"    {name}.{member}{_parameters(getattr(thing, member))}"


def _parameters(thing: Any) -> str:
    """Names, kinds and defaults: annotations name modules, which move."""
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, BaseException)):
        return ""
    try:
        found = inspect.signature(thing).parameters.values()
    except ValueError:
        return "(?)"
    return "(" + ", ".join(map(_parameter, found)) + ")"


def _parameter(given: inspect.Parameter) -> str:
    end = "" if given.default is given.empty else f"={default(given.default)}"
    return f"{given.kind.description} {given.name}{end}"


def _fitted_maps() -> Items:
    shared = CalibrationMap.proportional(0.8)
    columns = (EVENTS.scores, EVENTS.outcomes)
    bins, items = Bins.from_samples(*columns), {}
    for name in CALIBRATORS:
        calibrator = make_calibrator(name, BIN_SIZE)
        fits = {
            "samples": calibrator.fit(*columns),
            "bins": calibrator.fit_bins(bins),
            "bins on a target map": calibrator.fit_bins(bins, shared),
        }
        for how, fitted in fits.items():
            items[f"map/{name}/{how}"] = exact((fitted.knots, fitted.values))
    return items


def _bytes() -> Items:
    atlas = Atlas.build(
        {"hats": CalibrationMap.proportional(0.5), "caf\xe9/1": CalibrationMap.identity()},
        make_calibrator("sir", BIN_SIZE).fit(EVENTS.scores, EVENTS.outcomes),
    )
    table = _table(0)
    first = next(iter(table))[1]
    return {
        "bytes/Bins": exact(first.to_bytes()),
        "bytes/BinsTable": exact(table.to_bytes()),
        "bytes/Bins merged": exact(Bins.merge([table.total(), first]).to_bytes()),
        "bytes/BinsTable merged": exact(BinsTable.merge([table, _table(1)]).to_bytes()),
        "bytes/CalibrationMap": exact(atlas.map_of("stranger").to_bytes()),
        "json/CalibrationMap": str(atlas.map_of("stranger").to_json()),
        "bytes/Atlas": exact(atlas.to_bytes()),
        "look-up/Atlas": exact(atlas(["hats", "caf\xe9/1", "stranger"] * 33, GRID[:99])),
    }


def _table(hour: int) -> BinsTable:
    rows = EVENTS.hours == EVENTS.hours.min() + hour
    part = EVENTS.select(rows)
    return BinsTable.from_columns(
        part.campaigns, part.rows.astype(np.int64), part.scores, np.ones(len(part)), part.outcomes
    )


def _refits() -> Items:
    first = int(EVENTS.hours.min())
    tables = {first + hour: _table(hour) for hour in range(HOURS)}
    items = {}
    for name in METHODS:
        method = make_method(
            name, bin_size=BIN_SIZE, sufficiency=Sufficiency(100, 10), groups=GROUPS.get
        )
        memory = None
        for hour in (HOURS - 1, HOURS):
            past = {number: table for number, table in tables.items() if number < first + hour}
            history = History(float(first + hour), [past])
            fitted = method.refit(history, memory=memory, trial=True)
            memory = fitted.memory
            assert fitted.trial is not None
            told = (fitted.atlas.to_bytes(), fitted.trial.to_bytes(), dict(fitted.skipped))
            items[f"refit/{name}/hour {hour}"] = exact(told) + exact(fitted.notes)
    return items


def _guard() -> Items:
    first = int(EVENTS.hours.min())
    method = make_method("pooled", groups=GROUPS.get)
    tables = {first + hour: _table(hour) for hour in range(HOURS)}
    items = {}
    candidate = method.refit(History(float(first + HOURS), [tables]), trial=True)
    assert candidate.trial is not None
    doubled = CalibrationMap.proportional(2.0)
    atlases = {
        "nothing in force": None,
        "itself in force": candidate.trial,
        "right maps in force": Atlas.build({}, CalibrationMap.proportional(0.6)),
        "doubling in force": Atlas.build({"campaign-2": doubled}, doubled),
    }
    wrong = Atlas.build(dict.fromkeys(EVENTS.campaigns, doubled), doubled)
    for name, in_force in atlases.items():
        for kind, new in (("pooled", candidate.trial), ("wrong", wrong)):
            found = guard(new, new, in_force, [_table(HOURS - 1)] * 8)
            told = (found.atlas.to_bytes(), found.target_decision)
            counts = exact((dict(found.decisions), dict(found.counts)))
            items[f"guard/{kind}, {name}"] = exact(told) + counts
    return items


CLICKS = sample_clicks(2_000)
CONVERTED = sample_outcomes(CLICKS.features)
SCARCE = np.arange(len(EVENTS)) % 3
GIVEN: dict[str, Any] = {
    "p": EVENTS.scores,
    "y": EVENTS.outcomes,
    "a": EVENTS.scores,
    "b": NEWER,
    "bids": BIDS,
    "groups": NAMES,
    "campaigns": NAMES,
    "blocks": [f"{name} {hour // 6}" for name, hour in zip(NAMES, EVENTS.hours, strict=True)],
    "slices": SLICES,
    "periods": SLICES,
    "values": EVENTS.scores,
    "outcomes": EVENTS.outcomes,
    "fields": {"campaign": NAMES},
    "most": 4,
}
CHOICES: dict[str, dict[str, list[Any]]] = {
    "paired_bootstrap": {"metric": ["log_loss", "mse", "auc", "cal_1", "pcoc"], "draws": [40]},
    "cal_n": {"empty": ["inf", "skip", "merge", "smooth"]},
    "gc_n": {"weights": ["samples", "positives"]},
    "gauc": {"weights": ["samples", "positives", "equal"]},
    "cs_auc": {"ties": ["definition", "half", "worst"]},
    "bucketed_cs_auc": {"cut": ["quantile", "min_max"]},
}


def _metrics() -> Items:
    items = {f"metric/{name}": exact(call()) for name, call in _with_other_arguments().items()}
    for name in evaluation.__all__:
        metric = getattr(evaluation, name)
        if not inspect.isclass(metric) and f"metric/{name}" not in items:
            items |= _metric(name, metric)
    return items


def _metric(name: str, metric: Callable[..., Any]) -> Items:
    """On all rows, then with each choice of an option, then with weights."""
    parameters = inspect.signature(metric).parameters
    passed_on = {key for key, given in parameters.items() if given.kind is given.VAR_KEYWORD}
    needed = [key for key, given in parameters.items() if given.default is given.empty]
    given = {key: GIVEN[key] for key in needed if key not in passed_on}
    choices = CHOICES.get(name, {})
    calls = [{}, *({key: choice} for key, some in choices.items() for choice in some)]
    if passed_on or "sample_weight" in parameters:
        calls.append({"sample_weight": 1.0 + SCARCE})
    fixed = {key: some[0] for key, some in choices.items() if len(some) == 1}
    return {
        f"metric/{name}{_said(call)}": exact(metric(**given, **{**fixed, **call})) for call in calls
    }


def _said(call: dict[str, Any]) -> str:
    return "".join(f" {key}={'given' if key == 'sample_weight' else v}" for key, v in call.items())


def _with_other_arguments() -> dict[str, Callable[[], Any]]:
    """What takes more than columns."""
    drawn = SearchPlatform(queries=40, ads=8, pages=1_500, seed=2).draw()
    clicks = ClickPlatform(campaigns=3, clicks_per_hour=40, cvr=0.2, seed=4).hours(0, 11 * 24)
    return {
        "field_errors": lambda: evaluation.field_errors(
            ["a", "b", "c"], [10.0, 3.0, 0.5], [12.0, 1.0, 0.0], [9.0, 2.5, 0.5]
        ),
        "ab_analysis": lambda: evaluation.ab_analysis(
            ["control" if row % 3 else "new" for row in range(len(EVENTS))],
            BIDS,
            clicks=EVENTS.outcomes,
            control="control",
            units=NAMES,
        ),
        "backtest": lambda: evaluation.backtest(
            EVENTS.select(EVENTS.hours < EVENTS.hours.min() + 8),
            {name: make_calibrator(name, BIN_SIZE) for name in CALIBRATORS},
            window_hours=6,
        ),
        "behaviour_study": lambda: evaluation.behaviour_study(
            CLICKS.features, CONVERTED.astype(float), ["behaviour.pages"], folds=2, num_threads=1
        ),
        "cal_n_floor": lambda: evaluation.cal_n_floor(
            EVENTS.scores, rng=np.random.default_rng(1), draws=10
        ),
        "click_curve": lambda: evaluation.click_curve(
            [0, 0, 1, 1, 2], [1, 2, 1, 3, 2], [90, 80, 70, 60, 50], [30, 20, 25, 5, 9]
        ),
        "compare_auctions": lambda: evaluation.compare_auctions(drawn.log, drawn.models),
        "delayed_backtest": lambda: evaluation.delayed_backtest(
            clicks.stream,
            make_method("pooled"),
            evaluated_from=START + 10.5 * DAY,
            evaluated_until=START + 11 * DAY,
            training=TrainingRules(min_clicks=200, min_conversions=20, num_threads=1),
        ),
        "gsp_auction": lambda: evaluation.gsp_auction(
            BIDS[:60], EVENTS.scores[:60], np.repeat(np.arange(6), 10)
        ),
        "metric_accuracy": lambda: evaluation.metric_accuracy([0.1, 0.3, 0.2], [0.2, 0.1, 0.4]),
        "simulate_auction": lambda: evaluation.simulate_auction(
            drawn.log, drawn.models["less_noise"], point=OperatingPoint(alpha=0.8)
        ),
        "sweep_operating_points": lambda: evaluation.sweep_operating_points(
            drawn.log, drawn.scores, alphas=(0.8, 1.0)
        ),
    }


def _post_click() -> Items:
    attribution = attributed(CLICKS, CONVERTED)
    rules = TrainingRules(min_clicks=500, min_conversions=50, num_threads=1)
    training = train(CLICKS, attribution, as_of=AS_OF, rules=rules)
    assert training.model is not None
    return {
        "pccem/model bytes": exact(training.model.to_bytes()),
        "pccem/report": exact(training.report),
        "pccem/scores": exact(training.scores),
        "pccem/attribution": exact(attribution),
    }


def _platforms() -> Items:
    clicks = ClickPlatform(campaigns=2, clicks_per_hour=20, seed=4).hours(0, 3)
    return {
        "platform/impressions": exact(EVENTS),
        "platform/clicks": exact(clicks.truth) + exact(clicks.stream.delay),
    }
