"""The grid's cells by exact arithmetic: where the edges are, and which cell holds a score."""

from fractions import Fraction
from math import floor

from calibrators.bins.bins import GRID

OCTAVES = GRID.octaves
CELLS_IN_OCTAVE = 2**GRID.bits
SIZE = OCTAVES * CELLS_IN_OCTAVE + 2


def lower_edge(cell: int) -> Fraction:
    """Cell 0 starts at 0; each octave is cut evenly; the last cell is 1 itself."""
    if cell == 0:
        return Fraction(0)
    octave, step = divmod(cell - 1, CELLS_IN_OCTAVE)
    start = Fraction(2**octave, 2**OCTAVES)
    return start * (1 + Fraction(step, CELLS_IN_OCTAVE))


def upper_edge(cell: int) -> Fraction:
    """The next cell's lower edge; the last cell holds only 1."""
    return Fraction(1) if cell == SIZE - 1 else lower_edge(cell + 1)


def cell_of(score: float) -> int:
    """The cell whose edges hold the score, by bisection over exact edges."""
    low, high = 0, SIZE
    while high - low > 1:
        middle = (low + high) // 2
        if lower_edge(middle) <= Fraction(score):
            low = middle
        else:
            high = middle
    return low


def units(value: Fraction) -> int:
    """Fixed point: floor(value * 1e9 + 0.5)."""
    return floor(value * 10**9 + Fraction(1, 2))
