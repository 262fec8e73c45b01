"""The model that every peer serves: scikit-learn's isotonic regression through given knots."""

import ctypes
import json
import os
import signal
from pathlib import Path

from sklearn.isotonic import IsotonicRegression

_PR_SET_PDEATHSIG = 1


def model():
    """Of the knots and values in the file that MODEL names."""
    points = json.loads(Path(os.environ["MODEL"]).read_text())
    regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    return regression.fit(points["knots"], points["values"])


def end_with_parent():
    """Linux ends this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
