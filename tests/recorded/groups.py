"""All that is recorded, in groups, and where its digests are kept."""

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from tests.recorded.commands import command_items, slow_command_items
from tests.recorded.library import library_items
from tests.recorded.service import service_items, slow_service_items
from tests.recorded.texts import Items

DIGESTS = Path(__file__).with_name("digests.json")
QUICK: dict[str, Callable[[Path], Items]] = {
    "library": lambda folder: library_items(),
    "commands": command_items,
    "service": service_items,
}
SLOW: dict[str, Callable[[Path], Items]] = {
    "slow commands": slow_command_items,
    "slow service": slow_service_items,
}


def recorded() -> dict[str, Any]:
    """`with`: what it was recorded with; `groups`: by group, the digest of each item."""
    found: dict[str, Any] = json.loads(DIGESTS.read_text())
    return found


def surroundings() -> dict[str, str]:
    """What the last bits hang on: numpy takes other paths for logarithms on other processors, and
    BLAS adds up in another order with the kernels of another, and with another number of threads.

    What comes after X86_V4 (AVX512_ICL, AVX512_SPR) is of integers and half precision.
    """
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    levels = [name for name in found if name.startswith("X86_V")]
    kernels = {
        f"{each['architecture']}, {each['num_threads']} threads"
        for each in threadpool_info()
        if each["user_api"] == "blas"
    }
    packages = ("lightgbm", "numpy", "pyarrow", "scipy", "typer", "rich")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "simd": " ".join(levels or found),
        "blas": " ".join(sorted(kernels)),
        **{name: version(name) for name in packages},
    }
