"""Fields at the edge and in requests equal those of the service, bit by bit."""

import json

import numpy as np
import pytest
from sirocco_client import BadAtlas, BadInput
from sirocco_client.atlas import EdgeAtlas
from sirocco_client.events import EventMethods
from sirocco_client.requests import CalibrateInput, pack_input

from app.columns.scores import read_scores
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.maps.calibration_map import PLACES, Spreads

N = 300
RNG = np.random.default_rng(7)
CAMPAIGNS = RNG.choice(["hats", "shoes", "new"], N).tolist()
SCORES = RNG.random(N)
FIELDS = {
    "device": RNG.choice(["ios", "android", "unseen"], N).tolist(),
    "placement": RNG.choice(["top", "side"], N).tolist(),
}
DEVIATIONS = {"ios\x1ftop": 0.15, "\x1ftop": 0.07, "hats\x1fios": 0.4}


def atlas():
    effects = FieldEffects(
        {
            "device": EffectTable.of({"": -0.1, "ios": 0.3, "android": -0.2}, {"ios": 0.1}),
            "placement": EffectTable.of({"": 0.01, "top": 0.7}, {"": 0.3, "top": 0.2}),
        },
        {"device*placement": EffectTable.of({"ios\x1ftop": 0.1, "\x1ftop": -0.3}, DEVIATIONS)},
        {"device": EffectTable.of({"hats\x1fios": 0.6}, DEVIATIONS)},
    )
    maps = {"hats": CalibrationMap.proportional(0.3), "shoes": CalibrationMap.proportional(0.7)}
    spreads = Spreads.of(-6.0, 0.0, np.linspace(0.1, 0.9, 3 * PLACES).reshape(3, PLACES))
    built = Atlas.build(maps, CalibrationMap.proportional(0.9))
    return built.with_effects(effects).with_spreads(spreads)


def test_the_edge_gives_the_bits_of_the_service():
    served, edge = atlas(), EdgeAtlas.from_bytes(atlas().to_bytes())
    for n in (5, N):
        names, scores = CAMPAIGNS[:n], SCORES[:n]
        fields = {name: values[:n] for name, values in FIELDS.items()}
        plain = served.look_up(served.rows(names), scores)

        expected = served.effects.applied(plain, names, fields)

        assert edge(names, scores, fields).tobytes() == expected.tobytes()
        rows = zip(names, scores, *fields.values(), strict=True)
        one_by_one = [edge.at(c, s, {"device": d, "placement": p}) for c, s, d, p in rows]
        assert one_by_one == expected.tolist()
        others = served.effects.applied(plain, names, {})
        assert edge(names, scores).tobytes() == others.tobytes()
        for_all = served.effects.applied(plain, names, {"device": "ios"})
        assert edge(names, scores, {"device": "ios"}).tobytes() == for_all.tobytes()


@pytest.mark.parametrize("compiled", [True, False])
def test_quantiles_at_the_edge_are_the_bits_of_the_service(monkeypatch, compiled):
    if not compiled:
        for module in ("sirocco_client.intervals", "calibrators.maps.calibration_map"):
            monkeypatch.setattr(f"{module}.fill_quantiles", None)
    served, edge = atlas(), EdgeAtlas.from_bytes(atlas().to_bytes())
    levels = (0.05, 0.5, 0.99)
    of_all = {"device": "ios", "placement": "unseen"}
    some = {**FIELDS, "placement": ["top", ""] * (N // 2)}
    rows, widths = served.rows(CAMPAIGNS), []
    for fields in ({}, FIELDS, of_all, {"placement": "top"}, some):
        p = edge(
            CAMPAIGNS, SCORES, {name: given for name, given in fields.items() if "" not in given}
        )
        expected = served.quantiles(rows, SCORES, p, levels, CAMPAIGNS, fields)
        found = edge.quantiles(CAMPAIGNS, SCORES, p, levels, fields)
        assert np.array_equal(found, expected)
        widths.append((found[2] - found[0]).mean())
    assert widths[0] < min(widths[1:])


def test_damaged_effects_are_refused():
    data = atlas().to_bytes()
    start = data.index(b"SFLD")
    for place in range(start - 8, start + 12):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        with pytest.raises(BadAtlas):
            EdgeAtlas.from_bytes(bytes(damaged))
    for length in range(start - 8, len(data) - 8, 7):
        with pytest.raises(BadAtlas):
            EdgeAtlas.from_bytes(data[:length])


def test_requests_say_the_same_as_json_and_as_columns():
    given = CalibrateInput.of("click", CAMPAIGNS, SCORES, None, {**FIELDS, "placement": "top"})

    packed = read_scores(pack_input(given, False), N, ("device", "placement")).fields
    parts = [json.loads(part.as_json())["fields"] for part in given.parts(200)]

    device = packed["device"]
    assert [device.names[code] for code in device.codes] == FIELDS["device"]
    assert list(packed["placement"].names) == ["top"]
    assert [part["device"] for part in parts] == [FIELDS["device"][:200], FIELDS["device"][200:]]
    assert [part["placement"] for part in parts] == ["top", "top"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"device": ["ios"]}, "fields.device"),
        ({"device": ["ios", ""]}, "fields.device[1]"),
        ({"device": ["ios", 7]}, "fields.device[1]"),
        ({"device": "x" * 257}, "fields.device"),
        ({"device": "a\x1fb"}, "fields.device"),
    ],
)
def test_what_cannot_be_a_value_is_refused(fields, field):
    with pytest.raises(BadInput, match=rf"^{field.replace('[', '.').replace(']', '.')}"):
        CalibrateInput.of("click", ["a", "b"], [0.1, 0.2], None, fields)


class Sent(EventMethods):
    def put(self, line):
        self.line = json.loads(line)
        return True


def test_events_carry_fields():
    sent = Sent()
    sent.outcome("hats", "click", 0.1, 1, fields={"device": "ios"})
    assert sent.line["fields"] == {"device": "ios"}
    with pytest.raises(BadInput, match="device"):
        sent.outcome("hats", "click", 0.1, 1, fields={"device": ""})
