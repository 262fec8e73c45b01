"""Every benchmark, or those that are named, one part after the other.

python -m benchmarks [PART ...] [--large] [--json] [--write]
"""

import sys
from importlib import import_module
from traceback import print_exc

from benchmarks.contents import NAMES
from benchmarks.parts import Part, arguments, keep, run, say, show
from benchmarks.results import Result


def main() -> int:
    """Run the parts and print them; the exit code is 1 when one failed.

    A part is written as soon as it has ended, so nothing is lost when a later one fails.
    """
    parser = arguments("Every benchmark of sirocco.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(NAMES)}; or all")
    given = parser.parse_args()
    unknown = sorted(set(given.parts) - set(NAMES))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    results = [_tried(part_of(name), given.large, given.write) for name in given.parts or NAMES]
    show([result for result in results if result], given)
    return int(None in results)


def part_of(name: str) -> Part:
    """The part of a module."""
    part: Part = import_module(f"benchmarks.{name}").PART
    return part


def _tried(part: Part, large: bool, write: bool) -> Result | None:
    try:
        result = run(part, large)
    except Exception:
        print_exc()
        say(f"{part.name} failed")
        return None
    if write:
        keep(result)
    return result


if __name__ == "__main__":
    sys.exit(main())
