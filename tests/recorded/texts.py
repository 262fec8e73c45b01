"""Values as text to the last bit, and texts as short digests."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np

Items = dict[str, str]
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def digest(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the text."""
    return sha256(text.encode()).hexdigest()[:16]


def exact(value: Any, indent: str = "") -> str:
    """A result as lines of text: numbers to the last bit, fields and keys by name, no class names.

    TypeError for an object that it cannot read whole.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = {
            field.name: getattr(value, field.name)
            for field in fields(value)
            if field.name[0] != "_"
        }
    if isinstance(value, Mapping):
        parts = sorted((str(key), item) for key, item in value.items())
        return "".join(f"\n{indent}{key}: {exact(item, indent + '  ')}" for key, item in parts)
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{list(value.shape)} {exact(value.ravel().tolist())}"
    if isinstance(value, np.generic):
        return exact(value.item())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(exact(item, indent + "  ") for item in value) + "]"
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    raise TypeError(f"value = {value!r}: no text says all of a {type(value).__name__}")


def default(value: Any) -> str:
    """The default of a parameter, without the address of a function."""
    return _ADDRESS.sub("", repr(value))


def file_name(name: str) -> str:
    """The file for the full text of an item."""
    return re.sub(r"[^\w.=-]+", "_", name) + ".txt"
