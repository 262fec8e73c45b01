"""What a fit of effects has read of the hours, and reads again."""

import numpy as np

from calibrators.bins.table import History
from calibrators.fields import window as field_window
from calibrators.fields.sums import SEPARATOR, FieldColumn, FieldTables
from calibrators.fields.window import FieldWindow


def hour(positives):
    """Two events of one campaign on two devices."""
    codes = np.array([0, 1])
    return FieldTables.from_events(
        FieldColumn(("shoes",), np.zeros(2, np.int64)),
        {"device": FieldColumn(("ios", "web"), codes)},
        (),
        (np.full(2, 0.5), np.ones(2), np.array(positives, float)),
    )


def test_history_that_is_sent_late_is_read():
    window, tables = FieldWindow(), [FieldTables.empty(), FieldTables.empty(), *[hour((0, 1))] * 2]
    window.read(History(4.0, [], tables.__getitem__), range(4))
    tables[0] = hour((1, 1))
    window.read(History(4.0, [], tables.__getitem__), range(4))

    assert window.hours[0].campaigns["device"].observed.tolist() == [1.0, 1.0]


def test_the_newest_two_hours_are_read_again_if_events_came(monkeypatch):
    monkeypatch.setattr(field_window, "_READ_AGAIN", 1)
    window, tables = FieldWindow(), [hour((0, 0)) for _ in range(4)]
    window.read(History(4.0, [], tables.__getitem__), range(4))
    before = dict(window.hours)
    tables[1], tables[2] = hour((1, 1)), hour((0, 1))
    window.read(History(4.0, [], tables.__getitem__), range(4))

    assert all(window.hours[each] is before[each] for each in (0, 1)), "too large"
    assert window.hours[2].campaigns["device"].observed.tolist() == [0.0, 1.0]
    assert window.hours[3] is before[3], "nothing came"
    window.read(History(5.0, [], [*tables, hour((1, 0))].__getitem__), range(1, 5))
    assert sorted(window.hours) == [1, 2, 3, 4]


def test_names_that_come_later_get_codes_behind_those_that_are_known():
    """Of rows, of both ends of their names, and of pairs."""
    window = FieldWindow()

    def tables(devices, places):
        n = np.arange(2)
        return FieldTables.from_events(
            FieldColumn(("shoes", "hats"), n),
            {"device": FieldColumn(devices, n), "place": FieldColumn(places, n)},
            ("device*place",),
            (np.full(2, 0.5), np.ones(2), np.ones(2)),
        )

    hours = [tables(("ios", "web"), ("top", "side")), tables(("tv", "web"), ("side", "top"))]
    window.read(History(1.0, [], hours.__getitem__), range(1))
    first = {name: [*map(list, ends)] for name, ends in window.ends.items()}
    window.read(History(2.0, [], hours.__getitem__), range(2))

    texts = {name: [*codes] for name, codes in window.values.items()}
    campaigns = texts["campaign"] = [*window.campaigns]
    assert sorted(campaigns) == ["hats", "shoes"]
    assert texts["device"][-1] == "tv", "it came last"
    for name, (firsts, seconds) in window.ends.items():
        one, other = name.split("*") if "*" in name else ("campaign", name)
        named = zip(firsts, seconds, strict=True)
        rows = [SEPARATOR.join((texts[one][a], texts[other][b])) for a, b in named]
        assert rows == [*window.numbers[name]]
        for before, now in zip(first[name], (firsts, seconds), strict=True):
            assert now[: len(before)].tolist() == before
