"""`python -m research.leaderboard.fields`: calibrators on worlds with fields, hour by hour.

python -m research.leaderboard.fields                                  # everything, one seed
python -m research.leaderboard.fields --worlds none mix --seeds 0 1
python -m research.leaderboard.fields --methods pooled --json > pooled.json
python -m research.leaderboard.fields --from pooled.json rivals.json   # tables of what was run
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.cli.console import progress
from research.leaderboard.fields.methods import METHODS
from research.leaderboard.fields.platform import FIELD_REGIMES, FIRST_SCORED, SCORED_HOURS
from research.leaderboard.fields.scores import Run, world
from research.leaderboard.fields.tables import Result, as_markdown


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    given = _parser().parse_args(arguments)
    found = [result for path in given.kept for result in json.loads(path.read_text())]
    results = found or list(_results(given))
    sys.stdout.write((json.dumps(results, indent=1) if given.json else as_markdown(results)) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m research.leaderboard.fields", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for option, names in (("--worlds", [*FIELD_REGIMES]), ("--methods", [*METHODS])):
        parser.add_argument(option, nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
    parser.add_argument("--first", type=int, default=FIRST_SCORED, help="first hour that is scored")
    parser.add_argument("--scored", type=int, default=SCORED_HOURS, help="hours that are scored")
    parser.add_argument("--from", dest="kept", nargs="+", type=Path, default=[], metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _results(given: argparse.Namespace) -> Iterator[Result]:
    total = len(given.worlds) * len(given.seeds) * (given.first + given.scored)
    with progress("worlds with fields", total, "hours", shown=not given.json) as advance:
        for name in given.worlds:
            for seed in given.seeds:
                run = Run(world(name, seed), given.methods)
                for _ in run.hours(given.first, given.scored):
                    advance(f"{name}, seed {seed}")
                found = {who: scores.summary() for who, scores in run.scores.items()}
                yield Result(world=name, seed=seed, found=found, unavailable=run.unavailable)


if __name__ == "__main__":
    sys.exit(main())
