"""Families of campaigns are found where campaigns differ in kind, and kept from refit to refit."""

from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from calibrators import Fitted, History
from calibrators.pooled import Pooled
from calibrators.pooled.families import Deviations, Families, find_families
from calibrators.pooled.window import Memory
from calibrators.samples import Floats
from tests.calibrators.pooled.pooled_traffic import drawn_hours, history

STEEP = np.tile([0.4, -0.4], 16)


def past(slopes: Floats, seed: int = 0) -> History:
    """32 campaigns of plenty of traffic whose levels differ a little."""
    levels = np.random.default_rng(9).normal(0, 0.1, len(slopes))
    return history(
        drawn_hours(list(levels), [150] * len(slopes), slopes=list(slopes), seed=seed, centre=-2.0)
    )


@cache
def of_two_kinds() -> Fitted:
    return Pooled().refit(past(STEEP))


def families_of(memory: object) -> dict[str, int]:
    assert isinstance(memory, Memory)
    return dict(memory.families or {})


def test_two_kinds_of_campaigns_are_two_families():
    found = np.array(list(families_of(of_two_kinds().memory).values()))
    assert set(found.tolist()) == {0, 1}
    first = found[0]
    assert np.mean((found == first) == (STEEP[0] == STEEP)) > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_campaigns_of_one_kind_are_no_families(seed):
    """However far their slopes scatter around one."""
    slopes = np.random.default_rng(seed).normal(0, 0.3, 32)

    fitted = Pooled().refit(past(slopes, seed))

    assert families_of(fitted.memory) == {}
    assert fitted.notes["groups"] == 0


@pytest.mark.parametrize("known", [100.0, 1000.0])
def test_campaigns_without_deviations_are_no_families(known):
    """Of which bins tell two coordinates together alone, as waves where few knots have scores: EM
    has long not ended, and ends none the sooner with two families."""
    rng = np.random.default_rng(1)
    alike = np.full((4, 4), 0.9) + 0.1 * np.eye(4)
    information = known * rng.uniform(0.5, 2.0, (256, 1, 1)) * alike
    pulls = np.einsum("nij,nj->ni", np.linalg.cholesky(information), rng.normal(size=(256, 4)))
    seen = Deviations(pulls, information)

    for before in (np.full(256, -1), np.arange(256) % 2):
        found, _, rows = find_families(seen, before)
        assert len(found.shares) == 1
        assert (rows == -1).all()


def test_campaigns_stay_with_their_family_from_refit_to_refit():
    first = of_two_kinds()
    second = Pooled().refit(past(STEEP, seed=1), memory=first.memory)

    assert families_of(second.memory) == families_of(first.memory)


def test_families_end_where_their_kinds_do():
    first = of_two_kinds()
    second = Pooled().refit(past(0 * STEEP, seed=1), memory=first.memory)

    assert families_of(first.memory)
    assert families_of(second.memory) == {}


def test_named_groups_are_the_groups_whatever_kinds_there_are():
    fitted = Pooled(groups=lambda name: "odd" if int(name[1:]) % 3 else "even").refit(past(STEEP))

    assert families_of(fitted.memory) == {}
    assert fitted.notes["groups"] == 2


def drawn(campaigns: int, seed: int, apart: float) -> tuple[Deviations, Floats, Floats]:
    """Normal likelihoods of deviations of two kinds, what was seen of them, and its variances."""
    rng = np.random.default_rng(seed)
    centres = np.where(rng.random(campaigns)[:, None] < 0.5, apart, -apart) * [1.0, 0.5]
    noise = rng.uniform(0.01, 0.3, (campaigns, 2))
    seen = centres + rng.normal(0, 0.1, (campaigns, 2)) + rng.normal(0, 1, noise.shape) * noise**0.5
    information = np.einsum("ni,ij->nij", 1 / noise, np.eye(2))
    return Deviations(seen / noise, information), seen, noise


def test_memberships_are_those_of_the_normal_mixture():
    """Bayes' rule with scipy's densities of what was seen of each campaign."""
    seen, values, noise = drawn(12, 0, 0.5)
    families = Families(
        np.array([0.3, 0.7]), np.array([[0.4, 0.2], [-0.5, 0.0]]), np.array([0.02, 0.05])
    )
    found, marginal = families.memberships(seen)

    for row, (value, variances) in enumerate(zip(values, noise, strict=True)):
        spread = np.diag(families.variances + variances)
        logs = [
            np.log(share) + multivariate_normal(mean, spread).logpdf(value)
            for share, mean in zip(families.shares, families.means, strict=True)
        ]
        assert found[row] == pytest.approx(np.exp(logs - logsumexp(logs)))
        # Densities of what was seen are likelihoods but for a constant of the noise.
        own = multivariate_normal(value, np.diag(variances)).logpdf(np.zeros(2))
        assert marginal[row] == pytest.approx(logsumexp(logs) - own)


def test_no_round_of_em_makes_the_campaigns_less_likely():
    seen, _, _ = drawn(60, 1, 0.5)
    families = Families.one(2).split(seen)
    likely = []
    for _ in range(10):
        likely.append(families.memberships(seen)[1].sum())
        families = families.updated(seen, families.memberships(seen)[0])

    assert (np.diff(likely) > -1e-9).all()


def test_a_campaign_changes_its_family_only_where_it_is_sure():
    """One that is as likely of either stays where it was."""
    seen, _, _ = drawn(60, 2, 0.6)
    unknown = Deviations(
        np.vstack((seen.pulls, [0.0, 0.0])), np.concatenate((seen.information, np.zeros((1, 2, 2))))
    )
    _, _, first = find_families(unknown, np.full(61, -1))
    for family in (0, 1):
        _, memberships, rows = find_families(unknown, np.append(first[:-1], family))
        assert rows[-1] == family
        assert memberships[-1].sum() == pytest.approx(1.0)


def test_few_campaigns_are_no_families():
    for campaigns in (0, 1, 15):
        seen, _, _ = drawn(campaigns, 3, 2.0)
        found, memberships, rows = find_families(seen, np.full(campaigns, -1))
        assert len(found.shares) == 1
        assert memberships.shape == (campaigns, 1)
        assert (rows == -1).all()
