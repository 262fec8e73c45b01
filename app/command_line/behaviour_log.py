"""Logs of clicks with behaviours, features and whether they converted, a row for each click."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.command_line.errors import CommandError
from app.command_line.feature_columns import FeatureColumn, distinct
from app.command_line.log_column import LogColumn
from app.command_line.table_files import read_table
from calibrators.samples import Floats
from evaluation import BehaviourStudy, QuantileRates, behaviour_study, quantile_rates
from pccem import Categorical, Column, Features

_RULE = "a conversion is 0 or 1"
# With fewer clicks the threads of a fit wait for each other longer than they work.
_WORTH_THREADS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class BehaviourLog:
    """The clicks of a log: `behaviours` were known only after the click, `features` before it.

    `conversions`, and every column, have shape (n,).
    """

    file: str
    conversions: Floats
    behaviours: Mapping[str, Column]
    features: Mapping[str, Column]

    @property
    def numeric(self) -> list[str]:
        """The behaviours that are numbers."""
        columns = self.behaviours.items()
        return [name for name, column in columns if not isinstance(column, Categorical)]

    def rates(self, names: Sequence[str]) -> dict[str, QuantileRates]:
        """Conversion rates by quintile of the behaviours `names`."""
        found: dict[str, QuantileRates] = {}
        for name in names:
            column = self.behaviours.get(name)
            if column is None or isinstance(column, Categorical):
                listed = ", ".join(self.numeric)
                raise CommandError(f"--quintiles {name!r}: give a behaviour of numbers: {listed}")
            found[name] = quantile_rates(column, self.conversions)
        return found

    def study(self, folds: int, seed: int) -> BehaviourStudy:
        """The post-click model with the behaviours and without them, cross-validated."""
        measured = {f"behaviour.{name}": column for name, column in self.behaviours.items()}
        known = {f"feature.{name}": column for name, column in self.features.items()}
        n = len(self.conversions)
        columns = Features({**measured, **known}, n)
        threads = 1 if n < _WORTH_THREADS else 0
        try:
            return behaviour_study(
                columns, self.conversions, [*measured], folds=folds, seed=seed, num_threads=threads
            )
        except ValueError as error:
            raise CommandError(f"{self.file}: {error}") from error


def read_behaviour_log(
    path: Path, conversion: str, behaviours: Sequence[str], features: Sequence[str]
) -> BehaviourLog:
    """The log at `path`; `conversion` is a column, the others are `NAME` or `NAME=COLUMN+COLUMN`.

    A `CommandError` names the file, and option or row, column, value and rule.
    """

    def wanted(option: str, texts: Sequence[str], names: Sequence[str]) -> list[FeatureColumn]:
        return distinct(option, [FeatureColumn.parse(option, t, names, path.name) for t in texts])

    def choose(names: Sequence[str]) -> list[str]:
        if conversion not in names:
            raise CommandError(
                f"{path.name} has no column {conversion!r}: name it with --conversion."
                f" It has: {', '.join(names)}"
            )
        asked = [*wanted("behaviour", behaviours, names), *wanted("feature", features, names)]
        return [*dict.fromkeys((conversion, *(name for one in asked for name in one.columns)))]

    table = read_table(path, choose, {})
    names = table.column_names
    measured = wanted("behaviour", behaviours, names)
    known = wanted("feature", features, names)
    conversions = _conversions(LogColumn(path.name, conversion, table.column(conversion)))
    return BehaviourLog(
        path.name,
        conversions,
        {column.name: column.read(path.name, table) for column in measured},
        {column.name: column.read(path.name, table) for column in known},
    )


def _conversions(column: LogColumn) -> Floats:
    values = column.within(0, 1, _RULE)
    between = (values > 0) & (values < 1)
    if between.any():
        row = int(between.argmax())
        column.refuse(row, values[row], _RULE)
    return values
