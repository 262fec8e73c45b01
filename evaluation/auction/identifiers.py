"""Pages, queries and ads as whole numbers, and the row of a log that breaks a rule."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import Integers, as_vector

Codes = NDArray[np.int32]
_LARGEST = np.iinfo(np.int32).max
_WHOLE = f"must be a whole number from 0 to {_LARGEST}"


class BadRow(ValueError):
    """A value of a log that breaks a rule: which column, which row (from 0), what and why."""

    def __init__(self, column: str, row: int, value: object, rule: str) -> None:
        super().__init__(f"{column}[{row}] = {value}: {rule}")
        self.column, self.row, self.value, self.rule = column, row, value, rule


def check_codes(name: str, values: ArrayLike) -> Codes:
    """The values as int32 of shape (n,), all whole numbers from 0 up.

    Raises BadRow for the first that is not.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        array = as_vector(name, values)
    with np.errstate(invalid="ignore"):
        obeys = (array >= 0) & (array <= _LARGEST) & (array % 1 == 0)
    if not obeys.all():
        first = int(np.argmin(obeys))
        raise BadRow(name, first, array[first], f"every value {_WHOLE}")
    return array.astype(np.int32, copy=False)


def check_clicks(clicks: ArrayLike) -> NDArray[np.bool_]:
    """The clicks as bools, (n,), each given as 0 or 1; raises BadRow for the first that is not."""
    numbers = as_vector("clicks", clicks)
    wrong = (numbers != 0.0) & (numbers != 1.0)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise BadRow("clicks", first, numbers[first], "every value must be 0 or 1")
    clicked: NDArray[np.bool_] = numbers == 1.0
    return clicked


def numbered(codes: Codes) -> tuple[Integers, int]:
    """The distinct codes numbered from 0, in their order, (n,), and how many there are."""
    distinct, numbers = np.unique(codes, return_inverse=True)
    return numbers, len(distinct)
