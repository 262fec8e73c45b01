"""The pages as a site: every link leads somewhere, and nothing is loaded from other hosts."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow

_LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
    r"|@import\s*[\"'(]|url\([\"']?((?:https?:)?//[^)]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: strictly."""
    folder: Path = tmp_path_factory.mktemp("site")
    built = _build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    return folder


def _build(configuration: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "-f", configuration, "-d", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_every_page_is_on_the_site(site):
    """Those of docs/ and the ones beside it."""
    pages = (page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md"))
    # What a folder's README says is the folder's own page.
    expected = {
        page.with_name("index.html") if page.stem == "README" else page.with_suffix(".html")
        for page in pages
    }
    expected |= {Path("index.html"), Path("changelog.html"), Path("python-client.html")}

    assert {page for page in expected if not (site / page).is_file()} == set()


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    """So that the test above can fail: a missing page and a missing heading."""
    for name in ("clients", "docs", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").unlink()
    (tmp_path / "docs").mkdir()
    for path in (ROOT / "docs").iterdir():
        (tmp_path / "docs" / path.name).symlink_to(path)
    guard = tmp_path / "docs" / "guard.md"
    text = guard.read_text()
    guard.unlink()
    guard.write_text(f"{text}\n[gone](gone.md) and [gone too](pooled.md#gone)\n")
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())

    refused = _build(tmp_path / "mkdocs.yml", tmp_path / "site")

    assert refused.returncode != 0
    assert "'gone.md'" in refused.stderr
    assert "'#gone'" in refused.stderr


def test_every_file_that_a_page_links_to_is_on_the_site(site):
    """mkdocs says nothing of a link to a file that `exclude_docs` leaves out."""
    local = re.compile(r"(?:href|src)=\"?(?![a-z]+:|//|#)([^\"#?\s>]+)")
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    linked = {
        (page.name, found[1], page.parent / unquote(found[1]))
        for page in pages
        for found in local.finditer(page.read_text())
    }

    assert len(linked) > 500
    assert [(page, link) for page, link, path in linked if not path.exists()] == []


def test_lists_tables_and_code_are_shown_as_such(site):
    """GitHub reads them where two spaces nest them, or no blank line is before; mkdocs does not."""
    left = re.compile(r"\n\s*(?:[*-] |\d+\. |\||```)[^\n]{0,60}")
    for path in site.rglob("*.html"):
        article = path.read_text().partition("<article")[2].partition("</article")[0]
        found = left.search(re.sub(r"<pre.*?</pre>", "", article, flags=re.DOTALL))
        assert found is None, (path.name, found[0])


def test_nothing_that_a_page_loads_is_elsewhere(site):
    """Scripts, styles, fonts and pictures; links to read on may lead anywhere."""
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    loaded = {
        (path.name, found[0]) for path in files for found in _LOADED.finditer(path.read_text())
    }

    assert len(files) > 30
    assert loaded == set()


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """Its address on this machine."""
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_browser_asks_no_other_host(served, browser):
    """Also while it searches."""
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    for name in ("operations.html", "benchmarks.html", "index.html?q=overload"):
        page.goto(f"{served}/{name}")
    page.locator(".md-search-result__link").first.wait_for(state="attached", timeout=90_000)
    page.close()

    assert len(asked) > 10
    assert {url for url in asked if not url.startswith((served, "data:", "blob:"))} == set()
