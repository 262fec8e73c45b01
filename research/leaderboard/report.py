"""What a run of the leaderboard writes: tables or JSON, the report, the picture, and its tables in
a Markdown page, between two marks; the rest of that page is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from app.cli.console import note, results
from app.errors import FAILED, CommandError, typed_command
from app.reports.page import check_report, write_page
from app.reports.pictures import check_picture
from app.results.formatting import shown
from app.whole_files import write_durably
from research.leaderboard.page import leaderboard_page
from research.leaderboard.picture import leaderboard_picture
from research.leaderboard.result_file import (
    LOG_LOSS,
    DriftCurves,
    Interval,
    Leaderboard,
    TrafficResult,
    result_json,
)
from research.leaderboard.tables import (
    HEADINGS,
    MILLION,
    best_of,
    block_notes,
    columns_of,
    difference_text,
    overall_rows,
    short_notes,
    show_leaderboard,
    target_cells,
    target_lines,
    target_summary,
)
from research.leaderboard.targets import DEFAULT_METHOD, TargetResult, target_results

BEGIN: Final = "<!-- written by sirocco backtest --compare --write: do not change -->"
END: Final = "<!-- end of what is written -->"
_WIDTH: Final = 98


def check_marks(path: Path) -> None:
    """A `CommandError`, before any work is done, unless the page has both marks once."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    if (text.count(BEGIN), text.count(END)) != (1, 1) or text.index(BEGIN) > text.index(END):
        raise CommandError(f"{path}: must have the line {BEGIN} once, and behind it {END}")


def write_between_marks(result: Leaderboard, path: Path) -> None:
    """Replace what stands between the marks."""
    check_marks(path)
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    body = "\n".join(markdown_lines(result))
    try:
        write_durably(path.absolute(), [f"{before}{BEGIN}\n\n{body}\n{END}{after}".encode()])
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error


def markdown_lines(result: Leaderboard) -> Iterator[str]:
    """Targets, all regimes, each of them, logs, the jump, and where all of it comes from."""
    targets = target_results(result)
    known = [found for found in result.traffic if found.truth_known]
    logs = [found for found in result.traffic if not found.truth_known]
    yield from (f"**{_wrapped(line)}**\n" for line in short_notes(result))
    if targets:
        yield from _targets(targets)
    if len(known) > 1:
        yield from _overall(result)
    for found in known:
        yield from _regime(found)
    for found in logs:
        yield from _log(found)
    if result.drift is not None:
        yield from _drift(result.drift)
    yield from _origins(result)


def _targets(targets: Sequence[TargetResult]) -> Iterator[str]:
    yield "### Targets\n"
    yield f"{_wrapped(target_summary(targets))}\n"
    cells = [heading.replace("\n", " ").replace("<=", "≤") for heading in HEADINGS.values()]
    yield from _head(["regime", *cells])
    ratios = [each for each in targets if each.of_one_ratio]
    for regime, of_regime in groupby(ratios, lambda each: each.regime):
        by_target = {each.target: each for each in of_regime}
        yield _line([regime, *(_target(by_target[name]) for name in HEADINGS)])
    yield ""
    yield from (f"{_wrapped(f'{line}.')}\n" for line in target_lines(targets))


def _target(found: TargetResult) -> str:
    value, _, interval = target_cells(found)
    marked = f"**missed: {value}**" if found.met is False else value
    against = f" {found.against}" if found.against else ""
    return f"{marked} ({interval}){against}"


def _overall(result: Leaderboard) -> Iterator[str]:
    yield "### All regimes\n"
    yield "Geometric means of the ratios to `sir_published`, and their range, over regimes whose"
    yield "scores err.\n"
    yield from _head(["method", "excess", "range", "GC-3*", "range"])
    for name, *cells in overall_rows(result):
        yield _line([_bold(name), *cells])
    yield ""


def _regime(found: TrafficResult) -> Iterator[str]:
    yield f"### {found.name}\n"
    yield f"{_wrapped(_about(found))}\n"
    yield from _head(["method", *(column.heading for column in columns_of(found).values())])
    yield from (_line(row) for row in _rows(found))
    yield ""
    yield from _missing(found)


def _log(found: TrafficResult) -> Iterator[str]:
    yield f"### {found.name}\n"
    yield f"{_wrapped(_about(found))}\n"
    headings = [column.heading for column in columns_of(found).values()]
    yield from _head(["method", *headings, f"log loss of {DEFAULT_METHOD} less it, x 10^6"])
    for name, *cells in _rows(found):
        ends = found.differences.get(name.strip("*"), {}).get(LOG_LOSS)
        yield _line([name, *cells, _difference(ends)])
    yield ""
    yield from (f"{_wrapped(line)}\n" for line in block_notes(found))
    yield from _missing(found)


def _rows(found: TrafficResult) -> Iterator[list[str]]:
    columns = columns_of(found)
    best = {metric: best_of(found, metric) for metric in columns}
    for name in found.rows:
        texts = {metric: col.text(found.value(name, metric)) for metric, col in columns.items()}
        marked = [f"**{text}**" if best[m] == name else text for m, text in texts.items()]
        yield [_bold(name), *marked]


def _difference(ends: Interval | None) -> str:
    return " ".join(difference_text(ends)).strip()


def _about(found: TrafficResult) -> str:
    seeds = f" of {len(found.seeds)} seeds" if len(found.seeds) > 1 else ""
    blocks = found.blocks
    unit = blocks.unit if blocks.count != 1 else blocks.unit.removesuffix("s")
    about = f"{found.about[:1].upper()}{found.about[1:]}"
    return (
        f"{about}. {found.impressions:,.0f} impressions and {found.positives:,.0f} positives in"
        f" {found.hours} scored hours{seeds}; {blocks.count:,} {unit}."
    )


def _missing(found: TrafficResult) -> Iterator[str]:
    for name, reason in found.missing.items():
        yield f"{_wrapped(f'`{name}` did not run: {reason}.')}\n"


def _drift(curves: DriftCurves) -> Iterator[str]:
    yield "### Refits within the hour\n"
    seeds = f"; mean of {len(curves.seeds)} seeds" if len(curves.seeds) > 1 else ""
    text = f"{curves.about}{seeds}. Excess log loss x 10^6 of each hour, by time between refits."
    yield f"{_wrapped(text)}\n"
    hours = [f"{hour:+.0f} h" if hour else "0 h" for hour in curves.hours]
    yield from _head(["refits", *hours])
    for name, excess in curves.excess.items():
        yield _line([name, *(shown(MILLION * value, ",.0f") for value in excess)])
    yield ""


def _origins(result: Leaderboard) -> Iterator[str]:
    yield "### Made by\n"
    yield "```"
    for origin in result.origins:
        yield f"{origin.command}\n  {origin.at}; {origin.machine}"
    yield "```\n"


def _head(headings: Sequence[str]) -> Iterator[str]:
    yield _line(headings)
    yield "|---|" + "---:|" * (len(headings) - 1)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _bold(name: str) -> str:
    return f"**{name}**" if name == DEFAULT_METHOD else name


def _wrapped(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


_DPI: Final = 144


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the leaderboard goes, besides the terminal."""

    picture: Path | None
    report: Path | None
    page: Path | None
    as_json: bool

    def check(self) -> None:
        """A `CommandError`, before any work is done, for what cannot be written."""
        if self.picture is not None:
            check_picture(self.picture)
        if self.report is not None:
            check_report(self.report)
        if self.page is not None:
            check_marks(self.page)


def report_leaderboard(result: Leaderboard, outputs: Outputs) -> None:
    """Write and print all that is requested."""
    if outputs.picture is not None:
        _save(result, outputs.picture)
    if outputs.report is not None:
        write_page(leaderboard_page(result, _footer(result)), outputs.report)
    if outputs.page is not None:
        write_between_marks(result, outputs.page)
    if outputs.as_json:
        targets = [_plain(each) for each in target_results(result)]
        results().out(result_json(result, targets).decode(), highlight=False, end="")
        return
    show_leaderboard(result)
    for what, path in (
        ("Picture", outputs.picture),
        ("Report", outputs.report),
        ("Page", outputs.page),
    ):
        if path is not None:
            note(f"{what}: {path}")


def _plain(found: TargetResult) -> dict[str, Any]:
    return {**asdict(found), "clear": found.clear}


def _save(result: Leaderboard, path: Path) -> None:
    drawing = leaderboard_picture(result)
    try:
        if path.suffix.lower() == ".svg":
            path.write_text(drawing.svg(), encoding="utf-8")
        else:
            drawing.figure().savefig(path, dpi=_DPI)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error


def _footer(result: Leaderboard) -> str:
    """How the page was made, and the runs behind it."""
    made = [f"{origin.command}\n{origin.at}, {origin.machine}" for origin in result.origins]
    return "\n".join([f"Made by: {typed_command()}", *made])
