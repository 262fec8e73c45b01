"""What blocks of campaigns have together, and what a refit keeps of them."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from calibrators import BinsTable, History, HourTables
from calibrators.bins.bins import GRID
from calibrators.pooled import Pooled
from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.change_points import hour_weights
from calibrators.pooled.fit import NO_STEPS, Shape, Solutions
from calibrators.pooled.hierarchy import Priors
from calibrators.pooled.levels import block_weights, levels_of_blocks
from calibrators.pooled.outliers import CampaignHours
from calibrators.pooled.serving import ServedKnots
from calibrators.pooled.spline import Knots
from calibrators.pooled.window import MOST, Window, campaign_spans
from tests.calibrators.pooled.fit_levels import fit_levels
from tests.calibrators.pooled.pooled_traffic import NEWEST, drawn_hours, history, shape_of, table

AGES = np.arange(48)[::-1] + 0.5


def hours_of_blocks(outage: bool) -> tuple[list[CampaignHours], CampaignHours]:
    """40 campaigns in 3 blocks of unequal size and together: one jumps, one is odd for an hour."""
    rng = np.random.default_rng(4)
    expected = rng.gamma(2.0, 10.0, (40, 1)) * rng.uniform(0.5, 1.5, (40, 48))
    truth = expected * np.exp(rng.normal(0, 0.3, (40, 1)))
    truth[3, 30:] *= 4.0
    truth[20, 10] *= 30.0
    if outage:
        truth[:, 40:43] = 0.0
    observed = rng.poisson(truth).astype(np.float64)
    whole = CampaignHours.of(
        expected,
        observed,
        groups=rng.integers(-1, 3, 40),
        fitted=rng.normal(0, 0.3, 40),
        variances=np.full(40, 0.09),
    )
    parts = [slice(0, 5), slice(5, 5), slice(5, 39), slice(39, 40)]
    return [CampaignHours(*(column[part] for column in whole)) for part in parts], whole


@pytest.mark.parametrize("outage", [True, False])
def test_the_weights_of_blocks_are_those_of_all_campaigns(outage):
    """Also in an outage, which the one campaign of the last block could not show."""
    blocks, whole = hours_of_blocks(outage)
    expected = hour_weights(whole.expected, whole.observed, AGES)

    found = list(block_weights(blocks, AGES))

    assert np.vstack([each.weights for each in found]).tolist() == expected.weights.tolist()
    assert expected.outage.sum() == (3 if outage else 0)
    assert (expected.weights < 0.5).any()
    assert hour_weights(blocks[-1].expected, blocks[-1].observed, AGES).outage.sum() == 0


def test_the_levels_of_blocks_are_those_of_all_campaigns():
    """Shifts of the campaigns in their order, of groups and of the target, and the strengths."""
    blocks, whole = hours_of_blocks(outage=False)
    expected = fit_levels(
        whole.expected,
        whole.observed,
        AGES,
        groups=whole.groups,
        fitted=whole.fitted,
        variances=whole.variances,
    )

    found = levels_of_blocks(blocks, AGES, 3)

    assert found.shifts == pytest.approx(expected.shifts, abs=1e-12)
    assert found.target_shift == pytest.approx(expected.target_shift, abs=1e-12)
    assert found.group_shifts == pytest.approx(expected.group_shifts, abs=1e-12)
    assert found.strengths == expected.strengths
    assert np.ptp(found.shifts) > 0.5


def test_large_tables_are_gone_through_in_spans_of_names():
    """Each campaign is in one span, with all that it has in any hour."""
    names = [f"a{number:02d}" for number in range(7)]
    tables = {
        5: table(names, np.arange(7), np.full(7, 0.1), np.arange(7) + 1.0, np.zeros(7)),
        6: table(names[2:4], [0, 1, 1], [0.1, 0.2, 0.3], [1, 1, 1], [1, 0, 0]),
        9: BinsTable.empty(),
    }

    spans = list(campaign_spans(tables, most=3))

    assert [span[5].campaigns for span in spans] == [
        ("a00", "a01"),
        ("a02", "a03"),
        tuple(names[4:]),
    ]
    for hour, whole in tables.items():
        assert BinsTable.merge([span[hour] for span in spans]) == whole
    assert spans[1][6] == tables[6]
    assert next(campaign_spans(tables, most=7)) is tables


def test_one_block_of_many_campaigns_is_read_in_spans():
    """However the history gives its blocks."""
    count = 2 * MOST + 2
    names = [f"a{number:04d}" for number in range(count)]
    ones = np.ones(count)
    past = history({NEWEST: table(names, np.arange(count), ones / 20, ones, 0 * ones)})

    window = Window.of(past, 24, None)

    assert [len(block) for block in window.blocks] == [683, 683, 684]
    assert window.campaigns == tuple(names)


def test_a_jump_in_one_block_leaves_the_others_as_they_are():
    """The same maps from one block, whose hours are all weighed anew, as from three."""
    hours = drawn_hours([0.0] * 6, [200] * 6)
    late = drawn_hours([2.0, *[0.0] * 5], [200] * 6)
    hours |= {hour: late[hour] for hour in range(NEWEST - 7, NEWEST + 1)}
    names = hours[NEWEST].campaigns
    parts = [
        {hour: each.select(names[first : first + 2]) for hour, each in hours.items()}
        for first in (0, 2, 4)
    ]

    whole, dealt = (Pooled().refit(past) for past in (history(hours), history(*parts)))

    assert whole.notes["jumps"] == dealt.notes["jumps"] == 1
    scores = np.linspace(0.01, 0.3, 6)
    assert dealt.atlas(names, scores) == pytest.approx(whole.atlas(names, scores), rel=1e-9)


def fitted(room: int) -> tuple[Shape, list[int]]:
    """A shape of two blocks, and how often each of them was solved."""
    hours = drawn_hours([0.5, -0.5, 0.0, 1.0, -1.0, 0.2], [20] * 6)
    names = hours[NEWEST].campaigns
    parts = [
        {hour: each.select(some) for hour, each in hours.items()} for some in (names[:4], names[4:])
    ]
    shape = shape_of(history(*parts), lambda _: None, Priors())
    shape.room = room
    solved = [0, 0]
    for number, block in enumerate(shape.blocks):
        _count(block, solved, number)
    shape.fit()
    return shape, solved


def _count(block: CampaignBlock, solved: list[int], number: int) -> None:
    linearised = block.linearised

    def counted(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        solved[number] += 1
        return linearised(curves)

    block.linearised = counted  # type: ignore[method-assign]


def test_what_there_is_no_room_for_is_solved_again_to_the_same_bits():
    """With room for all blocks, for the smaller one, for none."""
    ample, once = fitted(1 << 20)
    assert once == [ample.rounds] * 2
    little, some = fitted(ample.eliminated(ample.blocks[1]).size)
    none, twice = fitted(0)

    assert some == [2 * ample.rounds, ample.rounds]
    assert twice == [2 * ample.rounds] * 2
    for shape in (little, none):
        for block, other in zip(shape.blocks, ample.blocks, strict=True):
            assert shape.curves(block).tobytes() == ample.curves(other).tobytes()
        assert shape.priors == ample.priors


def test_a_solution_that_was_taken_is_not_kept():
    """Its room is the memory of the second pass."""
    shape, _ = fitted(0)
    solutions = Solutions(shape.eliminated, 1 << 20)
    block = shape.blocks[0]
    first = solutions.first(block)

    assert solutions.taken(block) is first
    assert solutions.taken(block) is not first


def test_maps_are_the_same_however_many_are_made():
    """More of them than are made at once."""
    rng = np.random.default_rng(2)
    curves, shifts = rng.normal(0, 0.2, (2100, 8)), rng.normal(0, 0.3, 2100)
    knots = ServedKnots(Knots(-20, 8, 0.35), NO_STEPS, np.ones((2, GRID.size)))
    values = knots.maps(curves, shifts).values.reshape(2100, -1)

    for row in (0, 1023, 1024, 2099):
        alone = knots.maps(curves[row : row + 1], shifts[row : row + 1])
        assert values[row].tolist() == alone.values.tolist()


class ReadBlocks:
    """Blocks of 30 campaigns with 100 impressions in each of 48 hours, read one by one."""

    def __init__(self, count: int) -> None:
        hours = drawn_hours([0.1] * 30, [100] * 30, hours=48)
        self._packed = {hour: table.to_bytes() for hour, table in hours.items()}
        self._count = count

    def __iter__(self) -> Iterator[HourTables]:
        for number in range(self._count):
            yield {hour: _renamed(data, number) for hour, data in self._packed.items()}


def _renamed(data: bytes, number: int) -> BinsTable:
    read = BinsTable.from_bytes(data)
    return replace(read, campaigns=tuple(f"{number:03d}{name}" for name in read.campaigns))


def peak_bytes(blocks: int) -> int:
    """Most memory of a refit at a time."""
    read = ReadBlocks(blocks)
    tracemalloc.start()
    try:
        Pooled().refit(History(NEWEST + 1.0, read), trial=True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_block_more_costs_a_few_kilobytes_a_campaign():
    """The hourly entries alone would be 60 KB of float64 columns each. Of a block there are four
    sums for each cell of the grid besides, however many campaigns it has."""
    peak_bytes(1)
    few, many = peak_bytes(3), peak_bytes(8)

    assert (many - few) / 5 - 4 * 8 * GRID.size < 6_200 * 30
