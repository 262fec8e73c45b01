"""The secret that post-click models are signed with: a setting, or a file of the data directory."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from app.settings import Settings, variable_of

FILE = "signing.key"
_BYTES = 32


class UnusableKey(ValueError):
    """The key's file holds something else; the text names the file and never what it holds."""

    def __init__(self, path: Path) -> None:
        setting = variable_of("signing_key")
        super().__init__(
            f"{path}: must hold at least {_BYTES} bytes; remove it to get a new key (models signed"
            f" with the old one are trained again), or set {setting}"
        )


def signing_key(settings: Settings) -> bytes:
    """The key, made on first use; raises UnusableKey on a file that was cut short."""
    if settings.signing_key is not None:
        return settings.signing_key.get_secret_value().encode()
    path = settings.data_dir / FILE
    if not path.exists():
        _make(path)
    key = path.read_bytes().strip()
    if len(key) < _BYTES:
        raise UnusableKey(path)
    return key


def _make(path: Path) -> None:
    """Write a new key that only its owner can read; one that another process made first stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = mkstemp(prefix=f".{FILE}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(_BYTES).encode())
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, and never in the place of another.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()
