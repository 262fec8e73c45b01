"""Which code was measured: figures of code that changed meanwhile are figures of nothing."""

from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "benchmarks", "calibrators", "clients", "evaluation", "pccem")
SUFFIXES = {".py", ".lua"}


def source_digest() -> str:
    """The first 12 hex digits of the SHA-256 of the names and texts of all sources."""
    digest = sha256()
    for path in sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*")):
        if path.suffix in SUFFIXES:
            content = sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:12]
