"""What the commands print and write on small synthetic logs, and which options they have."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.loopback import PATIENT
from tests.recorded.texts import Items

DELAYED = {
    "SIROCCO_ATTRIBUTION_HOURS": "conversion=24",
    "SIROCCO_MIN_TRAINING_CLICKS": "200",
    "SIROCCO_MIN_TRAINING_CONVERSIONS": "10",
    "SIROCCO_TRAINING_THREADS": "1",
}
LOG, MORNING, CLICKS = "log.parquet", "morning.parquet", "clicks.parquet"
START, MORNING_HOURS = 1_735_689_600, 9
LOGS = {
    LOG: "--impressions 1500 --days 1 --campaigns 4 --seed 3",
    CLICKS: "--clicks 300 --days 4 --campaigns 3 --seed 3",
}
BEHAVIOURS = (
    "--conversion converted --behaviour behaviour.page_views --feature feature.device --folds 2"
)
RUNS = {
    "backtest": "backtest log.parquet --window 6h --bin-size 200 --draws 30 --report {page}",
    "backtest raw samples": "backtest log.parquet --window 6h --calibrators sir --raw-samples",
    "backtest delayed": "backtest clicks.parquet --delayed --judged 1d",
    "evaluate": "evaluate log.parquet --by arm --group user --report {page}",
    "compare": "compare log.parquet log.parquet --score-b candidate --draws 50 --report {page}",
    "auction demo": "auction --demo --pages 1000 --sweep --report {page}",
    "readout": "readout log.parquet --unit user",
    "behaviours": f"behaviours visits.parquet {BEHAVIOURS}",
    "reproduce": "reproduce csauc auc_anomalies calibration_tables printed_coherence",
}
"""Each runs for its tables, which also writes the page, and again for `--json`."""

SLOW_RUNS = {
    "backtest compare": "backtest --compare --regimes sparse --judged 2h --contenders"
    " identity,sir,pooled",
    "backtest delayed seeds": "backtest --delayed --seeds 1 --judged 6h",
    "replay": "replay morning.parquet --window 6h --bin-size 200 --no-picture",
    "demo": "demo --campaigns 4 --hours 8 --window 3h --impressions 2000 --no-picture"
    " --start 2026-03-02T12:00:00Z",
}
# What takes seconds there. Tables and JSON are two ways to tell what came of it.
COMPUTED_ONCE = (
    "app.cli.measure.backtest.LogBacktest.run",
    "app.cli.measure.delayed_backtest.delayed_backtest",
    "app.cli.serving.demo._play",
    "app.cli.serving.replay._replay",
    "research.leaderboard.command.run_tasks",
)
DEMO_SERVICE = "app.cli.serving.demo.private_service"
TABLES_ONLY = {"reproduce curve": "reproduce rate_curve"}
REFUSED = {
    "refused: no log": "evaluate none.parquet",
    "refused: no column": "evaluate log.parquet --score nothing",
    "refused: no calibrator": "backtest log.parquet --calibrators nothing",
    "refused: options that exclude each other": "simulate x.parquet --impressions 5 --clicks 5",
}
_OPTION = re.compile(r"^│ [* ]*(-[-\w]+)\s+(-\w)?\s*(<[^>]+>|[\w=|]+)?", re.MULTILINE)
_COMMAND = re.compile(r"^│ (\w+)  +\S", re.MULTILINE)
_DEFAULT = re.compile(r"\[default: ([^\]]*)\]")
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC(?=</p>)")
_LASTED = re.compile(
    r'("?seconds"?:?\s*)(?:[0-9.e-]+|\[[^]]*\])|("(?:at|machine)": )"[^"]*"|\b[0-9.]+ (?:s|min)\b'
)
_CPU = re.compile(r"^( (?:identity|sir|pooled) .*\s)\d+\.\d $", re.MULTILINE)


def command_items(folder: Path) -> Items:
    """Every quick item by name; logs are written into the folder."""
    items = {**write_logs(folder), **_options(folder)}
    for name, line in RUNS.items():
        items |= _tables_and_json(name, line, folder)
    for name, line in (TABLES_ONLY | REFUSED).items():
        items[f"command/{name}"] = _timeless(sirocco(line, folder))
    return items


def slow_command_items(folder: Path) -> Items:
    """Commands that start a service, or run for long."""
    write_logs(folder)
    items: Items = {}
    for name, line in SLOW_RUNS.items():
        items |= _tables_and_json(name, line, folder)
    return items


@contextlib.contextmanager
def _computed_once() -> Iterator[None]:
    """Who computes again what was computed is handed the same, and the demo no second service."""
    with contextlib.ExitStack() as stack:
        for name in COMPUTED_ONCE:
            stack.enter_context(mock.patch(name, _remembered(name)))
        stack.enter_context(mock.patch(DEMO_SERVICE, _first_service()))
        yield


def _remembered(name: str) -> Callable[..., Any]:
    function, found = resolve_name(name), []

    def called(*given: Any, **named: Any) -> Any:
        if not found:
            found.append(function(*given, **named))
        return found[0]

    return called


def _first_service() -> Callable[..., Any]:
    left = [resolve_name(DEMO_SERVICE)]
    nobody = contextlib.nullcontext(SimpleNamespace(url="http://127.0.0.1:9"))
    return lambda *given: left.pop()(*given) if left else nobody


def write_logs(folder: Path) -> Items:
    """Write the logs; the items are what they hold, which may be packed in another way."""
    items = {}
    for name, options in LOGS.items():
        items[f"command/simulate {name}/said"] = sirocco(f"simulate {name} {options}", folder)
        items[f"command/simulate {name}/columns"] = columns_of(folder / name)
    log = pq.read_table(folder / LOG)
    until = START + MORNING_HOURS * 3600
    pq.write_table(log.filter(pc.less(log["time"], until)), folder / MORNING)
    clicks = pq.read_table(folder / CLICKS)
    converted = clicks["converted_at"].is_valid().cast("int8")
    pq.write_table(clicks.append_column("converted", converted), folder / "visits.parquet")
    return items


def columns_of(path: Path, without: str | None = None) -> str:
    """What a Parquet file holds: its schema and every value, but for columns `without...`."""
    table = pq.read_table(path)
    names = [name for name in table.column_names if not without or not name.startswith(without)]
    columns = "\n".join(f"{name}: {table[name].to_pylist()}" for name in names)
    return f"{table.schema.to_string(show_schema_metadata=False)}\n{columns}"


def sirocco(line: str, folder: Path, **variables: str) -> str:
    """Run the installed command in this process, in the folder: stdout, stderr and exit code."""
    (command,) = entry_points(group="console_scripts", name="sirocco")
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        _as_started(line, {**DELAYED, **variables}, folder),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        code = _exit_code(command.load())
    return f"{stdout.getvalue()}\n--- stderr\n{stderr.getvalue()}\n--- exit code {code}\n"


@contextlib.contextmanager
def _as_started(line: str, variables: Mapping[str, str], folder: Path) -> Iterator[None]:
    """No settings but these and patience, a console 100 wide without colours, and our arguments."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SIROCCO_")}
    environment = {**kept, **PATIENT, "COLUMNS": "100", "NO_COLOR": "1", **variables}
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "argv", ["sirocco", *line.split()]),
        contextlib.chdir(folder),
    ):
        yield


def _exit_code(main: object) -> object:
    assert callable(main)
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return None


def _tables_and_json(name: str, line: str, folder: Path) -> Items:
    page = folder / "page.html"
    plain = line.replace(" --report {page}", "")
    with _computed_once():
        tables = sirocco(line.format(page=page.name), folder)
        as_json = sirocco(f"{plain} --json", folder)
    items = {
        f"command/{name}/tables": _timeless(tables),
        f"command/{name}/json": _timeless(as_json),
    }
    if "{page}" in line:
        items[f"command/{name}/page"] = _WRITTEN.sub("(written at)", page.read_text())
    return items


def _timeless(text: str) -> str:
    """Without when it ran and how long anything took."""
    return _CPU.sub(r"\1(seconds)", _LASTED.sub(r"\1\2(varies)", text))


def _options(folder: Path) -> Items:
    commands = _COMMAND.findall(_help("", folder))
    items = {"options/commands": "\n".join(commands)}
    for command in commands:
        items[f"options/{command}"] = _options_of(_help(command, folder))
        for part in _COMMAND.findall(_help(command, folder)):
            items[f"options/{command} {part}"] = _options_of(_help(f"{command} {part}", folder))
    return items


def _help(command: str, folder: Path) -> str:
    return sirocco(f"{command} --help", folder, COLUMNS="400")


def _options_of(help_text: str) -> str:
    """Options, arguments and subcommands by name, and what holds where nothing is given."""
    options = [" ".join(found).strip() for found in _OPTION.findall(help_text)]
    assert options, f"no options in: {help_text}"
    return "\n".join(options + _COMMAND.findall(help_text) + _DEFAULT.findall(help_text))
