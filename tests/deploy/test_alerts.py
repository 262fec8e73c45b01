"""Alerts and the board ask for metrics and labels that a running service shows; promtool fires each
alert; each has a runbook."""

import json
import re
import runpy
import shutil
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.lease import Heartbeat
from app.worker.monitoring import PcocBounds
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import eventually, serving
from tests.api.test_calibrator_metrics import CLICK
from tests.api.test_delayed_metrics import AS_OF, CONVERSION

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
ALERTS, RECORDING = PROMETHEUS / "alerts.yaml", PROMETHEUS / "recording.yaml"
CASES = sorted((PROMETHEUS / "tests").glob("*.yaml"))
OF_EACH = [path for path in CASES if path.name != "edges.yaml"]
RUNBOOKS = ROOT / "docs/runbooks"
BOARD = runpy.run_path(str(ROOT / "deploy/grafana/board.py"))

_METRIC = re.compile(r"(?<![\w$:\"/])((?:sirocco|process)[a-z0-9_:]*)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_BY = re.compile(r"\bby\s*\(([^)]*)\)")
# What Prometheus, or its operator, adds to every scrape, and a quantile takes away.
_OF_SCRAPES = {"instance", "job", "namespace"}
QUALITY = dict.fromkeys(("pcoc", "cal_3", "gc_3", "gc_4", "gc_5", "gc_3_floor"), 1.0)
SPANS = {span: {"raw": QUALITY, "calibrated": QUALITY} for span in ("hour", "window")}


def rules(path):
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def alerts():
    return {rule["alert"]: rule for rule in rules(ALERTS)}


@pytest.fixture(scope="module")
def shown(redis_url_of_module):
    """The labels of every sample of a `/metrics` on which everything is shown, by its name."""
    settings = Settings(port=0, refresh_seconds=0.01, snapshot_dir="off")
    with serving(settings, redis_url_of_module) as service:
        service.store.flushall()
        bounds = PcocBounds(BinsStore(service.store, 3600), 24)
        whole = {"lower": 0.9, "upper": 1.1, "over": 1.0, "under": 2.0}
        top = [{"campaign": "a", "n": 9, "positives": 3, "pcoc_raw": 1, "pcoc_calibrated": 1}]
        fits = {"fitted": 3, "skipped": {"few_samples": 1}, "top": top}
        one = {"value": "ios", "expected": 9.0, "positives": 8.0}
        worst = {"sigmas": 3.0, "relative": 0.1, "chance": 0.5, "fields": {"device": "ios"}}
        fits["fields"] = {
            "hours": 3,
            "rce": {"device": {"value": 0.1, "floor": 0.05}},
            "mce": {**worst, "segments": 2, "expected": 9.0, "positives": 8.0},
            "top": {"device": {"values": 1, "rows": [one]}},
        }
        click = {**CLICK, **SPANS, **fits, "bounds": {**bounds.report("click"), "target": whole}}
        said = {"at": time.time(), "refits": 1, "failures": 0, "consecutive_failures": 2}
        clicks = dict.fromkeys(("open", "waiting", "closed", "expired"), 0)
        delayed = {"refused_models": 0, "damaged_parts": 0, "closing_failures": 0, "left_alone": 0}
        Heartbeat(service.store, 3600).write({**said, **delayed, "clicks": clicks})
        stopped = {"state": "aborted", "reason": "pcoc", "watch": {"evidence": 5.0}}
        stopped |= {"challenger": {"method": "sir"}, "salt": "a", "shares": {"challenger": 0.1}}
        targets = {"click": click, "conversion": CONVERSION}
        report = {"refit_seconds": 1.0, "targets": targets, "experiments": {"click": stopped}}
        atlas = Atlas.build({"a": CalibrationMap.identity()})
        service.publish({"click": atlas, "conversion": atlas}, report, as_of=AS_OF)
        service.http.post("/v1/calibrate", json={"target": "click", "campaign": "a", "scores": [1]})
        service.http.post("/v1/events", json=[])
        eventually(lambda: service.metrics("sirocco_degraded"))
        found = defaultdict(set)
        counted = ("sirocco_shed_total", "sirocco_connections_closed_total", "sirocco_events_total")
        for line in service.http.get("/metrics").text.splitlines():
            name, _, rest = line.partition("{")
            if not line.startswith("#"):
                found[name.split(" ")[0]] |= set(_LABEL.findall(rest)) | _OF_SCRAPES
        # Nothing was shed, closed or sent; tests of these counters have their labels.
        found |= dict(zip(counted, ({"route"}, {"reason"}, {"type", "result"}), strict=True))
        # Nor is there a key.
        found["sirocco_key_seconds_left"] = {"scope"}
    return found


def wrong_in(query, shown, recorded):
    """Names and labels of a query that nobody gives it."""
    plain = re.sub(r"\[[^\]]*\]", "", query)
    names = _METRIC.findall(plain)
    known = {**{name: {"route", "target", "direction"} for name in recorded}, **shown}
    missing = [name for name, _ in names if name not in known]
    held = set().union(*(known.get(name, set()) for name, _ in names))
    labels = [(name, label) for name, said in names for label in _LABEL.findall(said)]
    wrong = [pair for pair in labels if pair[1] not in known.get(pair[0], set())]
    by = {label.strip() for said in _BY.findall(plain) for label in said.split(",")}
    return [*missing, *wrong, *(by - held)]


def test_every_query_asks_for_what_a_service_shows(shown):
    recorded = {rule["record"] for rule in rules(RECORDING)}
    asked = [rule["expr"] for path in (ALERTS, RECORDING) for rule in rules(path)]
    asked += BOARD["queries"]()

    assert len(asked) > 60
    assert {query: wrong for query in asked if (wrong := wrong_in(query, shown, recorded))} == {}


def test_a_query_for_what_nobody_shows_is_found(shown):
    assert wrong_in("sum(sirocco_nothing)", shown, set()) == ["sirocco_nothing"]
    assert wrong_in('sirocco_pcoc{colour="red"}', shown, set()) == [("sirocco_pcoc", "colour")]
    assert wrong_in("max by (colour) (sirocco_pcoc)", shown, set()) == ["colour"]


def test_the_board_is_what_its_code_writes():
    written = BOARD["BOARD"].read_text(encoding="utf-8")
    board = json.loads(written)

    assert written == BOARD["rendered"](), "run python deploy/grafana/board.py"
    numbers = [panel["id"] for panel in board["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert board["uid"] == "sirocco"


def test_the_board_shows_nothing_of_other_programs():
    """A Prometheus that scrapes others, too, has the same names of their processes."""
    assert [query for query in BOARD["queries"]() if "sirocco" not in query] == []


def test_a_legend_tells_the_series_of_a_query_apart():
    """Whatever a query groups by, with two targets as with one."""
    charts = [chart for charts in BOARD["ROWS"].values() for chart in charts]
    for legend, query in ((legend, q) for chart in charts for legend, q in chart.queries.items()):
        if "histogram_quantile" not in query:
            grouped = {name.strip() for found in _BY.findall(query) for name in found.split(",")}
            assert grouped <= set(re.findall(r"{{(\w+)}}", legend)), legend


def test_each_alert_says_how_bad_it_is_and_where_to_read_on():
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert {"summary", "description", "runbook_url"} == rule["annotations"].keys(), name
        link = rule["annotations"]["runbook_url"]
        assert link == f"{{{{ $externalLabels.sirocco_docs }}}}docs/runbooks/{name}.md"


FAST, SLOW = [("1h", "5m", 14.4), ("6h", "30m", 6)], [("3d", "6h", 1)]


@pytest.mark.parametrize(
    ("alert", "ratio", "budget", "rates"),
    [
        ("SiroccoErrorsBurnFast", "errors", 0.001, FAST),
        ("SiroccoErrorsBurnSlowly", "errors", 0.001, SLOW),
        ("SiroccoLatencyBurnsFast", "slow", 0.01, FAST),
        ("SiroccoLatencyBurnsSlowly", "slow", 0.01, SLOW),
    ],
)
def test_burn_rates_are_those_of_the_sre_workbook(alert, ratio, budget, rates):
    """Table 5-8: 2 % of a month's budget in an hour, 5 % in six, 10 % in three days; and still so
    in a twelfth of that time."""
    burns = [
        f"(sirocco:{ratio}:ratio_rate{long} > {rate} * {budget}"
        f" and sirocco:{ratio}:ratio_rate{short} > {rate} * {budget})"
        for long, short, rate in rates
    ]

    assert " ".join(alerts()[alert]["expr"].split()) == " or ".join(burns)


def test_a_recorded_ratio_is_over_the_time_that_its_name_says():
    recorded = {rule["record"]: rule["expr"] for rule in rules(RECORDING)}
    over = {name: {*re.findall(r"\[(\w+)\]", expr)} for name, expr in recorded.items()}

    burns = {name: spans for name, spans in over.items() if spans}
    assert len(burns) == 10
    assert burns == {name: {name.partition("_rate")[2]} for name in burns}


def test_each_alert_has_a_runbook_and_each_runbook_an_alert():
    pages = {path.stem: path.read_text() for path in RUNBOOKS.glob("Sirocco*.md")}
    listed = (RUNBOOKS / "README.md").read_text()
    titles = ("What it means for money", "How to see it", "What to do", "When it is over")

    assert pages.keys() == alerts().keys()
    for name, rule in alerts().items():
        assert f"[{name}]({name}.md) | {rule['labels']['severity']} |" in listed
        assert [line[3:] for line in pages[name].splitlines() if line[:3] == "## "] == [*titles]


def test_runbooks_name_units_that_are_installed():
    text = "".join(path.read_text() for path in RUNBOOKS.glob("*.md"))
    named = set(re.findall(r"(?:systemctl status|journalctl -u) ([\w.-]+)", text))

    assert named == {path.stem for path in (ROOT / "deploy/systemd").glob("*.service")}


def test_what_runbooks_look_for_is_found():
    """Processes that others start have the package in their command; shed requests have no code."""
    looked_for = {
        ("SiroccoLatencyBurnsFast", "pgrep -d, -f"): (
            "/usr/bin/python /usr/local/lib/sirocco/bin/sirocco serve --workers 4",
            "/usr/bin/python -P -m app.cli --parent 7 serve --as-worker 3,5,3,0,4",
        ),
        ("SiroccoErrorsBurnFast", "grep -E"): (
            'sirocco_requests_total{code="503",route="/v1/events"} 1.0',
            'sirocco_requests_total{route="/v1/events",code="503"} 1.0',
            'sirocco_shed_total{route="/v1/events"} 1.0',
        ),
    }
    for (name, command), lines in looked_for.items():
        (pattern,) = re.findall(f"{command} '(.*)'", (RUNBOOKS / f"{name}.md").read_text())
        assert [line for line in lines if not re.search(pattern, line)] == []


def test_each_alert_is_fired_and_quiet_in_a_case_of_its_own():
    cases = [case for path in OF_EACH for case in yaml.safe_load(path.read_text())["tests"]]
    fired = {case["name"] for case in cases if "exp_alerts" in case["alert_rule_test"][0]}

    assert fired == {f"{name} fires" for name in alerts()}
    assert {case["name"] for case in cases} - fired == {f"{name} is quiet" for name in alerts()}


def test_what_fires_after_a_while_is_quiet_a_minute_before():
    """In promtool's own terms: a second look at the same series, which expects nothing."""
    cases = [case for path in OF_EACH for case in yaml.safe_load(path.read_text())["tests"]]
    looks = {
        case["name"].split()[0]: case["alert_rule_test"]
        for case in cases
        if "fires" in case["name"]
    }
    minutes = {
        name: [int(look["eval_time"].removesuffix("m")) for look in looks[name]]
        for name, rule in alerts().items()
        if "for" in rule
    }

    assert len(minutes) > 10
    assert all(before == fires - 1 for fires, before in minutes.values())
    assert not any("exp_alerts" in looks[name][1] for name in minutes)


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool: it is in the Debian package prometheus")
    return found


def test_promtool_takes_every_rule_and_every_query_of_the_board(promtool, tmp_path):
    """The board's queries as rules: promtool parses them."""
    queries = [
        {"record": f"q{number}", "expr": re.sub(r"\$__rate_interval", "5m", query)}
        for number, query in enumerate(BOARD["queries"]())
    ]
    board = tmp_path / "board.yaml"
    board.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": queries}]}))

    done = subprocess.run(
        [promtool, "check", "rules", ALERTS, RECORDING, board], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_promtool_fires_each_alert(promtool, case):
    done = subprocess.run([promtool, "test", "rules", case], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
