"""Calibration maps: one, and how far it may be off, of which intervals are made
(`calibration_map.py`); all of a target (`atlas.py`); the search for a batch of scores
(`look_up.py`); groups of campaigns (`groups.py`), and how far maps moved (`movement.py`).

`compiled` is what was made of the client's `_look_up.c`; None where no compiler was.
"""

from importlib import import_module
from typing import Any

try:
    compiled: Any = import_module("calibrators.maps._look_up")
except ImportError:
    compiled = None
