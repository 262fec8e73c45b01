"""The files that a log is made of: one, a folder of them, or what a pattern matches; here or in an
object store.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from app.errors import CommandError
from app.object_stores import info_of, is_url, located, meaning, url_of, without_secrets

Where = str | Path
"""A file, a folder, a pattern or a URL."""

Kind = Literal["parquet", "text", "json"]
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_KINDS: dict[str, tuple[Kind, str]] = {
    ".parquet": ("parquet", ""),
    ".pq": ("parquet", ""),
    ".csv": ("text", ","),
    ".tsv": ("text", "\t"),
    ".jsonl": ("json", ""),
    ".ndjson": ("json", ""),
}
_RULE = (
    "a log's name ends in .parquet, .csv or .tsv, or .jsonl"
    " (.gz, .bz2 or .zst may follow a text); --delimiter reads any other name as text"
)
_TOKEN = re.compile(r"\[[^\]]+\]|.", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_HIDDEN = (".", "_")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Format:
    """How the rows of a file are written; `delimiter` is what separates the columns of a text."""

    kind: Kind
    delimiter: str
    compression: str | None

    @classmethod
    def of(cls, name: str, delimiter: str | None = None) -> "Format":
        """What a file's name tells; a `CommandError` where it tells nothing."""
        suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
        packed = _COMPRESSED.get(suffixes[-1]) if suffixes else None
        suffix = "".join(suffixes[-2:-1] if packed else suffixes[-1:])
        if suffix not in _KINDS and delimiter is None:
            raise CommandError(f"{name}: {_RULE}")
        kind, usual = _KINDS.get(suffix, ("text", ","))
        if kind == "parquet" and packed is not None:
            raise CommandError(f"{name}: Parquet is compressed inside: unpack the file")
        if kind != "text" and delimiter is not None:
            raise CommandError(f"{name}: --delimiter goes with CSV and TSV only")
        return cls(kind, delimiter or usual, packed)


@dataclass(frozen=True, slots=True)
class LogPart:
    """One file of a log.

    name : how messages call it.
    size : bytes, as they are stored.
    keys : columns that the folders around it name, as in `date=2026-01-01/`; None is empty.
    url : where another process finds it; may hold the credentials of the log's URL.
    modified : nanoseconds since 1970 of its last change, 0 where nothing tells.
    """

    filesystem: Any
    path: str
    name: str
    size: int
    format: Format
    keys: Mapping[str, str | None]
    url: str
    modified: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it is a text without a byte, as some leave it of an hour without events."""
        # Packed, nothing takes no more bytes than these.
        if self.size > 64 or self.format.kind == "parquet":
            return False
        with errors_named(self.path), self.opened() as (_, text):
            return not self.size or not text.read(1)

    @contextmanager
    def opened(self) -> Iterator[tuple[Any, Any]]:
        """The bytes of the file as they are, and what they unpack to."""
        with self.filesystem.open_input_file(self.path) as raw:
            packed = self.format.compression
            yield raw, raw if packed is None else pa.CompressedInputStream(raw, packed)


def shown(where: Where) -> str:
    """The place without the keys and passwords that a URL may hold."""
    return without_secrets(str(where)) if is_url(where) else str(where)


def place_below(where: str, name: str) -> str:
    """A folder below a folder or URL, whose options stay behind it."""
    place, mark, options = where.partition("?") if is_url(where) else (where, "", "")
    return f"{place.rstrip('/')}/{name}{mark}{options}"


def is_there(where: Where) -> bool:
    """Whether there is a file or a folder; a `CommandError` where nobody can tell."""
    with errors_named(shown(where)):
        filesystem, path = _located(where)
        return bool(info_of(filesystem, path).type != pyarrow.fs.FileType.NotFound)


def refuse_inside(logs: Sequence[Where], written: Mapping[str, Where | None]) -> None:
    """A `CommandError`, before any work is done, where what an option names would be written over
    a part of a log, or be read as one from then on."""
    for option, place in written.items():
        for where in logs:
            if place is not None and _holds(where, place):
                read = f"this is a part of {shown(where)}, which is read and not written to"
                raise CommandError(f"{option} {shown(place)}: {read}")


def _holds(where: Where, place: Where) -> bool:
    with errors_named(shown(where)):
        (filesystem, path), (other, file) = (
            _located(each if is_url(each) else str(each) and os.path.realpath(each))
            for each in (where, place)
        )
        is_there = info_of(filesystem, path).type != pyarrow.fs.FileType.NotFound
    inside = f"{file}/".startswith(f"{path}/") if is_there else _pattern(path).fullmatch(file)
    alike = filesystem.type_name == other.type_name
    return bool(inside and alike) and _is_seen(file, path if is_there else _base(path))


def name_of(where: Where) -> str:
    """What titles call a log."""
    return PurePosixPath(shown(where)).name or shown(where)


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """Inside, a file that cannot be read is a `CommandError` that names it."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{name}: {meaning(error)}") from error
    except pa.ArrowInvalid as error:
        raise CommandError(f"{name}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).partition("\n")[0]


def parts_of(where: Where, delimiter: str | None = None) -> list[LogPart]:
    """The files of a log, by name; a `CommandError` where there is none, or of several formats.

    Files and folders whose names begin with `.` or `_` are no part of a folder.
    """
    name = shown(where)
    with errors_named(name):
        filesystem, path = _located(where)
        found = _files(filesystem, path, name)
    # A file and a folder are called by their names, what a pattern matches by what it matched.
    base = _base(path)
    above = (base if base != path else path.rpartition("/")[0]) + "/"
    parts = []
    for info in sorted(found, key=lambda info: str(info.path)):
        called = info.path.removeprefix(above)
        form = Format.of(called, delimiter)
        keys = _keys(info.path)
        url = url_of(str(where), info.path) if is_url(where) else info.path
        part = LogPart(
            filesystem, info.path, called, info.size, form, keys, url, info.mtime_ns or 0
        )
        parts.append(part)
    _check_alike(parts)
    return parts


def logs_in(where: Where) -> dict[str, Where]:
    """The logs of a folder, not of folders in it, by name; none where this is no folder.

    A `CommandError` for a folder without any.
    """
    with errors_named(shown(where)):
        filesystem, path = _located(where)
        if info_of(filesystem, path).type != pyarrow.fs.FileType.Directory:
            return {}
        infos = filesystem.get_file_info(pyarrow.fs.FileSelector(path))
    found = {
        info.base_name: url_of(str(where), info.path) if is_url(where) else info.path
        for info in sorted(infos, key=lambda info: str(info.path))
        if info.type == pyarrow.fs.FileType.File and _is_seen(info.path, path) and _is_log(info)
    }
    if not found:
        raise CommandError(f"{shown(where)}: the folder holds no log; {_RULE}")
    return found


def _is_log(info: Any) -> bool:
    with suppress(CommandError):
        return Format.of(info.base_name) is not None
    return False


def _located(where: Where) -> tuple[Any, str]:
    if is_url(where):
        return located(str(where))
    if not str(where):
        raise CommandError("'': a log is a file, a folder, a pattern or a URL")
    return pyarrow.fs.LocalFileSystem(), os.path.abspath(where)


def _files(filesystem: Any, path: str, name: str) -> list[Any]:
    info = info_of(filesystem, path)
    if info.type == pyarrow.fs.FileType.File:
        return [info]
    if info.type == pyarrow.fs.FileType.Directory:
        found = _below(filesystem, path)
        if not found:
            raise CommandError(f"{name}: the folder holds no log; {_RULE}")
        return found
    if info.type == pyarrow.fs.FileType.Unknown:
        raise CommandError(f"{name}: this is neither a file nor a folder")
    if not _WILD.search(path):
        raise CommandError(f"{name}: there is no such file")
    matches = _pattern(path).fullmatch
    found = [file for file in _below(filesystem, _base(path)) if matches(file.path)]
    if not found:
        raise CommandError(f"{name}: there is no such file, and none that matches")
    return found


def _below(filesystem: Any, folder: str) -> list[Any]:
    selector = pyarrow.fs.FileSelector(folder or "/", recursive=True, allow_not_found=True)
    return [
        info
        for info in filesystem.get_file_info(selector)
        if info.type == pyarrow.fs.FileType.File and _is_seen(info.path, folder)
    ]


def _is_seen(path: str, folder: str) -> bool:
    """Whether neither a file of the folder nor a folder on the way to it is hidden."""
    below = path.removeprefix(folder).strip("/").split("/")
    return not any(part.startswith(_HIDDEN) for part in below)


def _base(path: str) -> str:
    """The folder above the first wildcard."""
    folders = path.split("/")
    wild = [place for place, part in enumerate(folders) if _WILD.search(part)]
    return "/".join(folders[: wild[0]] if wild else folders)


def _pattern(path: str) -> re.Pattern[str]:
    """Paths that `path` matches, or that lie in a folder that it matches; ** is any folders."""
    parts = path.split("/")
    pieces = ["(?:.*/)?" if part == "**" else _TOKEN.sub(_matching, part) + "/" for part in parts]
    return re.compile("".join(pieces).removesuffix("/") + "(?:/.*)?", re.DOTALL)


def _matching(token: re.Match[str]) -> str:
    text = token[0]
    if len(text) > 1:
        return text.replace("[!", "[^", 1)
    return {"*": "[^/]*", "?": "[^/]"}.get(text, re.escape(text))


def _keys(path: str) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return {
        unquote(key): None if value == _NO_VALUE else unquote(value)
        for key, _, value in pairs
        if key
    }


def _check_alike(parts: list[LogPart]) -> None:
    first = parts[0]
    for part in parts:
        if (part.format.kind, part.format.delimiter) != (first.format.kind, first.format.delimiter):
            raise CommandError(
                f"{part.name} is of another format than {first.name}: all parts of a log must be"
                " of one"
            )
        if part.keys.keys() != first.keys.keys():
            named = [", ".join(one.keys) or "none" for one in (part, first)]
            raise CommandError(
                f"{part.name}: its folders name {named[0]}, those of {first.name} {named[1]}"
            )
