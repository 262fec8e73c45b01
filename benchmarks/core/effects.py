"""Effects of fields: what they add to the look-up of a batch of 100, and to a refit.

The look-up is that of 10,000 campaigns' maps with effects of 4 devices, 8 placements and 200
countries: `without` finds rows and probabilities, `strings` multiplies the odds by what the names
of values say, `codes` by values that are coded already. The refit is of 20 fields of 1,000 values
and 10,000 campaigns, 50,000 campaigns and values a field and hour, 48 hours: `read, s` is the
reading of all hours, `warm read, s` that of the newest two, which is what a worker does, and
`fit, s` the fit of the effects, which is run twice with the guard. `grown MB` is what the hours
that were read hold. Seconds are CPU time.

    python -m benchmarks.core.effects
"""

import json
import sys
from time import process_time

import numpy as np

from benchmarks.core.traffic import campaign_names, random_atlas, random_scores
from benchmarks.figures import Cell, Table, shown
from benchmarks.machine import release_free_memory, resident_bytes
from benchmarks.timing import interleaved
from calibrators.bins.table import BinsTable, History
from calibrators.fields.effect_table import EffectTable
from calibrators.fields.effects import FieldEffects
from calibrators.fields.fit import fit_effects
from calibrators.fields.sums import SEPARATOR, FieldTables
from calibrators.fields.window import FieldWindow

VALUES = {"device": 4, "placement": 8, "country": 200}
CAMPAIGNS, BATCH, SEED = 10_000, 100, 17


def look_up() -> Table:
    """Microseconds of a batch, by the form of its fields."""
    rng = np.random.default_rng(SEED)
    names = {name: [f"{name}-{i}" for i in range(size)] for name, size in VALUES.items()}
    tables = {
        name: EffectTable.of({"": 0.0, **{value: rng.normal(0, 0.2) for value in values}}, {})
        for name, values in names.items()
    }
    effects = FieldEffects(tables)
    atlas, every = random_atlas(CAMPAIGNS, SEED), campaign_names(CAMPAIGNS)
    campaigns = [every[row] for row in rng.integers(0, CAMPAIGNS, BATCH).tolist()]
    scores = np.array(random_scores(BATCH, rng))
    chosen = {name: rng.integers(0, len(values), BATCH) for name, values in names.items()}
    strings = {name: [names[name][i] for i in codes.tolist()] for name, codes in chosen.items()}
    codes = {name: effects.codes(name, values) for name, values in strings.items()}

    def without() -> np.ndarray:
        return atlas.look_up(atlas.rows(campaigns), np.asarray(scores))

    ways = {
        "without": without,
        "strings": lambda: effects.applied(without(), campaigns, strings),
        "codes": lambda: effects.applied(without(), campaigns, codes),
    }
    taken = interleaved(ways, 1.0)
    return {"a batch of 100, µs": {name: figure.times(1e6) for name, figure in taken.items()}}


def _hour(rng: np.random.Generator, fields: int, values: int, rows: int) -> FieldTables:
    """One row for each of so many campaigns and values of each field."""
    campaigns, found = campaign_names(CAMPAIGNS), {}
    for number in range(fields):
        keys = rng.choice(CAMPAIGNS * values, rows, replace=False)
        names = [SEPARATOR.join((campaigns[key // values], f"v{key % values}")) for key in keys]
        counts = rng.integers(1, 200, rows).astype(float)
        columns = (rng.uniform(0.005, 0.02, rows), counts, rng.poisson(counts * 0.01).astype(float))
        found[f"f{number}"] = BinsTable.from_columns(names, np.arange(rows), *columns)
    return FieldTables({}, {}, found)


def refit(fields: int = 20, values: int = 1000, rows: int = 50_000, hours: int = 48) -> Table:
    """Seconds and memory of the reading of the hours and of the fit."""
    rng = np.random.default_rng(SEED)
    tables = _hour(rng, fields, values, rows)
    history = History(float(hours), [], lambda hour: tables)
    release_free_memory()
    resident, window = resident_bytes(), FieldWindow()
    row: dict[str, Cell] = {}

    def timed(name: str, begun: float) -> None:
        row[name] = process_time() - begun

    begun = process_time()
    window.read(history, range(hours - 1))
    timed("read, s", begun)
    begun = process_time()
    window.read(history, range(hours))
    timed("warm read, s", begun)
    row["grown MB"] = (resident_bytes() - resident) / 1e6
    begun = process_time()
    fit_effects(window, range(hours), np.arange(hours, 0.0, -1) - 0.5, np.ones(hours))
    timed("fit, s", begun)
    return {f"{fields} fields of {values:,} values": row}


if __name__ == "__main__":
    for table in (look_up(), refit()):
        for title, cells in table.items():
            found = {title: {name: shown(cell) for name, cell in cells.items()}}
            sys.stdout.write(json.dumps(found) + "\n")
