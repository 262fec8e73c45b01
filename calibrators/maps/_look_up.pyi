from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers

class LookUp:
    def __new__(cls, rows: dict[str, int], maps: tuple[Integers, Floats, Floats], /) -> LookUp: ...
    def of_row(self, row: int, score: float, /) -> float: ...
    def look_up_few(self, rows: Sequence[int], scores: Sequence[float], /) -> list[float]: ...
    def look_up(self, rows: Integers, scores: Floats, found: Floats, /) -> None: ...

def fill_rows(known: dict[str, int], names: Sequence[str], rows: Integers, /) -> bool: ...
def fill_quantiles(
    spreads: NDArray[np.float32],
    grid: Floats,
    rows: Integers,
    scores: Floats,
    probabilities: Floats,
    variances: Floats | None,
    factors: Floats,
    found: Floats,
    /,
) -> None: ...
