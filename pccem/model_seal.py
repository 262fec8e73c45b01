"""Seals on a model's bytes: who has no key cannot put a model in the store."""

import hashlib
import hmac
from typing import Final

_MAGIC: Final = b"SSEA"
_SIZE: Final = hashlib.sha256().digest_size
_SHORTEST_KEY: Final = 16


def seal(data: bytes, key: bytes) -> bytes:
    """The bytes behind their seal: magic "SSEA", then the HMAC-SHA256 of the bytes by the key.

    Raises
    ------
    ValueError
        The key has fewer than 16 bytes.

    Examples
    --------
    >>> unseal(seal(b"model", b"sixteen bytes ok"), b"sixteen bytes ok")
    b'model'

    References
    ----------
    Krawczyk, Bellare & Canetti, HMAC, RFC 2104.
    """
    return _MAGIC + _seal_of(data, key) + data


def unseal(data: bytes, key: bytes) -> bytes:
    """The bytes that `seal` sealed with the same key.

    Raises
    ------
    ValueError
        There is no seal, the bytes were changed or cut, or the key is another one.
    """
    start = len(_MAGIC) + _SIZE
    if len(data) < start or data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("sealed bytes: there is no seal")
    content = data[start:]
    if not hmac.compare_digest(data[len(_MAGIC) : start], _seal_of(content, key)):
        raise ValueError("sealed bytes: the seal does not fit them; changed, or another key")
    return content


def _seal_of(data: bytes, key: bytes) -> bytes:
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"key of {len(key)} bytes: must have at least {_SHORTEST_KEY}")
    return hmac.digest(key, data, "sha256")
