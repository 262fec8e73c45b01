"""The audit log: every change by an admin, each entry chained to the one before by its SHA-256.

An entry is written before its change is made, so no change goes without one; a change that then
fails has a second entry that says so. The chain and its head beside it show what was altered,
dropped or cut off by anybody who cannot write both; whoever can write to the whole store can make a
new chain, which the lines of the file on the host then contradict.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import orjson
import redis
from msgspec import Struct
from msgspec.structs import replace

from app.storage import keys
from app.storage.redis.client import as_bytes, as_text, lua, reaching_the_store

MOST_ENTRIES: Final = 10_000
_MOST_TRIES: Final = 100
_MOST_BYTES: Final = 2048
_FIRST: Final = "0" * 64
_PRIVATE: Final = 0o600


class AuditUnwritable(Exception):
    """The entry could not be written, so the change was not made."""


class AuditEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who changed what of which target, when (epoch seconds), and from what to what; the trace id
    is there if the request named one."""

    seq: int
    at: float
    who: str
    what: str
    target: str
    before: Any
    after: Any
    request_id: str
    previous: str
    trace_id: str = ""
    hash: str = ""

    def hashed(self) -> str:
        """The digest of all but the digest."""
        content = msgspec.to_builtins(self)
        content.pop("hash", None)
        return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Head(NamedTuple):
    """Number and digest of the last entry."""

    seq: int = 0
    hash: str = _FIRST

    @classmethod
    def read(cls, text: str) -> "Head":
        """Of what is stored; before the first entry that is nothing."""
        if not text:
            return cls()
        seq, _, digest = text.partition(" ")
        return cls(int(seq) if seq.isdecimal() else -1, digest)

    def __str__(self) -> str:
        return f"{self.seq} {self.hash}" if self.seq else ""


class Verified(NamedTuple):
    """How many entries are as they were written, and the first that is not, with the reason."""

    entries: int
    wrong: str | None = None


class AuditLog:
    """The entries in the store, of which the newest are kept, and in the file at `path`."""

    def __init__(
        self, client: redis.Redis, path: Path | None, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._path = path
        self._clock = clock
        self._append = client.register_script(lua("append_audit"))

    @contextmanager
    def change(self, who: str, request_id: str, what: str, **about: Any) -> Iterator[None]:
        """Record a change, with `target`, `before`, `after` and `trace_id`, then make it inside the
        block.

        Raises StorageUnavailable or AuditUnwritable, and does not enter, where it cannot be
        recorded.
        """
        try:
            self.record(who, request_id, what, **about)
            yield
        except Exception as error:
            failed = {**about, "after": {"failed": type(error).__name__}}
            self.record(who, request_id, f"{what}-failed", **failed)
            raise

    @reaching_the_store()
    def record(
        self,
        who: str,
        request_id: str,
        what: str,
        *,
        target: str,
        before: Any = None,
        after: Any = None,
        trace_id: str = "",
    ) -> AuditEntry:
        """Write an entry behind the last; raises as `change` does."""
        about = {"before": _bounded(before), "after": _bounded(after), "trace_id": trace_id}
        for _ in range(_MOST_TRIES):
            stored = as_text(self._client.get(keys.AUDIT_HEAD) or "")
            head = Head.read(stored)
            bare = AuditEntry(
                seq=head.seq + 1, at=self._clock(), who=who, what=what, target=target,
                previous=head.hash, request_id=request_id, **about,
            )  # fmt: skip
            entry = replace(bare, hash=bare.hashed())
            line = msgspec.json.encode(entry)
            head = Head(entry.seq, entry.hash)
            arguments = (stored, str(head), line, MOST_ENTRIES)
            if self._append(keys=[keys.AUDIT, keys.AUDIT_HEAD], args=arguments):
                self._write_line(line)
                return entry
        raise AuditUnwritable("too many changes at one time: this one was not made")

    @reaching_the_store()
    def newest(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """At most so many entries, newest first, of those before that number."""
        entries, _ = self._all()
        found = (entry for entry in reversed(entries) if before is None or entry.seq < before)
        return [entry for entry, _ in zip(found, range(limit), strict=False)]

    @reaching_the_store()
    def verify(self) -> Verified:
        """Look at every entry that is kept, and at the head."""
        try:
            return verified(*self._all())
        except ValueError as error:
            return Verified(0, f"an entry cannot be read: {error}")

    def _all(self) -> tuple[list[AuditEntry], Head]:
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.lrange(keys.AUDIT, 0, -1)
            pipeline.get(keys.AUDIT_HEAD)
            lines, head = pipeline.execute()
        return [read_entry(as_bytes(line)) for line in lines], Head.read(as_text(head or ""))

    def _write_line(self, line: bytes) -> None:
        if self._path is None:
            return
        try:
            with appending(self._path) as file:
                # One at a time: no other has gone on behind a half that is taken back.
                fcntl.flock(file, fcntl.LOCK_EX)
                # A crash may have left half a line: what follows is not to be lost with it.
                size = file.seek(0, os.SEEK_END)
                cut_short = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
                whole = b"\n" * bool(cut_short) + line + b"\n"
                written = file.write(whole)
                if written < len(whole):
                    file.truncate(file.tell() - written)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
        except OSError as error:
            raise AuditUnwritable(
                f"the audit log {self._path} cannot be written: {error.strerror}"
            ) from None


def appending(path: Path) -> FileIO:
    """The file of the log, for our user alone, to be written at its end; raises OSError."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    return os.fdopen(os.open(path, flags, _PRIVATE), "ab", buffering=0)


def read_entry(line: bytes) -> AuditEntry:
    """An entry as it is stored, or as a line of the file; raises ValueError."""
    return msgspec.json.decode(line, type=AuditEntry)


def refused(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Those of changes that were refused because the file could not be written: it lacks them."""
    unwritten = {"failed": AuditUnwritable.__name__}
    failed = {(entry.request_id, entry.what) for entry in entries if entry.after == unwritten}
    both = ((entry, (entry.request_id, f"{entry.what}-failed")) for entry in entries)
    return [e for e, of in both if of in failed or (e.request_id, e.what) in failed]


def verified(entries: Sequence[AuditEntry], head: Head | None = None) -> Verified:
    """Whether each entry is as it was written and follows the one before, and the last is the head
    if that is known. The entries before the first were dropped by age."""
    for place, entry in enumerate(entries):
        if entry.hashed() != entry.hash:
            return Verified(place, f"entry {entry.seq}: was altered")
        before = entries[place - 1]
        if place and (entry.seq != before.seq + 1 or entry.previous != before.hash):
            return Verified(place, f"entry {entry.seq}: does not follow the one before")
    if head is None:
        return Verified(len(entries))
    return _ends_well(entries, head)


def _ends_well(entries: Sequence[AuditEntry], head: Head) -> Verified:
    last = Head(entries[-1].seq, entries[-1].hash) if entries else Head()
    if last != head:
        return Verified(len(entries), f"entry {last.seq + 1}: is missing, and all up to {head.seq}")
    expected = min(head.seq, MOST_ENTRIES)
    if len(entries) < expected:
        first = head.seq - expected + 1
        return Verified(0, f"entry {first}: is missing, and all before {entries[0].seq}")
    if entries and entries[0].seq == 1 and entries[0].previous != _FIRST:
        return Verified(0, "entry 1: follows one that there is not")
    return Verified(len(entries))


def _bounded(value: Any) -> Any:
    """The value, or size and digest of one that is too large to keep."""
    packed = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if len(packed) <= _MOST_BYTES:
        return orjson.loads(packed)
    return {"bytes": len(packed), "sha256": sha256(packed).hexdigest()}
