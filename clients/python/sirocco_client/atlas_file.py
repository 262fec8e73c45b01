"""An atlas in a file, so that a process has maps before it has reached the service.

Layout, little-endian: magic "SEDG", schema_version u2, two zero bytes, length of the label u4, 32
bytes SHA-256 of what follows, the label (JSON), and the bytes of the atlas as they came.
"""

import json
import os
import struct
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from sirocco_client.arms import CHAMPION
from sirocco_client.errors import BadAtlas

_HEADER: Final = struct.Struct("<4sHHI32s")
_MAGIC: Final = b"SEDG"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Label:
    """Which atlas it is; times are epoch seconds."""

    target: str
    version: str = "none"
    etag: str = ""
    published_at: float | None = None
    confirmed_at: float | None = None
    label: str = CHAMPION
    """Whose maps: the `champion`'s, or the `challenger`'s."""


def write_atlas_file(path: Path, label: Label, data: bytes) -> None:
    """Replace the file in one step: a reader finds the old one or the new one, whole."""
    text = json.dumps(asdict(label)).encode()
    content = text + data
    header = _HEADER.pack(_MAGIC, _SCHEMA_VERSION, 0, len(text), sha256(content).digest())
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(header + content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read_atlas_file(path: Path, target: str, whose: str = CHAMPION) -> tuple[Label, bytes]:
    """What was written for the target and label; raises BadAtlas on damage, FileNotFoundError
    without it."""
    stored = path.read_bytes()
    if len(stored) < _HEADER.size or stored[:4] != _MAGIC:
        raise BadAtlas(f"{path}: not the file of an atlas")
    _, version, _, size, digest = _HEADER.unpack_from(stored)
    content = stored[_HEADER.size :]
    if version != _SCHEMA_VERSION or sha256(content).digest() != digest:
        raise BadAtlas(f"{path}: damaged, or of schema_version {version}")
    label = Label(**json.loads(content[:size]))
    if (label.target, label.label) != (target, whose):
        found = f"{label.label} of {label.target!r}"
        raise BadAtlas(f"{path}: the atlas of the {found}, not of the {whose} of {target!r}")
    return label, content[size:]
