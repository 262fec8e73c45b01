"""A chart of the reports as a file of its own, readable on light and on dark pages."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from app.reports.drawing import series_style
from app.reports.labels import width
from app.reports.page import Chart

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
