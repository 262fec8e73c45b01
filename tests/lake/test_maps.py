"""Maps of a table of bins: those that a worker fits of the same bins in the store."""

import json
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from app.cli.main import main
from app.datasets.bin_tables import read_bins
from app.datasets.impressions import LogColumns
from app.datasets.options import Reading
from app.errors import CommandError
from app.lake.bins import BinsSettings, MergedBins
from app.lake.executors import run_here
from app.lake.maps import fitted_maps
from app.lake.tasks import partitions_of
from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.statistics.loaded_bins import HourLoad, LoadedBins, LoadName
from app.worker.fitting import Methods
from calibrators import Atlas
from calibrators.bins.table import History
from tests.lake.conftest import FIRST_HOUR, impressions


@pytest.fixture
def table(log, tmp_path):
    """The bins of the log, with a field."""
    settings = BinsSettings("click", LogColumns(fields=("device",)), Reading())
    tasks = [settings.task(part, str(tmp_path)) for part in partitions_of(str(log))]
    list(run_here(tasks))
    MergedBins(str(tmp_path), [task.result for task in tasks], ("device",)).write("bins.parquet")
    return tmp_path / "bins.parquet"


@pytest.mark.parametrize("calibrator", ["pooled", "sir"])
@pytest.mark.parametrize("fields", [(), ("device",)])
def test_maps_are_those_of_the_store_to_the_last_bit(table, redis_client, calibrator, fields):
    settings = Settings(calibrator=calibrator, fields=",".join(fields), window_hours=6)
    declared = DeclaredFields.of(settings)
    store = BinsStore(redis_client, 3600, fields=declared)
    for found in read_bins(table, fields):
        LoadedBins(redis_client, 3600, declared).add(
            LoadName("lake", "all"), HourLoad(found.target, found.hour, found.rows)
        )
    (maps,) = fitted_maps(read_bins(table, fields), settings)

    behind = FIRST_HOUR + 6
    by_field = (lambda hour: store.field_tables("click", hour)) if fields else None
    history = History(float(behind), store.history("click", FIRST_HOUR, behind), by_field)
    online = Methods(settings).refit(calibrator, "click", history, False)
    assert maps.as_of == 3600.0 * behind
    assert maps.atlas.to_bytes() == online.atlas.to_bytes()
    assert len(maps.atlas)


def test_old_hours_are_let_go(table):
    """Those that the method does not look at change nothing."""
    settings = Settings(calibrator="sir", window_hours=2, guard=False)
    (whole,) = fitted_maps(read_bins(table), settings)
    newest = [found for found in read_bins(table) if found.hour >= FIRST_HOUR + 4]
    (of_newest,) = fitted_maps(newest, settings)

    assert whole.atlas.to_bytes() == of_newest.atlas.to_bytes()


def test_hours_of_several_targets_may_stand_in_any_order(table):
    """A table may be sorted by hour, and a folder may have a file for each day."""
    settings = Settings(targets="click,install", calibrator="sir", guard=False)
    hours = [*read_bins(table)]
    both = [found._replace(target=name) for found in hours for name in settings.targets]
    (alone,) = fitted_maps(hours, settings)

    for found in fitted_maps(both, settings):
        assert found.atlas.to_bytes() == alone.atlas.to_bytes()


@pytest.mark.parametrize("column", ["cell", "count"])
def test_truth_values_are_no_whole_numbers(table, column):
    rows = pyarrow.parquet.read_table(table)
    place = rows.schema.get_field_index(column)
    truths = rows.set_column(place, column, [pyarrow.array([True] * len(rows))])
    pyarrow.parquet.write_table(truths, table)

    with pytest.raises(CommandError, match=f"bins.parquet, row 1: {column} = true; "):
        next(read_bins(table))


def test_too_few_impressions_are_an_error(tmp_path):
    pyarrow.parquet.write_table(impressions(5, 0), tmp_path / "log.parquet")
    task = BinsSettings("click", LogColumns(), Reading()).task(
        partitions_of(str(tmp_path / "log.parquet"))[0], str(tmp_path)
    )
    list(run_here([task]))
    with pytest.raises(CommandError, match="target click: too few impressions"):
        list(fitted_maps(read_bins(tmp_path / task.result), Settings(calibrator="sir")))


def test_hours_too_full_for_one_bin_are_an_error(table):
    found = next(read_bins(table))
    counts = np.minimum(found.rows.sums, 1) * 5 * 10**18
    full = [
        found._replace(hour=found.hour + i, rows=replace(found.rows, sums=counts)) for i in (0, 1)
    ]
    with pytest.raises(CommandError, match=r"target click: a bin holds more than 9\.2e9"):
        list(fitted_maps(full, Settings(calibrator="sir")))


def test_the_command_writes_what_the_api_answers(table, monkeypatch, capsys):
    command = ["sirocco", "lake", "maps", str(table), "--output", str(table.parent), "--json"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        main()
    found = json.loads(capsys.readouterr().out)["targets"]["click"]
    atlas = Atlas.from_bytes((table.parent / "maps/click.atlas").read_bytes())
    assert len(atlas) == found["fitted"] > 0
