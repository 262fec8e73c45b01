"""`python -m research.faults`: plays the matrix of faults, and kills a whole service.

python -m research.faults matrix                # the tests of every row
python -m research.faults matrix --rows F5 F6   # of these
python -m research.faults kills --kills 50      # a service under load, killed 50 times
"""

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from app.cli.console import percent_bar
from research.faults.kills import Outcome, Plan, run
from research.faults.matrix import ROWS, Row, as_markdown

ROOT: Final = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code: 0 where every guarantee was kept."""
    given = _parser().parse_args(arguments)
    if given.command == "kills":
        plan = Plan(given.kills, given.seed, given.events, given.pause, seconds=60 * given.minutes)
        return _kill(replace(plan, standby=given.standby), given.json)
    if given.table:
        _say(as_markdown())
        return 0
    return _play([row for row in ROWS if not given.rows or row.name in given.rows], given.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m research.faults", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    matrix = commands.add_parser("matrix", help="play the tests of every row")
    matrix.add_argument("--table", action="store_true", help="only print the rows, in Markdown")
    matrix.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS], metavar="ROW")
    kills = commands.add_parser("kills", help="kill a whole service under load")
    kills.add_argument("--kills", type=int, default=50)
    kills.add_argument("--events", type=int, default=5000, help="acknowledged events per kill")
    kills.add_argument("--pause", type=float, default=1.0, help="seconds between kills, on average")
    kills.add_argument("--minutes", type=float, default=inf, help="stop killing after so many")
    kills.add_argument("--seed", type=int, default=0)
    kills.add_argument("--standby", action="store_true", help="two workers, one of which waits")
    for command in (matrix, kills):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _play(rows: Sequence[Row], as_json: bool) -> int:
    found = {row.name: _result(row) for row in rows}
    if as_json:
        _say(json.dumps(found, indent=1))
    else:
        for row in rows:
            _say(f"{row.name:9}{found[row.name]:8}{row.fault}")
            _say(f"{'':17}{row.guarantee or row.why}")
    return int("red" in found.values())


def _result(row: Row) -> str:
    """green, red, or none where no test plays it."""
    if not row.tests:
        return "none"
    tests = [f"tests/{test}" for test in row.tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:randomly"]
    played = subprocess.run([*command, *tests], cwd=ROOT, stdout=sys.stderr, check=False)
    return "green" if played.returncode == 0 else "red"


def _kill(plan: Plan, as_json: bool) -> int:
    with (
        TemporaryDirectory(prefix="sirocco-faults-") as folder,
        percent_bar("kills", shown=True) as reached,
    ):
        outcome = run(plan, Path(folder), _free_port(), lambda done: reached(done / plan.kills))
    _say(json.dumps(_content(outcome), indent=1) if as_json else _text(outcome))
    return int(not outcome.is_clean)


def _content(outcome: Outcome) -> dict[str, object]:
    kills = {" ".join(kind): number for kind, number in sorted(outcome.kills.items())}
    return {**asdict(outcome), "kills": kills}


def _text(outcome: Outcome) -> str:
    lines = [f"{' '.join(kind):24}{number:8}" for kind, number in sorted(outcome.kills.items())]
    lines += [
        f"{name:24}{value:8,.0f}"
        for name, value in (
            ("kills", outcome.kills.total()),
            ("events acknowledged", outcome.events),
            ("of them clicks", outcome.clicks),
            ("requests sent again", outcome.retries),
            ("calibrations", outcome.answers),
            ("lost", outcome.lost),
            ("doubled", outcome.doubled),
            ("ended by itself", len(outcome.ended)),
            ("seconds", outcome.seconds),
        )
    ]
    return "\n".join([*lines, *outcome.amiss[:20]])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
