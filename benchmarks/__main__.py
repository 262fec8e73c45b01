"""Runs benchmarks, all of them or those that are named, one part after the other.

python -m benchmarks [PART ...] [--large] [--minutes N] [--json] [--write]
"""

import sys
from argparse import ArgumentParser, Namespace
from importlib import import_module
from traceback import print_exc

from benchmarks.parts import PARTS, Part, run, say
from benchmarks.report.page import write_page
from benchmarks.report.printing import print_json, print_tables
from benchmarks.report.results import Result, save


def main() -> int:
    """Run the parts and print them; the exit code is 1 when one failed, 130 after Ctrl-C.

    A part is written as soon as it has ended, so nothing is lost when a later one fails.
    """
    given = _arguments()
    try:
        results = [_tried(part_of(name), given) for name in given.parts or PARTS]
    except KeyboardInterrupt:
        say("stopped")
        return 130
    (print_json if given.json else print_tables)([result for result in results if result])
    return int(None in results)


def part_of(name: str) -> Part:
    """The part of this name."""
    part: Part = import_module(f"benchmarks.{PARTS[name]}").PART
    return part


def _arguments() -> Namespace:
    parser = ArgumentParser(description="The benchmarks of sirocco.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--large",
        action="store_true",
        help="the sizes that take long too, such as the refit of 100,000 campaigns",
    )
    parser.add_argument("--minutes", type=float, help="how long the soak takes")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in docs/benchmarks and write docs/benchmarks.md again",
    )
    given = parser.parse_args()
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    if given.minutes is not None and given.parts != ["soak"]:
        parser.error("--minutes goes with the part soak alone")
    return given


def _tried(part: Part, given: Namespace) -> Result | None:
    try:
        result = run(part, given.large, given.minutes)
    except Exception:
        print_exc()
        say(f"{part.name} failed")
        return None
    if given.write:
        keep(result)
    return result


def keep(result: Result) -> None:
    """The result into its file, and the page of all files anew."""
    save(result)
    write_page()


if __name__ == "__main__":
    sys.exit(main())
