"""Effects of fields and intervals: what is compared answers, and is not the same."""

import orjson

from benchmarks.core import effects
from benchmarks.figures import Figure


def test_every_answer_is_one_and_effects_are_in_it(monkeypatch):
    found = {}

    def answered(ways, seconds):
        found.update({name: way() for name, way in ways.items()})
        return {name: Figure.of([1.0 + place]) for place, name in enumerate(ways)}

    monkeypatch.setattr(effects, "interleaved", answered)
    batch = effects.Batch.drawn()
    table = effects.answers(batch)

    contents = {name: orjson.loads(answer.body) for name, answer in found.items()}
    assert {answer.status for answer in found.values()} == {200}
    assert contents["plain"]["probabilities"] == contents["interval"]["probabilities"]
    assert contents["plain"]["probabilities"] != contents["fields"]["probabilities"]
    assert table["over plain"] == {"plain": 1, "fields": 2, "interval": 3, "fields and interval": 4}
    effects.look_up(batch)
    assert found["strings"].tolist() == found["codes"].tolist() != found["without"].tolist()


def test_a_refit_reads_and_fits():
    ((name, row),) = effects.refit(fields=2, values=20, each=2, hours=4).items()

    assert name == "2 fields of 20 values"
    assert list(row) == ["read, s", "warm read, s", "grown MB", "fits, s"]
    assert min(row[column] for column in ("read, s", "warm read, s", "fits, s")) > 0
