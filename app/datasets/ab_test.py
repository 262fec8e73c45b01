"""The log of an A/B test: one row for each impression, with its arm and what it cost."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.datasets.options import Reading
from app.datasets.parts import Where, name_of
from app.datasets.reading import LogReader
from app.datasets.tables import LogColumn, LogRows, require_columns
from app.errors import CommandError
from evaluation import AbAnalysis, ab_analysis

_MOST_ARMS = 50
_VALUE, _OUTCOME = "value", "outcome"
_LARGEST = 1e290
"""The sum of such costs over any log is a number still."""


@dataclass(frozen=True, slots=True)
class AbColumns:
    """Which column of the log holds what.

    Without a name, `value` and `outcome` are read from columns called so where the log has them;
    without a name there are no units.
    """

    arm: str
    cost: str
    value: str | None
    outcome: str | None
    unit: str | None

    def named(self) -> dict[str, str]:
        """What -> the column that must be there."""
        return {what: name for what, name in asdict(self).items() if name is not None}

    def in_log(self, names: Sequence[str]) -> dict[str, str]:
        """What -> its column, in a log with columns `names`."""
        found = {what: what for what in (_VALUE, _OUTCOME) if what in names}
        return {**found, **self.named()}


@dataclass(frozen=True, slots=True, eq=False)
class AbTestLog:
    """n impressions: `rows` and `units` are the arm and the unit of each, as indices, (n,)."""

    file: str
    arms: tuple[str, ...]
    rows: NDArray[np.int32]
    costs: NDArray[np.float64]
    values: NDArray[np.float64] | None
    clicks: NDArray[np.float64] | None
    units: NDArray[np.int32] | None

    def analysed(self, control: str, split: Mapping[str, float] | None) -> AbAnalysis:
        """The analysis; its arms are indices into the names here."""
        self._check(control)
        if split is not None and split.keys() != set(self.arms):
            raise CommandError(
                f"--split must name every arm of {self.file} once: {', '.join(self.arms)}"
            )
        code_of = {name: code for code, name in enumerate(self.arms)}
        shares: dict[Hashable, float] | None = (
            None if split is None else {code_of[name]: split[name] for name in split}
        )
        return ab_analysis(
            self.rows,
            self.costs,
            self.values,
            clicks=self.clicks,
            control=code_of[control],
            units=self.units,
            split=shares,
        )

    def _check(self, control: str) -> None:
        if len(self.arms) > _MOST_ARMS:
            raise CommandError(
                f"{self.file} has {len(self.arms):,} arms, and {_MOST_ARMS} are the most that are"
                " compared: does --arm name the column of the arm?"
            )
        if control not in self.arms:
            raise CommandError(
                f"--control {control!r}: {self.file} has no such arm."
                f" It has: {', '.join(self.arms)}"
            )
        if len(self.arms) == 1:
            raise CommandError(
                f"{self.file} has the arm {control!r} only, and nothing to compare it with"
            )


def read_ab_test(where: Where, columns: AbColumns, reading: Reading | None = None) -> AbTestLog:
    """The impressions of a test; a `CommandError` names file, row, column, value and rule."""

    def choose(file: str, names: Sequence[str]) -> list[str]:
        wanted = columns.in_log(names)
        require_columns(file, names, wanted)
        return [*dict.fromkeys(wanted.values())]

    def parse(rows: LogRows) -> AbTestLog:
        return _log(name_of(where), rows, columns)

    return LogReader(where, choose, _types(columns), (), reading or Reading()).whole(parse)


def _log(file: str, rows: LogRows, columns: AbColumns) -> AbTestLog:
    in_log = columns.in_log([*rows.columns])
    found = {what: rows.column(name) for what, name in in_log.items()}
    if _OUTCOME in found:
        found[_OUTCOME] = found[_OUTCOME].truths()
    arms, codes = found["arm"].categories("an arm must have a name")
    unit = found.get("unit")
    return AbTestLog(
        file=file,
        arms=arms,
        rows=codes,
        costs=found["cost"].within(0, _LARGEST, "a cost is a number from 0 up"),
        values=_within(
            found.get(_VALUE), _LARGEST, "a value is a number from 0 up, 0 where nothing came back"
        ),
        clicks=_within(found.get(_OUTCOME), 1, "an outcome is a number in [0, 1], 1 for a click"),
        units=None if unit is None else unit.categories("a unit must have a name")[1],
    )


def _within(column: LogColumn | None, high: float, rule: str) -> NDArray[np.float64] | None:
    return None if column is None else column.within(0, high, rule)


def _types(columns: AbColumns) -> dict[str, Any]:
    numbers = (columns.cost, columns.value or _VALUE, columns.outcome or _OUTCOME)
    texts = (columns.arm, columns.unit)
    return {
        **dict.fromkeys(numbers, pa.float64()),
        **{name: pa.string() for name in texts if name is not None},
    }
