"""The charts of docs/benchmarks.md: what each shows of which part, as an SVG of its own."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from math import nan
from pathlib import Path

from app.reports.charts.by_name import bars_chart
from app.reports.charts.over_time import lines_chart
from app.reports.drawing import series_style
from app.reports.page import Chart
from app.reports.scale import width
from benchmarks.figures import Cell, Table, middle, transposed
from benchmarks.http.calibrate_ratios import BATCH, ECHO, FRAMEWORKS, column_of, size_of
from benchmarks.report.results import Result

_TEXT, _TITLE = 12.5, 15.0
_EDGE, _INNER = 18.0, 440.0
_LINE, _KEY = 20.0, 26.0
_WIDTH = _INNER + 2 * _EDGE
_SCALE = 1.5
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
_VARIABLES = re.compile(r"(?<=:root )\{[^}]*\}")
_DARK = "@media (prefers-color-scheme: dark)"
_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def picture(chart: Chart) -> str:
    """An SVG: the title, a key to the series, and the drawing."""
    found = _BOX.search(chart.svg)
    assert found is not None
    wide, high = float(found[1]), float(found[2])
    keys, top = _keys(chart.keys)
    height = top + high * _INNER / wide + _EDGE
    drawing = chart.svg.replace(
        "<svg ", f'<svg x="{_EDGE}" y="{top}" width="{_INNER}" height="{height - top - _EDGE}" ', 1
    )
    title = f'<text class="title" x="{_EDGE}" y="{_EDGE + 10}">{escape(chart.title)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}"'
        f' width="{_WIDTH * _SCALE:g}" height="{height * _SCALE:g}" role="img"'
        f' aria-label="{escape(chart.title)}" font-family="{_FONT}">'
        f"<style>{_style()}</style>"
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1:g}" height="{height - 1:g}" rx="6"/>'
        f"{title}{keys}{drawing}</svg>\n"
    )


def _style() -> str:
    """The colours of the reports, for light and for dark."""
    sheet = files("app.reports").joinpath("style.css").read_text(encoding="utf-8")
    light, dark = _VARIABLES.findall(sheet)[:2]
    rules = (
        f":root {light}",
        f"{_DARK} {{ :root {dark} }}",
        ".card { fill: var(--card); stroke: var(--edge); }",
        ".title, .key { fill: var(--ink); }",
        f".title {{ font-size: {_TITLE}px; font-weight: 600; }}",
        f".key {{ font-size: {_TEXT}px; }}",
    )
    return " ".join(" ".join(rules).split())


def _keys(keys: Sequence[tuple[str, int]]) -> tuple[str, float]:
    """Names of the series behind their marks, and where the drawing may begin."""
    placed = list(_placed([name for name, _ in keys]))
    marks = [
        f'<svg x="{x:g}" y="{y - 9:g}" width="10" height="10" viewBox="0 0 10 10">'
        f'<path d="{series_style(number).outline}"'
        f' fill="var(--series-{series_style(number).colour + 1})"/></svg>'
        f'<text class="key" x="{x + 15:g}" y="{y:g}">{escape(name)}</text>'
        for (name, number), (x, y) in zip(keys, placed, strict=True)
    ]
    last = placed[-1][1] if placed else _EDGE + _LINE - 6
    return "".join(marks), last + 16


def _placed(names: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Where each goes: side by side, on the next line when there is no room."""
    x, y = _EDGE, _EDGE + 10 + _LINE + 4
    for name in names:
        wide = width(name, _TEXT) + _KEY
        if x > _EDGE and x + wide > _WIDTH - _EDGE:
            x, y = _EDGE, y + _LINE
        yield x, y
        x += wide


_BATCHES = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class Points:
    """Series over `places`: numbers for lines, names for bars."""

    places: Sequence[float] | Sequence[str]
    series: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Drawing:
    """A chart of the part; `points` raises KeyError where the rows have none of it."""

    part: str
    name: str
    title: str
    points: Callable[[Table], Points]
    labels: Sequence[str] = field(default=("", ""))

    @property
    def file(self) -> str:
        """Its name in docs/images."""
        return f"bench-{self.name}.svg"

    def chart(self, points: Points) -> Chart:
        """The chart of the points."""
        if isinstance(points.places[0], str):
            names = [str(place) for place in points.places]
            return bars_chart(names, points.series, self.title, "", self.labels[1])
        numbers = [float(place) for place in points.places]
        return lines_chart(numbers, points.series, self.title, "", *self.labels)


def drawings_of(result: Result) -> Iterator[tuple[Drawing, Points]]:
    """Those charts of a result that have something to show."""
    for drawing in DRAWINGS:
        if drawing.part == result.part:
            try:
                points = drawing.points(result.rows)
            except KeyError:
                continue
            if len(points.places) > 1:
                yield drawing, points


def write_charts(results: Sequence[Result], folder: Path) -> None:
    """Draw all of them into the folder."""
    folder.mkdir(exist_ok=True)
    for result in results:
        for drawing, points in drawings_of(result):
            (folder / drawing.file).write_text(picture(drawing.chart(points)))


def _of_batches(rows: Table) -> Points:
    names = {
        "sirocco, columns": ("sirocco, columns",),
        "sirocco, binary": ("sirocco, binary, ids",),
        "raw ASGI echo": (f"{ECHO}, columns",),
        "FastAPI, numpy.interp": ("naive, numpy.interp",),
        "FastAPI, scikit-learn": ("naive, scikit-learn",),
        **{name: _settings(rows, name) for name in FRAMEWORKS if _settings(rows, name)},
    }
    columns = [column_of(size) for size in _BATCHES]
    return Points(
        _BATCHES,
        {title: [_least(rows, found, c) for c in columns] for title, found in names.items()},
    )


def _of_frameworks(rows: Table) -> Points:
    names = {
        "sirocco": ("sirocco, one campaign",),
        **{name: _settings(rows, name) for name in FRAMEWORKS if _settings(rows, name)},
    }
    return Points(
        tuple(names),
        {
            column: [_least(rows, found, column) for found in names.values()]
            for column in (column_of(1), column_of(100))
        },
    )


def _settings(rows: Table, framework: str) -> tuple[str, ...]:
    """The settings of a framework that were measured."""
    first = column_of(_BATCHES[0])
    return tuple(
        name
        for name, row in rows.items()
        if name.partition(",")[0] == framework and not isinstance(row[first], str)
    )


def _least(rows: Table, names: Sequence[str], column: str) -> float:
    return min(middle(rows[name][column]) for name in names)


def _look_ups(rows: Table) -> Points:
    batches = {size_of(name): row for name, row in rows.items() if name.startswith(BATCH)}
    named = ("sirocco: all", "sirocco: look-up", "numpy.interp", "scikit-learn")
    series = {n: [middle(row[n]) for row in batches.values()] for n in named}
    return Points(tuple(batches), series)


def _refits(rows: Table) -> Points:
    columns = transposed(rows)
    ours = {_count(name): row for name, row in columns.items() if name.endswith(" campaigns")}
    series = {what: [middle(row[what]) for row in ours.values()] for what in ("CPU s", "wall s")}
    return Points(tuple(ours), series)


def _ingests(rows: Table) -> Points:
    ways: dict[str, dict[float, float]] = {}
    for name, row in rows.items():
        way, _, size = name.partition(f", {BATCH}")
        ways.setdefault(way, {})[_count(size)] = middle(row["events/s of a core"])
    # The alternatives were asked with one size only.
    swept = {way: found for way, found in ways.items() if len(found) > 1}
    places = tuple(dict.fromkeys(size for found in swept.values() for size in found))
    return Points(
        places,
        {
            way.replace("sirocco, ", ""): [found[size] for size in places]
            for way, found in swept.items()
        },
    )


def _fits(rows: Table) -> Points:
    ending = " raw samples"
    raw = {
        _count(name.removeprefix("from ")): row
        for name, row in rows.items()
        if name.endswith(ending)
    }
    names = dict.fromkeys(name for row in raw.values() for name in row)
    return Points(
        tuple(raw), {name: [_known(row.get(name, "")) for row in raw.values()] for name in names}
    )


def _known(cell: Cell) -> float:
    """Nothing is drawn where a text says that there is no number."""
    return nan if isinstance(cell, str) else middle(cell)


def _publishes(rows: Table) -> Points:
    ways = ("by notice, p50 ms", "by notice, p99 ms", "by polling, p50 ms", "by polling, p99 ms")
    named = {way.removesuffix(" ms"): [middle(row[way]) for row in rows.values()] for way in ways}
    return Points(tuple(rows), named)


def _over_minutes(*columns: str) -> Callable[[Table], Points]:
    def points(rows: Table) -> Points:
        minutes = {float(n.split()[1]): row for n, row in rows.items() if n.startswith("minute ")}
        series = {name: [middle(row[name]) for row in minutes.values()] for name in columns}
        return Points(tuple(minutes), series)

    return points


def _count(words: str) -> float:
    return float(words.split()[0].replace(",", ""))


DRAWINGS = (
    Drawing(
        "look_up",
        "look-up",
        "Look-up in 10,000 maps, CPU per value",
        _look_ups,
        ("values in a batch", "ns of CPU per value"),
    ),
    Drawing(
        "calibrate",
        "calibrate",
        "Calibration over HTTP, CPU per request",
        _of_batches,
        ("scores in a request", "µs of the server's CPU per request"),
    ),
    Drawing(
        "calibrate",
        "peers",
        "One map, best setting of each, CPU per request",
        _of_frameworks,
        ("", "µs"),
    ),
    Drawing(
        "ingest",
        "ingest",
        "Ingest, events per second of one core",
        _ingests,
        ("events in a request", "events/s of a core"),
    ),
    Drawing("fit", "fit", "Fit of one campaign from raw samples", _fits, ("samples", "µs of CPU")),
    Drawing(
        "refresh", "refresh", "From publish to serve, in two processes", _publishes, ("", "ms")
    ),
    Drawing(
        "refit", "refit", "Refit of 24 hours, worker and Redis", _refits, ("campaigns", "seconds")
    ),
    Drawing(
        "soak",
        "soak-latency",
        "Soak: latency of calibrations, a refit each minute",
        _over_minutes("p50 ms", "p99 ms", "p99.9 ms"),
        ("minute", "ms"),
    ),
    Drawing(
        "soak",
        "soak-memory",
        "Soak: memory",
        _over_minutes("server MB", "worker MB"),
        ("minute", "MB"),
    ),
)
