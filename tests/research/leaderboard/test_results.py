"""What a contest found: merging, JSON, ratios and their intervals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from research.leaderboard import TRUTH, Played, play
from tests.research.leaderboard.tiny import TINY, Fixed, log_of


def one(seed: int, *contenders: Fixed) -> Played:
    options = {"first_judged": 20, "judged_hours": 8, "seed": seed}
    return play(TINY, contenders, **options)


@pytest.fixture(scope="module")
def found() -> Played:
    """Two contenders, one of them a fifth too high, over two rounds."""
    parts = [one(seed, Fixed(), Fixed("more", factor=1.2)) for seed in (0, 1)]
    return Played.merge(parts)


def test_json_gives_back_what_it_was_given(found: Played) -> None:
    again = Played.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))

    assert again.to_json() == found.to_json()
    assert again.seeds == (0, 1)
    assert again.notes == {"fixed": "knows nothing", "more": "knows nothing"}
    for name in (*found.contenders, TRUTH):
        assert again.log_loss(name) == pytest.approx(found.log_loss(name))
        assert again.gc_3_true(name) == pytest.approx(found.gc_3_true(name), abs=1e-8)


def test_what_is_undefined_is_null_in_json(found: Played) -> None:
    data = found.to_json()
    data["rounds"][0]["sums"]["fixed"]["floors"][0] = None

    assert np.isnan(Played.from_json(data).floor("fixed"))
    again = Played.from_json(data).to_json()
    assert again["rounds"][0]["sums"]["fixed"]["floors"][0] is None


def test_merging_means_over_all_impressions(found: Played) -> None:
    parts = [one(seed, Fixed(), Fixed("more", factor=1.2)) for seed in (0, 1)]
    weights = [part.impressions for part in parts]

    assert found.impressions == sum(weights)
    assert found.positives == sum(part.positives for part in parts)
    assert found.campaigns == sum(part.campaigns for part in parts)
    assert found.excess("more") == pytest.approx(
        np.average([part.excess("more") for part in parts], weights=weights)
    )
    assert len(found.curve("more")) == 8


def test_who_is_absent_from_one_round_is_absent_from_all() -> None:
    here = one(0, Fixed(), Fixed("more"))
    left = Played(("fixed",), one(1, Fixed()).rounds, {}, {"more": "had to go"})

    merged = Played.merge([here, left])

    assert merged.contenders == ("fixed",)
    assert merged.absent == {"more": "had to go"}
    with pytest.raises(ValueError, match="at least one"):
        Played.merge([])


def test_differences_and_ratios_come_with_intervals(found: Played) -> None:
    difference = found.compare("more", "fixed")
    ratio = found.compare("more", "fixed", ratio=True)

    assert difference.value == pytest.approx(found.excess("more") - found.excess("fixed"))
    assert ratio.value == pytest.approx(found.excess("more") / found.excess("fixed"))
    for each in (difference, ratio):
        assert each.lower <= each.value <= each.upper
        assert each.lower < each.upper
    assert (difference.sign > 0) == (ratio.lower > 1.0)


def test_an_interval_is_that_of_blocks_drawn_again(found: Played) -> None:
    """Both sides see the same draw of whole campaign-days."""
    names = ("more", "fixed")
    a, b = (np.concatenate([r.sums[n].excess for r in found.rounds]) for n in names)
    counts = np.concatenate([r.counts for r in found.rounds])
    rng = np.random.default_rng(5)
    rows = rng.integers(len(counts), size=(4_000, len(counts)))
    drawn = (a[rows].sum(1) - b[rows].sum(1)) / counts[rows].sum(1)

    found_error = found.compare("more", "fixed", draws=4_000).standard_error

    assert found_error == pytest.approx(drawn.std(), rel=0.1)


def test_a_contender_does_not_differ_from_itself(found: Played) -> None:
    difference, ratio = (found.compare("more", "more", ratio=ratio) for ratio in (False, True))

    assert (difference.lower, difference.value, difference.upper) == (0.0, 0.0, 0.0)
    assert (ratio.lower, ratio.value, ratio.upper) == (1.0, 1.0, 1.0)
    assert found.compare_log_loss("more", "more").value == 0.0


def test_errors_are_compared_over_campaigns(found: Played) -> None:
    compared = found.compare_errors("more", "fixed")
    ratio = found.compare_errors("more", "fixed", ratio=True)

    assert compared.value == pytest.approx(found.gc_3_true("more") - found.gc_3_true("fixed"))
    assert ratio.value == pytest.approx(found.gc_3_true("more") / found.gc_3_true("fixed"))


def test_without_truth_log_loss_and_observed_errors_are_compared() -> None:
    table, _ = log_of(TINY, 28)
    options = {"first_judged": 20, "judged_hours": 8}
    found = play(table, [Fixed(), Fixed("more", factor=1.2)], **options)

    loss = found.log_loss("more") - found.log_loss("fixed")
    assert found.compare("more", "fixed").value == pytest.approx(loss)
    error = found.gc_3("more") - found.gc_3("fixed")
    assert found.compare_errors("more", "fixed").value == pytest.approx(error)
    assert found.curve("more") != found.curve("fixed")


def test_without_campaigns_of_enough_positives_there_is_no_gc_3() -> None:
    platform = replace(TINY, impressions_per_hour=30.0)
    found = play(platform, [Fixed()], first_judged=20, judged_hours=1)

    assert found.campaigns == 0
    assert np.isnan(found.gc_3("fixed"))
    assert np.isnan(found.compare_errors("fixed", "fixed").value)
