"""Files that stand there whole or not at all."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from app.errors import BAD_INPUT, CommandError


@contextmanager
def whole_file(path: Path, exit_code: int = BAD_INPUT) -> Iterator[Path]:
    """Where to write the file `path`: it is replaced in one step when the block has ended well.

    Raises `CommandError`, which ends the command with `exit_code`, where it cannot be written.
    """
    unfinished = path.absolute().with_name(f".{path.stem}-{uuid4().hex}{path.suffix}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", exit_code) from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_new(path: Path, what: str, *, force: bool) -> None:
    """A `CommandError`, before any work is done, when no file can be at `path`, or one is there and
    not to go."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: {what} is a file in a folder that is there")
    if path.exists() and not force:
        raise CommandError(f"{path}: {what} is there already; --force replaces it")


def write_durably(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace the file in one step; on return it outlives a crash of the machine. Only its owner
    can read it. Raises OSError, and leaves nothing behind, where it cannot be written."""
    _make_folder(path.parent)
    # Two that write one file must not share a temporary one: either could publish half of it.
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        _write_through(temporary, pieces)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in it outlive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_through(path: Path, pieces: Iterable[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    """Like mkdir -p, but the new folders outlive a crash too."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)
        sync_folder(folder.parent)
