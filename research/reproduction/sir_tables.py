"""Paper 004: Example 1, and the percentages of Tables 1 and 2 from the values printed there."""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from evaluation.metrics.cal_n import cal_n
from evaluation.metrics.calibration import pcoc
from evaluation.metrics.gc_n import gc_n
from research.reproduction.experiment import (
    SLACK,
    Check,
    Erratum,
    Experiment,
    Progress,
    Reproduction,
    arithmetic,
    exact,
    printed,
    printed_half_unit,
    ranged,
)

Row = tuple[tuple[str, str], ...]
BINS = (3, 4, 5)
NONE = {"A": ("0.63", "0.67", "0.72"), "B": ("0.40", "0.45", "0.46"), "2": ("4.46", "4.47", "4.49")}
ROWS: Mapping[str, Mapping[str, Row]] = {
    "A": {
        "BBQ": (("0.57", "-9.5%"), ("0.63", "-6.0%"), ("3.05", "+323.6%")),
        "IR": (("0.82", "+30.0%"), ("0.89", "+32.8%"), ("0.98", "+36.1%")),
        "Beta": (("0.56", "-11.1%"), ("0.60", "-10.4%"), ("0.66", "-8.3%")),
        "SIR": (("0.56", "-11.1%"), ("0.60", "-10.4%"), ("0.65", "-9.7%")),
    },
    "B": {
        "BBQ": (("0.71", "+77.5%"), ("0.81", "+80.0%"), ("0.84", "+82.6%")),
        "IR": (("0.31", "-22.5%"), ("0.35", "-22.2%"), ("0.40", "-13.0%")),
        "Beta": (("0.27", "-32.5%"), ("0.32", "-28.9%"), ("0.36", "-21.7%")),
        "SIR": (("0.27", "-32.5%"), ("0.30", "-33.3%"), ("0.35", "-23.9%")),
    },
    "2": {
        "STC": (("5.67", "+27.1%"), ("5.91", "+32.2%"), ("7.11", "+58.4%")),
        "LTC": (("1.57", "-64.8%"), ("1.72", "-61.5%"), ("1.81", "-59.7%")),
        "PCCEM": (("0.50", "-88.8%"), ("0.58", "-87.0%"), ("0.71", "-84.2%")),
    },
}
PARTS = {"A": "Table 1, data set A", "B": "Table 1, data set B", "2": "Table 2"}
AVERAGES = {("A", "SIR"): "10.4", ("B", "SIR"): "29.9", ("A", "Beta"): "9.9", ("B", "Beta"): "27.7"}
EXAMPLE = ([0.2, 0.8], [0.4, 0.6], [10_000, 10_000])


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Recomputes every percentage; the size and the seed are of no effect."""
    del quick, seed
    checks = [*_example(), *arithmetic(_percentages()), *arithmetic(_averages())]
    progress(1.0)
    return Reproduction(
        EXPERIMENT.name, EXPERIMENT.title, "004, section 4 and Tables 1 and 2", checks, [*_notes()]
    )


def percentage(value: float, base: float) -> float:
    """Change against no calibration, in per cent."""
    return 100.0 * (value / base - 1.0)


def rounding_range(value: str, base: str) -> tuple[float, float]:
    """Percentages that the printed values leave possible, each half a digit off.

    >>> low, high = rounding_range("0.82", "0.63")
    >>> round(low, 1), round(high, 1)
    (28.3, 32.0)
    """
    v, b = float(value), float(base)
    dv, db = printed_half_unit(value), printed_half_unit(base)
    return percentage(v - dv, b + db), percentage(v + dv, b - db)


def _example() -> Iterator[Check]:
    p, y, weights = EXAMPLE
    part = "Example 1 and section 5.1"
    truth = _cal_of(Fraction(1), Fraction(1, 3))
    yield printed("PCOC", "1", pcoc(p, y, sample_weight=weights), decimals=9, part=part)
    reason = (
        "It is the root of 2² + (4/3)²: from PCOC of the bins (inverted below 1), neither is 1"
        " subtracted nor is the sum divided by N."
    )
    value, four, five = (cal_n(p, y, n, sample_weight=weights) for n in (2, 4, 5))
    yield printed("Cal-2", "2.4", value, part=part, erratum=Erratum.exact(truth, reason))
    wrong = math.hypot(*(1.0 + error for error in (1.0, 1.0 / 3.0)))
    yield from arithmetic([printed("Cal-2 with both slips", "2.4", wrong, part=part)])
    yield exact("Cal-2, exactly √5 / 3", value, math.sqrt(5.0) / 3.0, part=part)
    yield exact("Cal-4, the same", four, math.sqrt(5.0) / 3.0, part=part)
    yield exact("Cal-5, exactly 2 / 3", five, 2.0 / 3.0, part=part)
    yield _one_bin()


def _cal_of(*errors: Fraction) -> float:
    return math.sqrt(sum((error**2 for error in errors), Fraction(0)) / len(errors))


def _one_bin() -> Check:
    p, y = np.full(100, 0.2), np.full(100, 0.4)
    reason = "With N = 1 it is the mean of max(PCOC, 1 / PCOC) - 1: here PCOC is 1/2, GC-1 is 1."
    return printed(
        "GC-1 where PCOC is 0.5, which it is said to reduce to",
        "0.5",
        gc_n(p, y, np.zeros(100, int), 1),
        part="Example 1 and section 5.1",
        erratum=Erratum.exact(float(max(Fraction(1, 2), Fraction(2)) - 1), reason),
    )


def _percentages() -> Iterator[Check]:
    for table, rows in ROWS.items():
        for method, row in rows.items():
            for n, base, (value, text) in zip(BINS, NONE[table], row, strict=True):
                yield _percentage(f"{method}, N = {n}", base, value, text, PARTS[table])


def _percentage(what: str, base: str, value: str, text: str, part: str) -> Check:
    low, high = rounding_range(value, base)
    margin = printed_half_unit(text) + SLACK
    return ranged(
        what,
        percentage(float(value), float(base)),
        low - margin,
        high + margin,
        paper=float(text.rstrip("%")),
        paper_text=text,
        part=part,
        form="+.1f",
    )


def _averages() -> Iterator[Check]:
    for (table, method), text in AVERAGES.items():
        values = [float(percent.rstrip("%")) for _, percent in ROWS[table][method]]
        what = f"{method} on {table}: mean of the printed percentages"
        yield printed(what, text, -float(np.mean(values)), part="Section 5.1, averages")


def _notes() -> Iterator[str]:
    yield (
        "A percentage has to lie in the range that the two-digit values leave, plus half a unit of"
        " its own last digit."
    )
    for cell in _off_by_rounding():
        yield f"{cell}: within that range, so the paper divided values with more digits."
    yield f"SIR and Beta have the same printed value in {_ties()} of 6 cells of Table 1."
    yield (
        "The values themselves need private data; `platform_sir` and `platform_pccem` repeat their"
        " shape on synthetic platforms."
    )


def _ties() -> int:
    pairs = [(ROWS[data]["SIR"][i], ROWS[data]["Beta"][i]) for data in "AB" for i in range(3)]
    return sum(sir == beta for sir, beta in pairs)


def _off_by_rounding() -> Iterator[str]:
    for check in _percentages():
        printed_value = float(check.paper_text.rstrip("%"))
        if abs(check.ours - printed_value) > printed_half_unit(check.paper_text) + SLACK:
            yield (
                f"{check.part}, {check.what}: printed {check.paper_text},"
                f" {check.ours:+.1f}% from the printed values"
            )


EXPERIMENT = Experiment(
    "calibration_tables",
    "Cal-N, and the percentages of 004",
    "004: Example 1, every percentage of Tables 1 and 2 from the printed values",
    1.0,
    run,
)
