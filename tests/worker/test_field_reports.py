"""The part `fields` of a report: hours by the effects that served them, and the worst segment."""

from typing import Any

import numpy as np
import pytest

from app.worker.atlas_cache import CachedVersion
from app.worker.fields import FieldsReport
from calibrators import Atlas
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.sums import FieldColumn, FieldTables
from evaluation.fields.multicalibration import multicalibration

HOURS = range(100, 103)
DEVICES, PLACES = ("", "ios", "tv"), ("top", "side")
LIFT = np.array([0.0, 0.5, -0.4])
N = 8_000


def events(hour: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(hour)
    p, device, place = rng.beta(2, 30, N), rng.integers(0, 3, N), rng.integers(0, 2, N)
    odds = p / (1 - p) * np.exp(LIFT[device])
    return p, (rng.random(N) < odds / (1 + odds)).astype(float), device, place


class Bins:
    """Hours of events of two fields; or of one under two names."""

    same = False

    def field_tables(self, target: str, hour: int) -> FieldTables:
        p, y, device, place = events(hour)
        columns = {"device": FieldColumn(DEVICES, device), "placement": FieldColumn(PLACES, place)}
        if self.same:
            columns["placement"] = columns["device"]
        campaigns = FieldColumn(("a",), np.zeros(N, np.int64))
        return FieldTables.from_events(campaigns, columns, ("device*placement",), (p, p * 0 + 1, y))


class Cache:
    """One version serves them all, but for the first hour, of which nobody knows."""

    def __init__(self, effects: FieldEffects | None, notes: Any = None) -> None:
        atlases = {"click": Atlas.empty().with_effects(effects)}
        self.version = CachedVersion(atlases=atlases, targets={"click": {"method": notes or {}}})

    def serving(self, hour: int, history: Any) -> CachedVersion | None:
        return None if hour == HOURS[0] else self.version


def report(effects: FieldEffects | None) -> dict[str, Any]:
    made: Any = FieldsReport(Bins(), Cache(effects), [], 24)  # type: ignore[arg-type]
    found: dict[str, Any] = made.of("click", HOURS.stop + 1)["fields"]
    return found


def effects(by: float = 1.0) -> FieldEffects:
    table = EffectTable.of(dict(zip(DEVICES, by * LIFT, strict=True)), {})
    return FieldEffects({"device": table})


def test_without_effects_the_worst_segment_is_named_as_from_rows():
    found = report(None)
    rows = [events(hour) for hour in HOURS[1:]]
    p, y, device, place = (np.concatenate(column) for column in zip(*rows, strict=True))
    names = {"device": np.array(DEVICES)[device], "placement": np.array(PLACES)[place]}

    by_rows = multicalibration(p, y, names)

    assert found["mce"]["fields"] in ({"device": "ios"}, {"device": "tv"})
    assert found["mce"]["sigmas"] == pytest.approx(by_rows.sigmas, rel=0.02)
    assert found["mce"]["segments"] == 3 + 2 + 6
    assert found["mce"]["chance"] < 1e-6 < 0.05 < found["mce"]["relative"]
    assert found["rce"]["device"]["value"] > 3 * found["rce"]["device"]["floor"]
    top = found["top"]["device"]["rows"]
    expected = {value: p[device == place].sum() for place, value in enumerate(DEVICES)}
    assert {row["value"]: row["expected"] for row in top} == pytest.approx(expected)
    assert [row["value"] for row in top] == sorted(expected, key=expected.__getitem__, reverse=True)
    assert found["top"]["device*placement"]["values"] == 6


def test_the_effects_that_served_are_in_what_was_predicted():
    right, wrong = report(effects()), report(effects(-1.0))

    assert right["rce"]["device"]["value"] < 2 * right["rce"]["device"]["floor"]
    assert right["mce"]["chance"] > 1e-4
    assert wrong["mce"]["sigmas"] > report(None)["mce"]["sigmas"]
    assert wrong["mce"]["fields"]["device"] in ("ios", "tv")


def test_other_fields_count_by_their_mean_effect():
    same = EffectTable.of(dict.fromkeys(("", *PLACES), 0.5), {})
    device = EffectTable.of({"": 0.0}, {})

    found = report(FieldEffects({"device": device, "placement": same}))

    p = np.concatenate([events(hour)[0] for hour in HOURS[1:]])
    raised = p * np.exp(0.5)
    served = (raised / (1 - p + raised)).sum()
    for name in ("device", "placement", "device*placement"):
        top = found["top"][name]["rows"]
        assert sum(row["expected"] for row in top) == pytest.approx(served, rel=1e-6)


def test_values_of_fields_that_agree_get_what_they_were_served():
    """Two fields with half of the effect each: alone, either half would look wrong."""
    bins, half = Bins(), EffectTable.of(dict(zip(DEVICES, LIFT / 2, strict=True)), {})
    bins.same = True
    notes = {"fields": {"device": {"share": 0.5}, "placement": {"share": 0.5}}}
    cache = Cache(FieldEffects({"device": half, "placement": half}), notes)

    made: Any = FieldsReport(bins, cache, [], 24)  # type: ignore[arg-type]
    found = made.of("click", HOURS.stop + 1)["fields"]

    for name in ("device", "placement"):
        assert found["rce"][name]["value"] < 2 * found["rce"][name]["floor"]
        told = {row["value"]: row["expected"] for row in found["top"][name]["rows"]}
        for place, value in enumerate(DEVICES):
            p = np.concatenate([events(hour)[0][events(hour)[2] == place] for hour in HOURS[1:]])
            raised = p * np.exp(LIFT[place])
            assert told[value] == pytest.approx((raised / (1 - p + raised)).sum(), rel=0.01)
