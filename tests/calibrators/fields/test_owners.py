"""Groups of campaigns by a field: who owns a campaign, and what a new one starts from."""

import numpy as np
import pytest

from app.settings import Settings
from app.worker.fitting import Fitting, Methods, RefitTask, kept, refit_target
from calibrators import Atlas, BinsTable, CalibrationMap
from calibrators.bins.table import History
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.fields.window import FieldWindow
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import FieldGroups, GroupMaps
from calibrators.pooled import Pooled

HOURS = 12
BRANDS = ("acme", "bolt", "")
BY_BRAND = FieldGroups("brand")
RATIOS = {"acme": 0.5, "bolt": 2.0}
NAMES = tuple(f"{brand}-{number}" for brand in RATIOS for number in range(8))


def history(said=lambda name: name.partition("-")[0]):
    """Campaigns of two brands, of which one is clicked half as often as predicted, and one twice as
    often; events say their brand."""
    rng = np.random.default_rng(3)
    rows = np.repeat(np.arange(len(NAMES)), 400)
    brands = np.array([BRANDS.index(said(name)) for name in NAMES])[rows]
    scores = np.full(len(rows), 0.05)
    truth = scores * np.array([RATIOS[name.partition("-")[0]] for name in NAMES])[rows]
    tables, fields = {}, {}
    for hour in range(HOURS):
        events = (scores, np.ones(len(rows)), (rng.random(len(rows)) < truth) * 1.0)
        tables[hour] = BinsTable.from_columns(NAMES, rows, *events)
        columns = {"brand": FieldColumn(BRANDS, brands)}
        fields[hour] = FieldTables.from_events(FieldColumn(NAMES, rows), columns, (), events)
    none = FieldTables.empty(("brand",))
    return History(float(HOURS), [tables], lambda hour: fields.get(hour, none))


def test_a_campaign_is_its_that_most_of_its_events_name():
    seen = FieldTables.from_events(
        FieldColumn(("a", "b", "c"), np.array([0, 0, 0, 1, 1, 2])),
        {"brand": FieldColumn(BRANDS, np.array([0, 1, 1, 1, 0, 2]))},
        (),
        (np.full(6, 0.5), np.ones(6), np.zeros(6)),
    )
    window = FieldWindow()
    window.read(History(1.0, [], lambda hour: seen), range(1))

    assert window.owners("brand") == {"a": "bolt", "b": "acme"}
    window.read(History(2.0, [], (FieldTables.empty(), seen).__getitem__), range(2))
    assert window.owners("brand") == {"a": "bolt", "b": "acme"}, "an hour without the field"
    assert window.owners("color") == FieldWindow().owners("brand") == {}


def test_a_new_campaign_starts_from_its_brands_map():
    atlas = Pooled(24, BY_BRAND).refit(history()).atlas
    found = dict(
        zip(
            RATIOS,
            atlas.look_up(np.array(atlas.grouped([0, 0], [*RATIOS])), np.full(2, 0.05)),
            strict=True,
        )
    )

    assert {name: found[name] / 0.05 for name in RATIOS} == pytest.approx(RATIOS, rel=0.1)
    assert atlas.grouped([0, 3, 0], ["nobody", "acme", ""]) == [0, 3, 0]
    assert atlas.group_field == Atlas.from_bytes(atlas.to_bytes()).group_field == "brand"


def test_without_events_that_say_it_there_is_no_group():
    atlas = Pooled(24, BY_BRAND).refit(history(lambda name: "")).atlas
    assert (atlas.has_groups, atlas.grouped([0], ["acme"])) == (False, [0])


def test_what_was_known_of_owners_is_not_in_the_bytes():
    maps = MapColumns.of_maps([CalibrationMap.proportional(0.5)])
    known = FieldGroups("brand", {"new": "acme"})
    atlas = Atlas.build({}, None, GroupMaps(known, ("acme",), maps))
    again = Atlas.from_bytes(atlas.to_bytes())
    assert (again.at("new", 0.5), again.grouped([0], ["acme"])) == (0.5, [1])


def test_a_frozen_campaign_without_a_map_keeps_its_brands():
    """Only the refit knows the brand: the atlas in force is read from bytes."""
    shared = dict(zip(RATIOS, map(CalibrationMap.proportional, (0.3, 0.6)), strict=True))
    groups = GroupMaps(BY_BRAND, (*shared,), MapColumns.of_maps([*shared.values()]))
    target = CalibrationMap.proportional(0.9)
    in_force = Atlas.from_bytes(Atlas.build({}, target, groups).to_bytes())
    frozen = ("acme-0", "bolt-0", "unknown")

    served = kept(Pooled(24, BY_BRAND).refit(history()).atlas, in_force, frozen)
    assert [served.at(name, 0.5) for name in frozen] == pytest.approx([0.15, 0.3, 0.45])

    fitting = Fitting(settings := Settings(guard=False), Methods(settings))
    task = RefitTask("click", frozen, in_force, own=dict.fromkeys(frozen, "sir"), frozen=frozen)
    alone = refit_target(fitting, task, history()).atlas
    rows = alone.grouped(alone.rows(frozen).tolist(), ["acme", "bolt", ""])
    assert alone.look_up(np.array(rows), np.full(3, 0.5)) == pytest.approx([0.15, 0.3, 0.45])
