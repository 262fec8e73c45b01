"""The tables of a contest in a Markdown page, between two marks; the rest of it is kept."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Final

from app.click_log.durable_file import write_durably
from app.command_line.contest_result import LOG_LOSS, Contested, ContestResult, DriftCurves, Ends
from app.command_line.contest_tables import (
    HEADINGS,
    best_of,
    columns_of,
    overall_rows,
)
from app.command_line.contest_targets import HERO, NO_WORSE, Verdict, verdicts_of
from app.command_line.contest_words import (
    MILLION,
    block_notes,
    difference_text,
    short_notes,
    verdict_texts,
    verdict_words,
)
from app.command_line.errors import FAILED, CommandError
from app.command_line.tables import shown

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
