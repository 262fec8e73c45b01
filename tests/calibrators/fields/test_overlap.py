"""Fields that say the same of an impression serve together what one of them would alone."""

from functools import cache

import numpy as np
import pytest

from calibrators import BinsTable
from calibrators.bins.table import History
from calibrators.fields.overlap import Overlap
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.methods.refit import Fitted
from calibrators.pooled import Pooled
from calibrators.samples import Floats, Integers, sum_at

HOURS, CAMPAIGNS, VALUES = 24, 60, 6
NAMES = tuple(f"c{number}" for number in range(CAMPAIGNS))
LABELS = tuple(f"v{number}" for number in range(VALUES))
EFFECTS = np.array([0.5, -0.4, 0.3, -0.3, 0.2, -0.3])


def codes(rng: np.random.Generator, like: Integers, agreement: float) -> Integers:
    """The values of a field that agrees with another in so many impressions of a hundred."""
    other = rng.integers(0, VALUES, len(like))
    return np.where(rng.random(len(like)) < agreement, like, other)


@cache
def fitted(agreements: tuple[float, ...], own: float = 0.0, seed: int = 1) -> Fitted:
    """With a field `f0` that has effects, and fields that agree with it as far as is said, with as
    many times these effects of their own."""
    rng, others = np.random.default_rng(seed), np.random.default_rng(seed + 100)
    bins, tables = {}, {}
    for hour in range(HOURS):
        campaigns, first = rng.integers(0, CAMPAIGNS, 6000), rng.integers(0, VALUES, 6000)
        every = [first, *(codes(others, first, agreement) for agreement in agreements)]
        scores = rng.uniform(0.02, 0.1, 6000)
        logits = np.log(scores / (1 - scores)) + EFFECTS[first]
        logits += sum(own * EFFECTS[each] for each in every[1:])
        outcomes = (rng.random(6000) < 1 / (1 + np.exp(-logits))).astype(float)
        columns = (scores, np.ones(6000), outcomes)
        bins[hour] = BinsTable.from_columns(NAMES, campaigns, *columns)
        values = {f"f{number}": FieldColumn(LABELS, each) for number, each in enumerate(every)}
        tables[hour] = FieldTables.from_events(FieldColumn(NAMES, campaigns), values, (), columns)
    nothing = FieldTables.empty()
    history = History(float(HOURS), [bins], lambda hour: tables.get(hour, nothing))
    return Pooled(HOURS).refit(history, trial=True)


def served(found: Fitted, values: dict[str, tuple[str, ...]]) -> Floats:
    """The logarithms of the odds ratios of values."""
    effects = found.atlas.effects
    p = np.full(VALUES, 0.5)
    moved = effects.applied(p, "c1", {name: list(given) for name, given in values.items()})
    return np.asarray(np.log(moved / (1 - moved)))


@pytest.mark.parametrize("copies", [1, 2])
def test_copies_serve_together_what_one_serves_alone(copies):
    alone, found = fitted(()), fitted((1.0,) * copies)

    values = {f"f{number}": LABELS for number in range(copies + 1)}
    assert served(found, values) == pytest.approx(served(alone, {"f0": LABELS}), abs=0.01)
    shares = [found.notes["fields"][name]["share"] for name in values]
    assert shares == pytest.approx([1 / len(values)] * len(values), abs=0.01)
    # Nor are levels carried by what the fields have in common.
    odds = [each.atlas.at("c1", 0.05) for each in (alone, found)]
    assert odds[1] == pytest.approx(odds[0], rel=0.003)
    uncertain = [alone.atlas.effects, found.atlas.effects]
    given = [{"f0": "v1"}, dict.fromkeys(values, "v1")]
    variances = [
        float(effects.variances("c1", fields, 1)[0])
        for effects, fields in zip(uncertain, given, strict=True)
        if effects is not None
    ]
    assert variances[1] == pytest.approx(variances[0], rel=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_field_that_only_agrees_is_left_little_of_its_effect(seed):
    """Seen alone its values have .6 of the effects, which are all the other field's."""
    found = fitted((0.6,), seed=seed)
    by_first = served(found, {"f0": LABELS, "f1": ("v0",) * VALUES})
    by_second = served(found, {"f0": ("v0",) * VALUES, "f1": LABELS})
    assert np.polyfit(EFFECTS, by_first, 1)[0] == pytest.approx(1.0, abs=0.2)
    assert abs(np.polyfit(EFFECTS, by_second, 1)[0]) < 0.2


def test_fields_that_speak_against_each_other_are_served_more_than_either_shows():
    found = fitted((0.6,), own=-0.8)
    assert all(note["share"] > 1.2 for note in found.notes["fields"].values())


def test_fields_that_come_independently_keep_their_effects_to_the_bit():
    found = fitted((0.0,), own=0.7)
    assert all("share" not in note for note in found.notes["fields"].values())


def means(values: Integers, rows: Integers, cells: tuple[int, int], effects: Floats) -> Floats:
    size = cells[0] * cells[1]
    total = sum_at(rows, np.exp(effects)[values], size) / np.bincount(rows, minlength=size)
    return np.asarray(total.reshape(cells))


@pytest.mark.parametrize("drift", [0.0, 0.8])
@pytest.mark.parametrize("agreement", [0.0, 0.5, 1.0])
def test_shares_are_those_of_the_impressions_or_nearer_to_one(agreement, drift):
    """A regression on the impressions themselves is the oracle. Where mixes of large campaigns
    move, and with them the means of both fields, that does not pass for agreement."""
    rng, cells = np.random.default_rng(4), (80, 24)
    own = 0.6 * EFFECTS[[2, 0, 1, 5, 3, 4]]
    effects, other = EFFECTS + agreement * own, own + agreement * EFFECTS
    mixes = np.exp(rng.normal(0.0, drift, (*cells, VALUES))).reshape(-1, VALUES)
    mixes /= mixes.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(len(mixes)), 200)
    first = (rng.random(len(rows))[:, None] > mixes.cumsum(axis=1)[rows]).sum(axis=1)
    first = np.minimum(first, VALUES - 1)
    second = codes(rng, first, agreement)
    pairs = np.expm1(np.stack([effects[first], other[second]]))
    within = pairs - np.stack([sum_at(rows, x, len(mixes)) / 200 for x in pairs])[:, rows]
    covariances = within @ within.T / len(rows)
    oracle = np.linalg.lstsq(covariances, np.diag(covariances), rcond=1e-6)[0]

    given = [means(first, rows, cells, effects), means(second, rows, cells, other)]
    spreads = np.repeat(np.diag(covariances)[:, None], cells[0], axis=1)
    found = Overlap.of(given, spreads, np.full(cells, 200.0)).shares

    if agreement == 1.0 or drift == 0.0:
        assert found == pytest.approx(oracle, abs=0.1)
    assert np.all(np.abs(found - oracle) <= np.abs(1.0 - oracle) + 0.03)


def test_nothing_and_one_field_have_their_whole_effects():
    assert Overlap.of([], np.zeros((0, 3)), np.ones((3, 4))).shares.shape == (0,)
    one = Overlap.of([np.ones((3, 4))], np.zeros((1, 3)), np.ones((3, 4)))
    assert one.shares.tolist() == [1.0]
    assert Overlap.of([np.ones((0, 0))] * 2, np.zeros((2, 0)), np.ones((0, 0))).shares.size == 2
