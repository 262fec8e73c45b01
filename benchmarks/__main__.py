"""Every benchmark, one part after the other.

python -m benchmarks [--large] [--json] [--write]
"""

from benchmarks import (
    calibrate,
    click_log,
    delayed,
    evaluate,
    fit,
    grid,
    ingest,
    look_up,
    metrics,
    pccem,
    refit,
)
from benchmarks.page import write_page
from benchmarks.parts import arguments, run, show
from benchmarks.sources import source_digest

PARTS = (
    look_up.PART,
    fit.PART,
    ingest.PART,
    calibrate.PART,
    refit.PART,
    pccem.PART,
    click_log.PART,
    delayed.PART,
    evaluate.PART,
    grid.PART,
    metrics.PART,
)


def main() -> None:
    """Run all parts; print them, and write the page if asked to."""
    parser = arguments("Every benchmark of sirocco.")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    before = source_digest()
    results = [run(part, given.large) for part in PARTS]
    show(results, given)
    if given.write:
        command = "python -m benchmarks --write" + (" --large" if given.large else "")
        write_page(results, command, before)


if __name__ == "__main__":
    main()
