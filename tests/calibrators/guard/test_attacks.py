"""One campaign under attack, or with a broken tracker, refitted hour by hour behind the guard.

Figures are mean probabilities served over mean truth, against the same hours without the attack.
"""

from functools import cache

import numpy as np
import pytest

from benchmarks.core.attacks import ATTACKED, RESCALED, Attack, Served, play
from calibrators import Method, PerCampaign, SmoothedIsotonic
from calibrators.guard import GuardRules
from calibrators.pooled import Pooled
from evaluation.simulation.ad_platform import Platform

pytestmark = pytest.mark.slow

PLATFORM = Platform(campaigns=20, impressions_per_hour=10_000, ctr=0.02, seed=4)
METHODS: dict[str, Method] = {"sir": PerCampaign(SmoothedIsotonic()), "pooled": Pooled()}
AFTER = 7
FARTHEST = 2 * GuardRules().reach
"""The reach is around what the target's map says of scores up to twice as large."""

LONGEST = {"sir": 24, "pooled": 6}
"""Hours of the longest attack: a refit of all campaigns together takes longer."""

each_method = pytest.mark.parametrize("method", list(METHODS))


@cache
def played(method: str, attack: Attack, hours: int) -> tuple[Served, ...]:
    return tuple(play(METHODS[method], attack, PLATFORM, ATTACKED + hours + AFTER))


def against_calm(method: str, attack: Attack) -> tuple[np.ndarray, np.ndarray]:
    """Of the campaign and of the target, from the attack's first hour on."""
    # Of a model that was replaced, which stays, as many hours as of others after their end.
    hours = 0 if attack.kind == RESCALED else attack.hours
    pairs = zip(
        played(method, attack, hours),
        played(method, Attack("nothing", 0), LONGEST[method]),
        strict=False,
    )
    found = [(one.campaign / other.campaign, one.target / other.target) for one, other in pairs]
    own, target = np.array(found[ATTACKED - 24 :]).T
    return own, target


@pytest.mark.parametrize("kind", ["all clicks", "no clicks"])
def test_an_hour_moves_the_campaign_by_a_step_at_most(kind):
    own, target = against_calm("sir", Attack(kind, 1))

    assert own.min() > 1 / 3.2
    assert own.max() < 3.2
    assert np.abs(np.log(target)).max() < np.log(1.5)


@pytest.mark.parametrize(("method", "hours"), [("sir", 6), ("sir", 24), ("pooled", 6)])
def test_however_long_all_is_clicks_the_campaign_stays_in_reach(method, hours):
    """And the target's map, which serves the others, stays where it is. The first hour moves the
    campaign by a step. Afterwards the way back is three refits: one to see it, and the reach is
    three steps wide; then the target's map or better serves."""
    own, target = against_calm(method, Attack("all clicks", hours))

    assert own[1] < 3.2
    assert np.abs(np.log(target[:2])).max() < np.log(1.5)
    assert own.max() < FARTHEST * 1.5
    assert target.max() < 2.0
    assert own[hours + 5] < 3.0
    assert own[-1] < 2.5


def test_constant_scores_pass():
    """Two hours after their end the campaign is as before, and the target's map never moves."""
    own, target = against_calm("sir", Attack("constant scores", 6))

    assert np.abs(np.log(own)).max() < np.log(5.0)
    assert np.abs(np.log(own[8:])).max() < np.log(1.5)
    assert np.abs(np.log(target)).max() < np.log(1.3)


@each_method
def test_a_replaced_model_is_followed(method):
    """Scores times 5: off by a factor of 5 at first, by less than 2.5 from the third refit on."""
    own, target = against_calm(method, Attack(RESCALED, AFTER))

    assert own[0] > 3.0
    assert own[3:AFTER].max() < 2.5
    assert target[3:AFTER].max() < 2.5


def test_without_the_guard_it_is_worse():
    """The tests above would fail: the campaign is off twice as far, its target too."""
    attack = Attack("all clicks", 6)
    plain = play(METHODS["sir"], attack, PLATFORM, attack.end + AFTER, guarded=False)
    guarded = played("sir", attack, 6)

    assert plain[-1].campaign > 5 * guarded[-1].campaign
    assert max(each.target for each in plain) > 1.8
