"""The report of a backtest."""

from dataclasses import replace
from typing import Final

from app.reports.charts.by_name import bars_chart, differences_chart, ends_of
from app.reports.page import Chart, Page, Section, Table, Tile
from app.reports.pictures import campaigns_of, hours_of, quantiles_of, reliability_of
from app.results.backtest import (
    HEADINGS,
    RAW,
    Backtested,
    about,
    compared_with,
    references,
    warnings,
)
from app.results.formatting import HOW_TO_READ, counted, shown
from evaluation.comparison.significance import LOWER_IS_BETTER, Significance

_FORMS: Final = {
    "pcoc": ("PCOC", ".3f"),
    "log_loss": ("log loss", ".5f"),
    "auc": ("AUC", ".4f"),
    "gc_3": ("GC-3", ".3f"),
    "gc_4": ("GC-4", ".3f"),
    "gc_5": ("GC-5", ".3f"),
}
_CHARTED: Final = ("log_loss", "gc_3")


def backtest_page(found: Backtested) -> Page:
    """The page that `sirocco backtest --report` writes."""
    sections = [_before_and_after(found), _by_hour_and_campaign(found), _calibrators(found)]
    said = list(found.notes)
    if found.significance is not None:
        sections.insert(2, _significance(found.significance))
        said += warnings(found.significance)
    return Page(
        title=f"Backtest of {found.name}",
        subtitle=_subtitle(found),
        verdict=found.conclusion,
        tiles=[_tile(found, column) for column in ("log_loss", "gc_3", "pcoc", "auc")],
        sections=sections,
        warnings=said,
    )


def delayed_page(found: Backtested) -> Page:
    """The page that `sirocco backtest --delayed --report` writes."""
    return replace(backtest_page(found), subtitle=_subtitle(found, "click", "conversion"))


def _subtitle(found: Backtested, sample: str = "impression", positive: str = "click") -> str:
    card, events = found.cards[RAW], found.scored.events
    campaigns = len(set(events.rows.tolist()))
    hours = len(set(events.hours.tolist()))
    return (
        f"{found.how}: {counted(card['n'], sample)}, {counted(card['positives'], positive)},"
        f" {counted(campaigns, 'campaign')}, {counted(hours, 'hour')} evaluated"
    )


def _shown(found: Backtested) -> list[str]:
    """The scores as they came, the reference, and the best where that is another."""
    return list(dict.fromkeys((RAW, found.against, found.best)))


def _tile(found: Backtested, column: str) -> Tile:
    heading, form = _FORMS[column]
    before, after = (found.cards[name][column] for name in (RAW, found.against))
    return Tile(f"{heading}, {found.against}", shown(after, form), f"{shown(before, form)} before")


def _before_and_after(found: Backtested) -> Section:
    names = _shown(found)
    return Section(
        "Before and after",
        f"{RAW} is the score as it came.",
        [reliability_of(found.scored, names), quantiles_of(found.scored, names)],
    )


def _by_hour_and_campaign(found: Backtested) -> Section:
    # More lines than two hide each other: what the verdict is about, and the scores as they came.
    lines = [RAW, found.against]
    return Section(
        "By hour and by campaign",
        "What is right on the whole may be wrong in every hour, or for every campaign.",
        [hours_of(found.scored, lines), campaigns_of(found.scored, _shown(found))],
    )


def _calibrators(found: Backtested) -> Section:
    charts: list[Chart | Table] = [_bars(found, column) for column in _CHARTED]
    return Section("All calibrators", HOW_TO_READ, [*charts, _table(found)])


def _bars(found: Backtested, column: str) -> Chart:
    heading, _ = _FORMS[column]
    values = [card[column] for card in found.cards.values()]
    return bars_chart(
        list(found.cards),
        {heading: values},
        f"{heading} by calibrator",
        "Lower is better.",
        heading="calibrator",
    )


def _table(found: Backtested) -> Table:
    rows = [
        (name, *(shown(card[column], form) for column, (_, form) in _FORMS.items()))
        for name, card in found.cards.items()
    ]
    return Table(("", *(heading for heading, _ in _FORMS.values())), rows, "Scorecards")


def _significance(found: Significance) -> Section:
    charts = [
        _forest(found, reference, metric) for reference in references(found) for metric in HEADINGS
    ]
    return Section("Beyond chance?", about(found), charts)


def _forest(found: Significance, reference: str, metric: str) -> Chart:
    names = compared_with(found, reference)
    side = "Left" if LOWER_IS_BETTER[metric] else "Right"
    return differences_chart(
        names,
        ends_of(found.differences[name, reference][metric] for name in names),
        f"{HEADINGS[metric]}: difference from {reference}",
        f"{side} of the line is better than {reference}. The bar is the 95 % interval; a filled"
        " mark is beyond chance.",
        heading="calibrator",
    )
