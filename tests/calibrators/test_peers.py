"""Refits that several workers do together are those of one, to the last bit."""

from collections.abc import Iterator, Sequence
from functools import cache
from threading import Event
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from calibrators import BinsTable, History, HourTables, Sufficiency, make_method
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.maps.groups import CampaignGroups, FieldGroups
from calibrators.methods.refit import Fitted, Method
from calibrators.peers import ALONE, NotDivided, Peers, as_array, listed_in
from calibrators.pooled import Pooled
from calibrators.pooled.score_shifts import ScoreSums
from calibrators.pooled.spline import Stretch, Stretches
from calibrators.pooled.window import Memory, stretched
from calibrators.samples import Scratch, scratch_of, use_files
from tests.calibrators.peers_in_threads import run_together
from tests.calibrators.pooled.pooled_traffic import table

SHARDS, NEWEST, HOURS = 8, 60, 14
CAMPAIGNS, JOINED = 300, 240


@pytest.fixture(autouse=True)
def many_are_hundreds(monkeypatch) -> None:
    """Refits are divided from fewer campaigns on: what follows does not depend on how many."""
    monkeypatch.setattr("calibrators.pooled.method._JOINED", JOINED)


@cache
def shards(kinds: int, spread: float = 0.5) -> tuple[HourTables, ...]:
    """Campaigns in blocks of unequal size. Some jump, bots are at work in an hour, and behind a
    score of .1 there is a step; or they are of two kinds, which err in opposite ways. Log-odds of
    the scores have about this standard deviation."""
    rng = np.random.default_rng(kinds)
    numbers = np.arange(CAMPAIGNS)
    owner = rng.integers(0, SHARDS, CAMPAIGNS)
    slopes = np.where(numbers % 2, 1.4, -1.0) * (kinds - 1)
    blocks: list[dict[int, BinsTable]] = [{} for _ in range(SHARDS)]
    for hour in range(HOURS):
        rows = np.repeat(numbers, rng.poisson(8.0, CAMPAIGNS))
        ends = -2.0 - 1.8 * spread, -2.0 + 1.8 * spread
        log_odds = np.round(np.clip(rng.normal(-2.0, spread, len(rows)), *ends), 2)
        own = (0.5 if kinds == 1 else 0.1) * np.sin(numbers)
        own += 0.5 * slopes
        own += 1.5 * (numbers % 50 == 0) * (hour > HOURS // 2)
        own += 2.0 * (numbers % 11 == 3) * (hour == HOURS - 1)
        truth = (
            log_odds
            + own[rows]
            + slopes[rows] * (log_odds + 1.5)
            + 0.9 * (kinds == 1) * (log_odds > -2.2)
        )
        clicks = rng.binomial(4, expit(truth))
        for shard, block in enumerate(blocks):
            held, listed = owner[rows] == shard, np.flatnonzero(owner == shard)
            columns = expit(log_odds[held]), np.full(held.sum(), 4.0), clicks[held]
            names = [f"a{number:05d}" for number in listed]
            moment = NEWEST - HOURS + 1 + hour
            block[moment] = table(names, np.searchsorted(listed, rows[held]), *columns)
    return tuple(blocks)


@cache
def by_field(hour: int) -> FieldTables:
    """Campaigns of brands, each on two devices, one of which is clicked half as often again."""
    rng = np.random.default_rng(hour)
    rows, devices = np.repeat(np.arange(CAMPAIGNS), 6), np.tile([0, 0, 0, 1, 1, 1], CAMPAIGNS)
    scores = np.full(len(rows), 0.1)
    events = scores, np.full(len(rows), 4.0), rng.binomial(4, scores * (1 + 0.5 * devices)) * 1.0
    columns = {
        "device": FieldColumn(("tv", "web"), devices),
        "brand": FieldColumn(tuple(f"b{number}" for number in range(9)), rows % 9),
    }
    campaigns = FieldColumn(tuple(f"a{number:05d}" for number in range(CAMPAIGNS)), rows)
    return FieldTables.from_events(campaigns, columns, ("device*brand",), events)


def own_history(
    blocks: Sequence[HourTables], peers: Peers, as_of: float = NEWEST + 1.0, fields: Any = None
) -> History:
    """Of a worker that has a part of the blocks; only the first is asked for fields."""
    # The first of many may have none at all.
    own = max(peers.place - (peers.count > 3), 0), peers.place + 1 - (peers.count > 3)
    first, behind = (len(blocks) * at // (peers.count - (peers.count > 3)) for at in own)
    return History(as_of, blocks[first:behind], fields if peers.is_first else None, peers)


def refits(
    method: Method,
    blocks: Sequence[HourTables],
    peers: Peers,
    trial: bool = True,
    fields: Any = None,
) -> Iterator[Fitted]:
    """One without a memory, and one that goes on from it an hour before the newest is over."""
    first = method.refit(own_history(blocks, peers, fields=fields), trial=trial)
    yield first
    later = own_history(blocks, peers, NEWEST + 0.75, fields)
    yield method.refit(later, memory=first.memory if peers.is_first else None, trial=trial)


def told(fitted: Fitted) -> dict[str, Any]:
    """All that a refit gives, as something to compare."""
    scale = fitted.scale
    return {
        "atlas": fitted.atlas.to_bytes(),
        "trial": None if fitted.trial is None else fitted.trial.to_bytes(),
        "skipped": dict(fitted.skipped),
        "set aside": fitted.set_aside,
        "notes": dict(fitted.notes),
        "pushed": scale and scale.changed(NEWEST + 1, shards(1)[0][NEWEST]),
    }


METHODS: dict[str, Method] = {
    "pooled": Pooled(hours=HOURS),
    "groups": Pooled(hours=HOURS, groups=CampaignGroups(r"^(a...)[0-7]")),
    "sir": make_method(
        "sir",
        hours=24,
        history_hours=48,
        bin_size=100,
        prior_strength=2.0,
        sufficiency=Sufficiency(400, 10),
        groups=None,
    ),
}


@cache
def alone(name: str, kinds: int) -> list[dict[str, Any]]:
    """What one worker with all blocks comes to."""
    return [told(fitted) for fitted in refits(METHODS[name], shards(kinds), ALONE)]


@pytest.mark.parametrize(
    ("name", "kinds", "counts", "found"),
    [
        pytest.param("pooled", 1, [2], {"jumps", "steps"}, marks=pytest.mark.slow),
        pytest.param("pooled", 2, [7], {"jumps", "groups"}, marks=pytest.mark.slow),
        pytest.param("groups", 1, [2], {"jumps", "steps", "groups"}, marks=pytest.mark.slow),
        ("sir", 1, [2, 7], set()),
    ],
)
def test_two_and_seven_workers_make_the_maps_of_one(name, kinds, counts, found):
    """The same bytes, with a trial, without and with a memory, of one kind of campaigns and of two;
    only the first has them."""
    method, blocks, expected = METHODS[name], shards(kinds), alone(name, kinds)
    assert all(expected[0]["notes"][name] for name in found)

    for count in counts:
        first, *others = run_together(count, lambda peers: list(refits(method, blocks, peers)))

        assert [told(fitted) for fitted in first] == expected
        assert all(fitted.memory is None for other in others for fitted in other)


@pytest.mark.slow
def test_no_bit_hangs_on_how_many_campaigns_a_worker_has():
    """Of scores that need many knots: products of large matrices round by how large they are."""
    blocks, method = shards(1, 2.0), METHODS["pooled"]
    expected = [fitted.atlas.to_bytes() for fitted in refits(method, blocks, ALONE)]

    for count in (2, 3, 7):
        first, *_ = run_together(count, lambda peers: list(refits(method, blocks, peers)))

        assert [fitted.atlas.to_bytes() for fitted in first] == expected


@pytest.fixture
def files(monkeypatch):
    """Of this test alone."""
    monkeypatch.setattr("calibrators.samples._in_use", Event())
    use_files()


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_a_refit_whose_arrays_are_in_files_makes_the_same_maps(monkeypatch, tmp_path):
    """Also where the disk has no room; and no file is left."""
    expected = alone("pooled", 1)
    monkeypatch.setattr("calibrators.samples.MANY", CAMPAIGNS // 4)
    for folder in (tmp_path, tmp_path / "missing"):
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        found = [told(fitted) for fitted in refits(METHODS["pooled"], shards(1), ALONE)]
        assert found == expected
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("files")
def test_arrays_are_in_files_from_many_campaigns_on(monkeypatch, tmp_path, caplog):
    """What was looked at, and what was let go, is the same; a broken disk costs no array."""
    monkeypatch.setattr("calibrators.samples.MANY", 3)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    columns = [np.arange(1000.0) + place for place in range(4)]
    scratch = Scratch()

    kept = scratch.kept(
        (ScoreSums(each, each, np.broadcast_to(0.0, 1000)) for each in columns), len
    )

    assert scratch.in_files
    assert scratch_of(kept) is scratch
    assert all(sums.counts.base is not None and 0 in sums.distances.strides for sums in kept)
    for _ in range(2):
        np.testing.assert_array_equal([sums.offsets for sums in kept], columns)
    assert scratch.stored(kept[0].counts) is kept[0].counts
    np.testing.assert_array_equal(scratch.joined(columns), np.concatenate(columns))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    broken = Scratch(in_files=True)
    for column in columns:
        np.testing.assert_array_equal(broken.stored(column), column)
    assert caplog.text.count("goes on in memory") == 1


@pytest.mark.slow
def test_what_is_told_by_field_is_read_by_the_first_alone():
    """The others are told the owners of campaigns, and what the effects do to theirs."""
    method, blocks = Pooled(hours=HOURS, groups=FieldGroups("brand")), shards(1)
    expected = [told(fitted) for fitted in refits(method, blocks, ALONE, fields=by_field)]
    assert expected[0]["notes"]["fields"]["device"]["kept"] == 2
    assert expected[0]["notes"]["groups"] == 9

    for count in (2, 7):
        first, *_ = run_together(
            count, lambda peers: list(refits(method, blocks, peers, fields=by_field))
        )

        assert [told(fitted) for fitted in first] == expected


@pytest.mark.slow
def test_workers_stretch_narrow_scores_alike():
    """By what the scores of all campaigns ask for."""
    narrow = Stretch(-2.0, 5.0, 1 / 8)
    past = stretched(History(NEWEST + 1.0, shards(1)), HOURS, Stretches(narrow))
    method, blocks = METHODS["pooled"], tuple(past.blocks)
    expected = list(refits(method, blocks, ALONE))
    assert isinstance(expected[0].memory, Memory)
    assert expected[0].memory.knots.stretch.factor == 8

    first, _ = run_together(2, lambda peers: list(refits(method, blocks, peers)))

    assert [told(fitted) for fitted in first] == [told(fitted) for fitted in expected]


def test_names_come_back_as_they_were():
    names = ["a", "ä\n", "", '"quoted", too']
    assert listed_in(as_array(names)) == names
    assert listed_in(as_array([])) == []


def test_every_worker_adds_up_the_same_numbers_in_the_same_order():
    """Where sums depend on the order: 1e16 hides what comes behind it."""
    numbers = [1e16, 1.0, -1e16, 1.0, 0.25]
    parts = [np.array([number]) for number in numbers]

    def sums(peers: Peers) -> tuple[float, bool, list[float]]:
        first, behind = (len(parts) * at // peers.count for at in (peers.place, peers.place + 1))
        own = parts[first:behind]
        whole = peers.joined(np.concatenate([*own, np.empty(0)]))[0].tolist()
        return float(peers.sum(own or [np.zeros(1)])[0]), peers.any(bool(own)), whole

    expected = sums(ALONE)
    for count in (1, 2, 5):
        assert run_together(count, sums) == [expected] * count
    assert expected == (1.25, True, numbers)


def test_only_the_first_is_given_what_it_alone_needs():
    def names(peers: Peers) -> Sequence[str]:
        return peers.names([f"campaign {peers.place}"])

    assert run_together(3, names) == [
        [f"campaign {place}" for place in range(3)],
        ["campaign 1"],
        ["campaign 2"],
    ]


@pytest.mark.parametrize(
    ("groups", "campaigns", "reason"),
    [(None, 40, "40 campaigns are too few"), (r"^(a\d+)", CAMPAIGNS, "groups are too many")],
)
def test_what_is_no_work_for_several_is_refused(groups, campaigns, reason):
    names = [f"a{number:05d}" for number in range(campaigns)]
    ones = np.ones(campaigns)
    block = {NEWEST: table(names, np.arange(campaigns), ones / 20, ones, 0 * ones)}
    method = Pooled(hours=2, groups=None if groups is None else CampaignGroups(groups))

    with pytest.raises(NotDivided, match=reason):
        run_together(2, lambda peers: method.refit(own_history([block, {}], peers)))
