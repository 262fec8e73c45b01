"""Arms of experiments: exact shares, the same for ever, and no unit moved without need."""

import numpy as np
import pytest

from calibrators.arms import ARMS, BUCKETS, Split, buckets_of, unit_number, unit_numbers

SHARES = {"challenger": 0.05, "raw": 0.01}
UNITS = [f"user-{number}" for number in range(20_000)]


def test_a_unit_keeps_its_number_for_ever():
    # Written down once: another number would move users from arm to arm in the middle of a test.
    assert unit_number("") == 13020603013274838756
    assert unit_number("ann") == 11957940740637538957
    assert unit_number("ü") == 3976460501203677525
    assert unit_numbers(["", "ann", "ü"]).tolist() == [unit_number(u) for u in ("", "ann", "ü")]


def test_one_unit_and_many_agree():
    split = Split("spring", SHARES)

    found = split.arms[buckets_of(unit_numbers(UNITS))]
    assert [ARMS[arm] for arm in found] == [split.arm(unit) for unit in UNITS]


def test_shares_are_exact_in_buckets_and_close_in_units():
    split = Split("spring", SHARES)

    assert np.bincount(split.arms).tolist() == [BUCKETS - 205 - 41, 205, 41]
    found = [split.arm(unit) for unit in UNITS].count("challenger") / len(UNITS)
    assert abs(found - 0.05) < 4 * (0.05 / len(UNITS)) ** 0.5


def test_buckets_are_evenly_filled():
    counts = np.bincount(buckets_of(unit_numbers(UNITS)), minlength=BUCKETS)

    expected = len(UNITS) / BUCKETS
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - BUCKETS) < 5 * (2 * BUCKETS) ** 0.5


@pytest.mark.parametrize("grown", [{"challenger": 0.2, "raw": 0.01}, {"challenger": 0.05}])
def test_no_unit_moves_without_need(grown):
    before, after = Split("spring", SHARES).arms, Split("spring", grown).arms

    challengers = before == ARMS.index("challenger")
    assert (after[challengers] == ARMS.index("challenger")).all()


def test_salts_deal_independently():
    one, other = Split("spring", SHARES).arms, Split("autumn", SHARES).arms

    both = int(((one == 1) & (other == 1)).sum())
    assert both < 30  # 205 * 205 / 4096 is 10


def test_no_bucket_has_two_arms():
    split = Split("s", {"challenger": 0.5, "raw": 0.5})

    assert np.bincount(split.arms).tolist() == [0, 2048, 2048]


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"champion": 0.5}, "shares.champion: the arms with a share are challenger and raw"),
        ({"raw": -0.1}, r"shares.raw = -0.1: must be in \[0, 1\]"),
        ({"raw": float("nan")}, r"shares.raw = nan: must be in \[0, 1\]"),
        ({"raw": 0.6, "challenger": 0.5}, "must be at most 1 together"),
    ],
)
def test_other_shares_are_refused(shares, said):
    with pytest.raises(ValueError, match=said):
        Split("s", shares)
