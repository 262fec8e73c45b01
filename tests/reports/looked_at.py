"""What a browser says of a report: the scripts that measure it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

_TEXTS = """
() => {
  const numbers = (colour) => {
    const found = colour.match(/[\\d.]+/g).map(Number);
    return found.length === 3 ? [...found, 1] : found;
  };
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const inDrawing = element instanceof SVGElement;
    const scale = inDrawing ? element.getScreenCTM().a : 1;
    found.push({
      text: walker.currentNode.data.trim(),
      contrast: contrast(numbers(inDrawing ? style.fill : style.color), paper(element)),
      size: parseFloat(style.fontSize) * scale,
    });
  }
  return found;
}
"""
_CUT_OFF = """
() => [...document.querySelectorAll('.drawing svg')].flatMap((drawing) => {
  const frame = drawing.getBoundingClientRect();
  return [...drawing.querySelectorAll('text')].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map((text) => text.textContent);
})
"""
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_LEVELS = "[...document.querySelectorAll('h1, h2, h3, h4')].map((found) => found.tagName)"
_IDS = "[...document.querySelectorAll('[id]')].map((found) => found.id)"
_OPEN = "document.querySelectorAll('details').forEach((found) => { found.open = true; })"


@dataclass
class Seen:
    """A report in a window, and what happened while it was shown."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def texts(self) -> list[dict[str, Any]]:
        """Every visible text with its contrast and its size in pixels."""
        return list(self.page.evaluate(_TEXTS))

    def cut_off(self) -> list[str]:
        """Texts that reach beyond their drawing."""
        return list(self.page.evaluate(_CUT_OFF))

    def overflow(self) -> int:
        """How far the document is wider than the window."""
        return int(self.page.evaluate(_OVERFLOW))

    def levels(self) -> Sequence[int]:
        """The levels of the headings, in order."""
        return [int(name[1]) for name in self.page.evaluate(_LEVELS)]

    def ids(self) -> list[str]:
        """Every id of the document."""
        return list(self.page.evaluate(_IDS))

    def open_all(self) -> None:
        """Unfold everything."""
        self.page.evaluate(_OPEN)


@contextmanager
def looked_at(
    browser: Browser, path: Path, *, width: int = 1280, scheme: Any = "light"
) -> Iterator[Seen]:
    """The report in a window of this width."""
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    ) as context:
        seen = Seen(context.new_page())
        _listen(seen)
        seen.page.goto(path.absolute().as_uri())
        yield seen


def check_readable(seen: Seen, path: Path) -> None:
    """One file without problems, as wide as its window, nothing cut off, faint or too small."""
    cut_off, small = seen.cut_off(), [found for found in seen.texts() if found["size"] < 7.0]
    seen.open_all()
    faint = [found for found in seen.texts() if found["contrast"] < 4.5]

    requests = [url for url in seen.requests if not url.startswith("data:")]
    assert requests == [path.absolute().as_uri()]
    assert (seen.problems, seen.overflow(), cut_off, small, faint) == ([], 0, [], [], [])
    assert all(below - above <= 1 for above, below in pairwise(seen.levels()))
    assert seen.page.locator("script, img, iframe").count() == 0


def _listen(seen: Seen) -> None:
    def heard(message: ConsoleMessage) -> None:
        seen.problems.append(f"console: {message.text}")

    def asked(dialog: Dialog) -> None:
        seen.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def requested(request: Request) -> None:
        seen.requests.append(request.url)

    seen.page.on("console", heard)
    seen.page.on("dialog", asked)
    seen.page.on("request", requested)
    seen.page.on("pageerror", lambda error: seen.problems.append(f"error: {error}"))
    seen.page.on("requestfailed", lambda failed: seen.problems.append(f"failed: {failed.url}"))
