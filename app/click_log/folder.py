"""A folder of files on this machine or in an object store, through pyarrow.fs: whole files only;
and what a click log in it raises.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow.fs as pafs

from app.object_stores import is_url, located, meaning, without_secrets
from app.whole_files import write_durably


class ClickLogError(Exception):
    """Any failure of the click log."""


class ClickLogUnavailable(ClickLogError):
    """The folder or object store is away, full or refuses."""


class OtherClickLog(ClickLogError):
    """Clicks are closed into another log than this one, which knows nothing of them."""

    def __init__(self, url: str, own: str | None, other: str) -> None:
        super().__init__(
            f"the click log {without_secrets(url)} (id {own or 'none'}) is not the one that clicks"
            f" are closed into ({other}): labels from it would be too low. Give all workers the"
            " same SIROCCO_CLICK_LOG_URL; where that log is lost, start one with --adopt-click-log"
        )


class NewerPart(ClickLogError):
    """A part was written by a newer version of sirocco; it is left as it is."""

    def __init__(self, version: str, known: int) -> None:
        super().__init__(f"click log schema_version {version}: only up to {known} is known")


class DamagedPart(ClickLogError):
    """A part's bytes are not what was written."""


@contextmanager
def reaching_the_click_log() -> Iterator[None]:
    """Turns whatever the file system raises into ClickLogUnavailable; also a decorator."""
    try:
        yield
    except OSError as error:
        raise ClickLogUnavailable(f"the click log failed: {meaning(error)}") from error


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder: its path below the root, and its size; None for a folder."""

    path: str
    size: int | None


class Folder:
    """Files by their path below a root.

    A write is all or nothing, and durable on return: on this machine by a temporary file, fsync and
    rename; in an object store by one upload, which nobody sees before it is complete.
    """

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._local = isinstance(filesystem, pafs.LocalFileSystem)

    @classmethod
    def open(cls, url: str) -> Self:
        """A path of this machine, relative or absolute, or a URL such as s3://bucket/folder."""
        if not is_url(url):
            return cls(pafs.LocalFileSystem(), str(Path(url).expanduser().absolute()))
        try:
            return cls(*located(url))
        except OSError as error:
            raise ClickLogUnavailable(f"click log {without_secrets(url)!r}: {error}") from error

    def entries(self, path: str) -> Iterator[FileEntry]:
        """Everything below a folder, by path; nothing where there is no such folder."""
        for found in sorted(self._infos(path), key=lambda info: str(info.path)):
            size = found.size if found.type == pafs.FileType.File else None
            yield FileEntry(found.path[len(self._root) + 1 :], size)

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file."""
        self.write_pieces(path, [data])

    @reaching_the_click_log()
    def write_pieces(self, path: str, pieces: Iterable[bytes]) -> None:
        """The same of pieces, of which one at a time is in memory; what fails while they are made
        must fail before the first."""
        if self._local:
            write_durably(Path(self._full(path)), pieces)
        else:
            self._upload(self._full(path), pieces)

    @contextmanager
    def opened(self, path: str) -> Iterator[Any]:
        """A file to be read here and there."""
        with reaching_the_click_log():
            file = self._filesystem.open_input_file(self._full(path))
        with file:
            yield file

    @reaching_the_click_log()
    def read(self, path: str) -> bytes | None:
        """A file's bytes; None where there is no such file."""
        try:
            with self._filesystem.open_input_stream(self._full(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    @reaching_the_click_log()
    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is no error."""
        with suppress(FileNotFoundError):
            self._filesystem.delete_file(self._full(path))

    @reaching_the_click_log()
    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it; one that is not there is no error."""
        with suppress(FileNotFoundError):
            self._filesystem.delete_dir(self._full(path))

    @reaching_the_click_log()
    def move(self, path: str, destination: str) -> None:
        """Move a file; one that is not there any more is no error."""
        target = self._full(destination)
        self._make_folder_of(target)
        with suppress(FileNotFoundError):
            self._filesystem.move(self._full(path), target)

    @reaching_the_click_log()
    def _infos(self, path: str) -> list[Any]:
        selector = pafs.FileSelector(self._full(path), allow_not_found=True, recursive=True)
        return list(self._filesystem.get_file_info(selector))

    def _upload(self, path: str, pieces: Iterable[bytes]) -> None:
        try:
            stream = self._filesystem.open_output_stream(path)
        except FileNotFoundError:
            # Most stores need no folders, and some would keep an empty object for each.
            self._make_folder_of(path)
            stream = self._filesystem.open_output_stream(path)
        with stream:
            for piece in pieces:
                stream.write(piece)

    def _make_folder_of(self, path: str) -> None:
        self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"
