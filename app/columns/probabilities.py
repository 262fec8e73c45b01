"""The answer to a calibrate request in binary columns."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.columns.header import FLOAT32, LEVELS, pack_probabilities_header
from app.columns.sections import F4, F8, PADDING
from calibrators.atlas import CAMPAIGN, IDENTITY, TARGET

LEVEL_NUMBERS: Final = {IDENTITY: 0, TARGET: 1, CAMPAIGN: 2}


def pack_probabilities(
    probabilities: Sequence[float] | NDArray[np.float64],
    dictionary: int,
    *,
    float32: bool,
    levels: NDArray[np.uint8] | None = None,
) -> bytes:
    """The bytes of n probabilities, with the level of map behind each, shape (n,), if given."""
    rows = len(probabilities)
    flags = (FLOAT32 if float32 else 0) | (0 if levels is None else LEVELS)
    column = np.asarray(probabilities, F4 if float32 else F8).tobytes()
    parts = [pack_probabilities_header(rows, flags, dictionary), column, PADDING[-len(column) & 7]]
    if levels is not None:
        parts += (levels.tobytes(), PADDING[-rows & 7])
    return b"".join(parts)
