"""Keeps one atlas current: asks the service for changes, and keeps what it has when that fails.

An atlas kept in a file, so that a process has maps before it has reached the service.

Layout, little-endian: magic "SEDG", schema_version u2, two zero bytes, length of the label u4,
32 bytes SHA-256 of what follows, the label (JSON), and the bytes of the atlas as they came.
"""

import json
import logging
import os
import struct
import threading
import time
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Literal, NoReturn

import httpx
from numpy.typing import ArrayLike

from sirocco_client.atlas import EdgeAtlas
from sirocco_client.calibrate import NO_VERSION, VERSION_HEADER, map_age
from sirocco_client.connections import Address, Connections, Deadline
from sirocco_client.errors import BadAtlas, BadInput, NoAtlas, SiroccoError
from sirocco_client.requests import Campaigns, Floats, Request, Response

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


def read_atlas_file(path: Path, target: str) -> tuple[Label, bytes]:
    """What was written for the target; raises BadAtlas on damage, FileNotFoundError without it."""
    stored = path.read_bytes()
    if len(stored) < _HEADER.size or stored[:4] != _MAGIC:
        raise BadAtlas(f"{path}: not the file of an atlas")
    _, version, _, size, digest = _HEADER.unpack_from(stored)
    content = stored[_HEADER.size :]
    if version != _SCHEMA_VERSION or sha256(content).digest() != digest:
        raise BadAtlas(f"{path}: damaged, or of schema_version {version}")
    label = Label(**json.loads(content[:size]))
    if label.target != target:
        raise BadAtlas(f"{path}: an atlas of {label.target!r}, not of {target!r}")
    return label, content[size:]


_BREATH_SECONDS: Final = 0.0005

BeforeFirst = Literal["raise", "identity"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """How the looks for a new atlas went: one was taken, the one held was confirmed, or the look
    failed; of the failed, `refused` brought an atlas that could not be read."""

    taken: int = 0
    confirmed: int = 0
    failed: int = 0
    refused: int = 0


class MissingAtlas:
    """Stands where an atlas will be, and says so."""

    def at(self, campaign: str, score: float) -> NoReturn:
        """Raises NoAtlas."""
        raise NoAtlas("no atlas has come yet")

    def __call__(self, campaigns: Campaigns, scores: ArrayLike) -> Floats:
        """Raises NoAtlas."""
        raise NoAtlas("no atlas has come yet")

    def level(self, campaign: str) -> str:
        """Raises NoAtlas."""
        raise NoAtlas("no atlas has come yet")


class AtlasKeeper:
    """Holds `atlas` and its `label`; `refresh` is for one thread at a time, reading for any."""

    def __init__(
        self,
        address: Address,
        target: str,
        before_first: BeforeFirst,
        file: Path | None,
        timeout: float,
    ) -> None:
        if before_first not in ("raise", "identity"):
            raise BadInput("before_first", "must be raise or identity", before_first)
        self.atlas: EdgeAtlas | MissingAtlas = (
            MissingAtlas() if before_first == "raise" else EdgeAtlas.identity()
        )
        self.label = Label(target)
        self.counts = EdgeCounts()
        self.refused_in_a_row = 0
        self._address, self._timeout, self._file = address, timeout, file
        self._answering = True
        self.begin_anew()
        self._read_file()

    def begin_anew(self) -> None:
        """With connections and locks of its own, as at first."""
        self.has_come = threading.Event()
        if self.label.confirmed_at is not None:
            self.has_come.set()
        self._refreshing = threading.Lock()
        self._connections = Connections(self._address)

    def refresh(self) -> bool:
        """Look once; whether the service sent or confirmed an atlas. Raises nothing."""
        with self._refreshing:
            try:
                self._refresh()
            except Exception as error:
                # The last atlas must outlive whatever an answer does here.
                self._count_failure(error)
                return False
            self._answering = True
            return True

    def close(self) -> None:
        """Closes the connection; what is held stays."""
        self._connections.close()

    def _refresh(self) -> None:
        held = {"If-None-Match": self.label.etag} if self.label.etag else {}
        reply = self._ask(Request("GET", f"/v1/atlas/{self.label.target}", headers=held))
        if reply.status == 304:
            self._confirm()
        elif reply.status == 200:
            self._take(reply)
        else:
            raise NoAtlas(f"the service answered {reply.status}")

    def _ask(self, asked: Request) -> Response:
        return self._connections.ask(asked, Deadline(self._timeout))

    def _confirm(self) -> None:
        self.label = replace(self.label, confirmed_at=time.time())
        self.counts = replace(self.counts, confirmed=self.counts.confirmed + 1)

    def _take(self, reply: Response) -> None:
        version = reply.headers.get(VERSION_HEADER, NO_VERSION)
        if version == NO_VERSION != self.label.version:
            # It has just started, without its store: what we hold is better than nothing.
            raise NoAtlas("the service has no version yet")
        etag = reply.headers.get("etag", "")
        self.atlas = self._read(reply.body)
        now, age = time.time(), map_age(reply)
        published_at = None if age is None else now - age
        self.label = Label(self.label.target, version, etag, published_at, now)
        self.counts = replace(self.counts, taken=self.counts.taken + 1)
        self.has_come.set()
        self._write_file(reply.body)

    def _read(self, data: bytes) -> EdgeAtlas:
        before = self.atlas if isinstance(self.atlas, EdgeAtlas) else None
        try:
            atlas = EdgeAtlas.from_bytes(data, before, lambda: time.sleep(_BREATH_SECONDS))
        except BadAtlas:
            self.refused_in_a_row += 1
            self.counts = replace(self.counts, refused=self.counts.refused + 1)
            raise
        self.refused_in_a_row = 0
        return atlas

    def _count_failure(self, error: Exception) -> None:
        self.counts = replace(self.counts, failed=self.counts.failed + 1)
        expected = isinstance(error, (httpx.TransportError, SiroccoError))
        if self._answering or not expected:
            logger.warning(
                "no new atlas, still serving %s: %s",
                self.label.version,
                error,
                exc_info=not expected,
            )
        self._answering = False

    def _read_file(self) -> None:
        if self._file is None:
            return
        try:
            label, data = read_atlas_file(self._file, self.label.target)
            self.atlas, self.label = EdgeAtlas.from_bytes(data), label
            self.has_come.set()
        except FileNotFoundError:
            pass
        except (OSError, BadAtlas) as error:
            self.counts = replace(self.counts, refused=self.counts.refused + 1)
            logger.error("began without the kept atlas: %s", error)

    def _write_file(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            write_atlas_file(self._file, self.label, data)
        except OSError as error:
            logger.error("the atlas of version %s is not kept: %s", self.label.version, error)
