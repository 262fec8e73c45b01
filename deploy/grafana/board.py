"""The Grafana board of sirocco as code: `python deploy/grafana/board.py` writes sirocco.json.

A panel is a title, a unit, a sentence and queries; ids follow the order below, the uid is fixed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos

UID: Final = "sirocco"
BOARD: Final = Path(__file__).with_name("sirocco.json")
_PROMETHEUS: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT, _IN_A_ROW = 8, 8, 3


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel; `queries` by their legends."""

    title: str
    about: str
    queries: dict[str, str]
    unit: str = "none"


def _most(metric: str, *by: str, where: str = "") -> str:
    """The gauge of the chosen targets, as any API process shows it."""
    chosen = f'target=~"$target"{where and ", " + where}'
    return f"max by ({', '.join(('target', *by))}) (sirocco_{metric}{{{chosen}}})"


def _rate(metric: str, *by: str) -> str:
    """The counter, by second, over all processes."""
    return f"sum by ({', '.join(by)}) (rate(sirocco_{metric}[$__rate_interval]))"


def _of_ours(query: str) -> str:
    """What every program says of its processes, of those that are sirocco."""
    return f"{query} and on (job, instance) sirocco_workers"


_LATENCIES: Final = _rate("request_seconds_bucket", "le", "route")
_SERVED: Final = 'stage="calibrated", span="window"'

ROWS: Final[dict[str, tuple[Chart, ...]]] = {
    "Answers": (
        Chart(
            "Requests",
            "Requests answered, by route.",
            {"{{route}}": _rate("requests_total", "route")},
            "reqps",
        ),
        Chart(
            "Errors and slow answers",
            "Objectives: 0.1 % errors, 1 % above 10 ms (calibrate) or 100 ms (events).",
            {
                "{{route}} errors": "sirocco:errors:ratio_rate5m",
                "{{route}} slow": "sirocco:slow:ratio_rate5m",
            },
            "percentunit",
        ),
        Chart(
            "Latency",
            "From a request's head to the end of its answer.",
            {
                "p50 {{route}}": f"histogram_quantile(0.5, {_LATENCIES})",
                "p99 {{route}}": f"histogram_quantile(0.99, {_LATENCIES})",
            },
            "s",
        ),
        Chart(
            "Shedding",
            "Requests refused because of overload, and connections closed on the caller.",
            {
                "{{route}}": _rate("shed_total", "route"),
                "closed: {{reason}}": _rate("connections_closed_total", "reason"),
            },
            "reqps",
        ),
        Chart(
            "Scores",
            "Scores calibrated, by the level of map that served them.",
            {"{{target}} {{level}}": _rate("scores_total", "target", "level")},
            "cps",
        ),
    ),
    "Calibration": (
        Chart(
            "PCOC with its interval",
            "Predicted over true outcomes of the window, out of sample; 1 is right.",
            {
                "{{target}}": _most("pcoc", where=_SERVED),
                "{{target}} {{end}}": _most("pcoc_interval", "end"),
            },
        ),
        Chart(
            "GC-3 with its floor",
            "Calibration error by campaign, and what chance alone would leave of it.",
            {
                "{{target}}": _most("gc_n", where=f'{_SERVED}, n="3"'),
                "{{target}} floor": _most("gc_n_floor", where=f'{_SERVED}, n="3"'),
            },
        ),
        Chart(
            "Evidence that a target is off",
            "Above 1 it is off beyond chance.",
            {"{{target}} {{direction}}": 'sirocco:pcoc_evidence:ratio{target=~"$target"}'},
        ),
        Chart(
            "Campaigns off beyond chance",
            "Predicted too much (over) or too little (under); GET /v1/campaigns?sort=evidence.",
            {"{{target}} {{direction}}": _most("campaigns_off", "direction")},
        ),
        Chart(
            "PCOC by field",
            "Of the values of a field with the most evidence, in the newest hours.",
            {"{{target}} {{field}} {{value}}": _most("field_pcoc", "field", "value")},
        ),
        Chart(
            "Field-RCE with its floor",
            "By how much values of a field are off, and what chance alone would leave of it.",
            {
                "{{target}} {{field}}": _most("field_rce", "field"),
                "{{target}} {{field}} floor": _most("field_rce_floor", "field"),
            },
        ),
        Chart(
            "PCOC of the largest campaigns",
            "Of the window, after calibration.",
            {
                "{{target}} {{campaign}}": _most(
                    "campaign_pcoc", "campaign", where='stage="calibrated"'
                )
            },
        ),
        Chart(
            "PCOC of the scores",
            "As the ad server predicted, by hour: a jump is a new model.",
            {"{{target}}": _most("pcoc", where='stage="raw", span="hour"')},
        ),
    ),
    "Refits": (
        Chart(
            "Age and duration",
            "Since the publish and the worker's last sign of life; how long the last refit took.",
            {
                "age of the maps": "max(sirocco_map_age_seconds)",
                "worker's last sign": "min(sirocco_worker_heartbeat_age_seconds)",
                "duration": "max(sirocco_refit_seconds)",
            },
            "s",
        ),
        Chart(
            "Held and failed",
            "Refits that failed in a row, and 1 while one waits for approval.",
            {
                "failed in a row": "max(sirocco_worker_consecutive_failures)",
                "waits for approval": "max(sirocco_refit_held)",
            },
        ),
        Chart(
            "Campaigns",
            "With a map of their own, and those without.",
            {
                "{{target}} fitted": _most("campaigns_fitted"),
                "{{target}} {{reason}}": _most("campaigns_skipped", "reason"),
            },
        ),
        Chart(
            "Guard",
            "Campaigns whose new map was changed or held back at the last refit.",
            {
                "{{target}} {{decision}}": _most(
                    "guard_campaigns", "decision", where='decision!="passed"'
                )
            },
        ),
        Chart(
            "Jumps and frozen levels",
            "Campaigns whose level jumped, and 1 where positives collapsed.",
            {
                "{{target}} jumped": _most("campaigns_jumped"),
                "{{target}} frozen": _most("refit_frozen"),
            },
        ),
    ),
    "Store and folding": (
        Chart(
            "Store",
            "1 while Redis takes writes, and 1 for each reason of being degraded.",
            {
                "takes writes": "min(sirocco_store_up)",
                "{{reason}}": "max by (reason) (sirocco_degraded)",
            },
        ),
        Chart(
            "Events",
            "Events received, by what became of them.",
            {
                "{{type}} {{result}}": _rate("events_total", "type", "result"),
                "duplicates": "sum(rate(sirocco_duplicate_events_total[$__rate_interval]))",
            },
            "cps",
        ),
        Chart(
            "Folding",
            "Since the end of the oldest hour with events that nobody folds.",
            {"oldest hour": "max(sirocco_oldest_unfolded_hour_age_seconds)"},
            "s",
        ),
    ),
    "Delayed targets": (
        Chart(
            "Conversions seen over expected",
            "By now, of the clicks that the last refit learnt from; 1 is right.",
            {"{{target}}": _most("labels_ratio")},
        ),
        Chart(
            "Post-click model",
            "PCOC and AUC on the clicks that matured after its training.",
            {"{{target}} PCOC": _most("pccem_pcoc"), "{{target}} AUC": _most("pccem_auc")},
        ),
        Chart(
            "Clicks",
            "Clicks that gather behaviours, and those that behaviours wait for.",
            {"open": "max(sirocco_open_clicks)", "waiting": "max(sirocco_waiting_clicks)"},
        ),
    ),
    "Processes": (
        Chart(
            "API processes",
            "That serve, and their connections.",
            {"processes": "sum(sirocco_workers)", "connections": "sum(sirocco_connections)"},
        ),
        Chart(
            "CPU",
            "Cores in use, by process.",
            {
                "{{instance}} {{worker}}": _of_ours(
                    "rate(process_cpu_seconds_total[$__rate_interval])"
                )
            },
            "percentunit",
        ),
        Chart(
            "Memory",
            "Resident, by process.",
            {"{{instance}} {{worker}}": _of_ours("process_resident_memory_bytes")},
            "bytes",
        ),
    ),
}


def queries() -> Iterator[str]:
    """Every query of the board."""
    return (
        query for charts in ROWS.values() for chart in charts for query in chart.queries.values()
    )


def board() -> Dashboard:
    """The whole board."""
    built = (
        Dashboard("sirocco")
        .uid(UID)
        .tags(["sirocco"])
        .refresh("1m")
        .time("now-24h", "now")
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_target_variable())
    )
    number, top = 0, 0
    for title, charts in ROWS.items():
        number += 1
        built = built.with_row(Row(title).id(number).grid_pos(GridPos(1, 24, 0, top)))
        for place, chart in enumerate(charts):
            number += 1
            down, across = divmod(place, _IN_A_ROW)
            built = built.with_panel(
                _panel(chart, number).grid_pos(
                    GridPos(_HEIGHT, _WIDTH, across * _WIDTH, top + 1 + down * _HEIGHT)
                )
            )
        top += 1 + -(-len(charts) // _IN_A_ROW) * _HEIGHT
    return built


def _target_variable() -> QueryVariable:
    return (
        QueryVariable("target")
        .datasource(_PROMETHEUS)
        .query("label_values(sirocco_pcoc, target)")
        .multi(True)
        .include_all(True)
    )


def _panel(chart: Chart, number: int) -> TimeSeries:
    panel = TimeSeries().id(number).title(chart.title).description(chart.about).unit(chart.unit)
    panel = panel.datasource(_PROMETHEUS)
    for letter, (legend, query) in zip(ascii_uppercase, chart.queries.items(), strict=False):
        panel = panel.with_target(Dataquery().ref_id(letter).expr(query).legend_format(legend))
    return panel


def rendered() -> str:
    """The board's JSON, the same bytes each time."""
    return JSONEncoder(sort_keys=True, indent=1).encode(board().build()) + "\n"


if __name__ == "__main__":
    BOARD.write_text(rendered(), encoding="utf-8")
