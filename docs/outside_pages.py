"""A hook of mkdocs: pages that stand outside of docs/ are pages of the site too."""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE",
    "clients/python/README.md": "python-client.md",
}
"""Where a page stands in the repository -> what it is called on the site."""
FIRST_OF: Final = {"docs/decisions": "decisions/0001-grid.md"}
"""A folder that pages link to -> the page that is shown for it."""

_LINK: Final = re.compile(r"(\]\()(?P<path>[^)#:\s]+)(?=[)#])")


def on_files(files: Files, config: Any) -> Files:
    """Add those pages."""
    for path, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have links lead where the pages are on the site."""
    name = page.file.src_uri
    here = next((path for path, known in PAGES.items() if known == name), f"docs/{name}")

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link["path"]))
        on_site = {**PAGES, **FIRST_OF}.get(target, target.removeprefix("docs/"))
        return link[1] + posixpath.relpath(on_site, posixpath.dirname(name) or ".")

    return _LINK.sub(moved, markdown)
