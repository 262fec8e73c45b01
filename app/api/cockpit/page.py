"""`GET /`: the page that operators keep open, and the files that it is made of.

They hold no data, so they need no key. Nothing of them comes from elsewhere, and nothing that a
campaign is called can run: the policy allows scripts and requests of this origin alone.
"""

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Header
from fastapi.responses import Response

from app.api.problems import not_found
from app.strict_json import show

router = APIRouter()

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
    ]
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


class PageFile(NamedTuple):
    """A file of the page: its bytes, the same packed by gzip, its media type and its tag."""

    plain: bytes
    packed: bytes
    media_type: str
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """All of them by name, packed once."""
    return {path.name: _read(path) for path in sorted(_FOLDER.iterdir())}


def _read(path: Path) -> PageFile:
    plain = path.read_bytes()
    etag = f'W/"{sha256(plain).hexdigest()[:16]}"'
    return PageFile(plain, gzip.compress(plain, mtime=0), _TYPES[path.suffix], etag)


_Known = Annotated[str | None, Header()]


@router.get("/", include_in_schema=False)
async def page(if_none_match: _Known = None, accept_encoding: _Known = None) -> Response:
    """The page."""
    return _sent("index.html", if_none_match, accept_encoding)


@router.get("/page/{name}", include_in_schema=False)
async def page_file(
    name: str, if_none_match: _Known = None, accept_encoding: _Known = None
) -> Response:
    """A file of the page; 304 to who has it already."""
    return _sent(name, if_none_match, accept_encoding)


def _sent(name: str, known: str | None, encodings: str | None) -> Response:
    file = page_files().get(name)
    if file is None:
        raise not_found(f"{show(name)}: the page has no such file")
    headers = {**_HEADERS, "ETag": file.etag}
    if file.etag in (known or ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in (encodings or ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.plain, headers=headers, media_type=file.media_type)
