"""What a contest ends with: tables or JSON, the page, the picture, the Markdown page.

The tables of a contest in a Markdown page, between two marks; the rest of it is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from app.cli.console import note, results
from app.click_log.folder import write_durably
from app.errors import FAILED, CommandError, invocation
from app.reports.page import check_report, write_page
from app.reports.pictures import check_picture
from app.results.formatting import shown
from research.leaderboard.page import contest_page
from research.leaderboard.picture import contest_picture
from research.leaderboard.result import (
    LOG_LOSS,
    Contested,
    ContestResult,
    DriftCurves,
    Ends,
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
    show_contest,
    verdict_texts,
    verdict_words,
)
from research.leaderboard.targets import HERO, NO_WORSE, Verdict, verdicts_of

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


def write_between_marks(result: ContestResult, path: Path) -> None:
    """Replace what stands between the marks."""
    check_marks(path)
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    body = "\n".join(markdown_lines(result))
    try:
        write_durably(path.absolute(), f"{before}{BEGIN}\n\n{body}\n{END}{after}".encode())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error


def markdown_lines(result: ContestResult) -> Iterator[str]:
    """Targets, all regimes, each of them, logs, the jump, and where all of it comes from."""
    verdicts = verdicts_of(result)
    known = [found for found in result.contested if found.truth_known]
    logs = [found for found in result.contested if not found.truth_known]
    yield from (f"**{_wrapped(said)}**\n" for said in short_notes(result))
    if verdicts:
        yield from _targets(verdicts)
    if len(known) > 1:
        yield from _overall(result)
    for found in known:
        yield from _regime(found)
    for found in logs:
        yield from _log(found)
    if result.drift is not None:
        yield from _drift(result.drift)
    yield from _origins(result)


def _targets(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield "### Targets\n"
    yield f"{_wrapped(verdict_words(verdicts))}\n"
    cells = [heading.replace("\n", " ").replace("<=", "≤") for heading in HEADINGS.values()]
    yield from _head(["regime", *cells])
    for regime, of_regime in groupby(verdicts, lambda verdict: verdict.regime):
        by_target = {verdict.target: verdict for verdict in of_regime}
        yield _line([regime, *(_verdict(by_target[name]) for name in HEADINGS)])
    yield ""
    for verdict in verdicts:
        if verdict.target == NO_WORSE:
            value, _, interval = verdict_texts(verdict)
            said = f"{verdict.regime}: {NO_WORSE}, x 10^6: {value} ({interval})."
            yield f"{_wrapped(said)}\n"


def _verdict(verdict: Verdict) -> str:
    value, _, interval = verdict_texts(verdict)
    marked = f"**missed: {value}**" if verdict.met is False else value
    against = f" {verdict.against}" if verdict.against else ""
    return f"{marked} ({interval}){against}"


def _overall(result: ContestResult) -> Iterator[str]:
    yield "### All regimes\n"
    yield "Geometric means of the ratios to `sir_published`, and their range, over regimes whose"
    yield "scores err.\n"
    yield from _head(["method", "excess", "range", "GC-3*", "range"])
    for name, *cells in overall_rows(result):
        yield _line([_bold(name), *cells])
    yield ""


def _regime(found: Contested) -> Iterator[str]:
    yield f"### {found.name}\n"
    yield f"{_wrapped(_about(found))}\n"
    yield from _head(["method", *(column.heading for column in columns_of(found).values())])
    yield from (_line(row) for row in _rows(found))
    yield ""
    yield from _missing(found)


def _log(found: Contested) -> Iterator[str]:
    yield f"### {found.name}\n"
    yield f"{_wrapped(_about(found))}\n"
    headings = [column.heading for column in columns_of(found).values()]
    yield from _head(["method", *headings, f"log loss of {HERO} less it, x 10^6"])
    for name, *cells in _rows(found):
        ends = found.differences.get(name.strip("*"), {}).get(LOG_LOSS)
        yield _line([name, *cells, _difference(ends)])
    yield ""
    yield from (f"{_wrapped(said)}\n" for said in block_notes(found))
    yield from _missing(found)


def _rows(found: Contested) -> Iterator[list[str]]:
    columns = columns_of(found)
    best = {metric: best_of(found, metric) for metric in columns}
    for name in found.rows:
        texts = {metric: col.text(found.value(name, metric)) for metric, col in columns.items()}
        marked = [f"**{said}**" if best[m] == name else said for m, said in texts.items()]
        yield [_bold(name), *marked]


def _difference(ends: Ends | None) -> str:
    return " ".join(difference_text(ends)).strip()


def _about(found: Contested) -> str:
    seeds = f" of {len(found.seeds)} seeds" if len(found.seeds) > 1 else ""
    blocks = found.blocks
    unit = blocks.unit if blocks.count != 1 else blocks.unit.removesuffix("s")
    about = f"{found.about[:1].upper()}{found.about[1:]}"
    return (
        f"{about}. {found.impressions:,.0f} impressions and {found.positives:,.0f} positives in"
        f" {found.hours} judged hours{seeds}; {blocks.count:,} {unit}."
    )


def _missing(found: Contested) -> Iterator[str]:
    for name, reason in found.missing.items():
        yield f"{_wrapped(f'`{name}` did not run: {reason}.')}\n"


def _drift(curves: DriftCurves) -> Iterator[str]:
    yield "### Refits within the hour\n"
    seeds = f"; mean of {len(curves.seeds)} seeds" if len(curves.seeds) > 1 else ""
    said = f"{curves.about}{seeds}. Excess log loss x 10^6 of each hour, by time between refits."
    yield f"{_wrapped(said)}\n"
    hours = [f"{hour:+.0f} h" if hour else "0 h" for hour in curves.hours]
    yield from _head(["refits", *hours])
    for name, excess in curves.excess.items():
        yield _line([name, *(shown(MILLION * value, ",.0f") for value in excess)])
    yield ""


def _origins(result: ContestResult) -> Iterator[str]:
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
    return f"**{name}**" if name == HERO else name


def _wrapped(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


_DPI: Final = 144


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where a contest's result goes, besides the terminal."""

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


def report_contest(result: ContestResult, outlets: Outlets) -> None:
    """Write and print all that is asked for."""
    if outlets.picture is not None:
        _save(result, outlets.picture)
    if outlets.report is not None:
        write_page(contest_page(result, _footer(result)), outlets.report)
    if outlets.page is not None:
        write_between_marks(result, outlets.page)
    if outlets.as_json:
        verdicts = [_plain(verdict) for verdict in verdicts_of(result)]
        results().out(result_json(result, verdicts).decode(), highlight=False, end="")
        return
    show_contest(result)
    for what, path in (
        ("Picture", outlets.picture),
        ("Report", outlets.report),
        ("Page", outlets.page),
    ):
        if path is not None:
            note(f"{what}: {path}")


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "clear": verdict.clear}


def _save(result: ContestResult, path: Path) -> None:
    drawing = contest_picture(result)
    try:
        if path.suffix.lower() == ".svg":
            path.write_text(drawing.svg(), encoding="utf-8")
        else:
            drawing.figure().savefig(path, dpi=_DPI)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error


def _footer(result: ContestResult) -> str:
    """How the page was made, and the plays behind it."""
    made = [f"{origin.command}\n{origin.at}, {origin.machine}" for origin in result.origins]
    return "\n".join([f"Made by: {invocation()}", *made])
