"""Files of this machine that are there whole, and for good, or not at all."""

import os
from pathlib import Path
from uuid import uuid4


def write_durably(path: Path, data: bytes) -> None:
    """Replace the file in one step; on return it outlives a crash of the machine."""
    _make_folder(path.parent)
    # Two that write one file must not share a temporary one: either could publish half of it.
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        _write_through(temporary, data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _write_through(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    """Like mkdir -p, but the new folders outlive a crash too."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
