"""Families of campaigns: a mixture of a few parent curves, where one is not enough.

Some campaigns may sell to other people, or stand in other places, than the rest, and all scores of
theirs err in another way. Then campaigns are better drawn to the curve of their own kind than to
one between the kinds. Families are the components of a normal mixture of the campaigns' deviations,
whose number the evidence decides.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from calibrators.peers import ALONE, Peers
from calibrators.samples import Floats, Integers

MOST = 4
"""Families."""

COORDINATES = 4
"""Of a deviation, those that families are told by: level, slope, and the two longest waves."""

_LEARNT_FROM = 256
"""Campaigns, those of which most is known."""

_AT_ONCE = 16 * 1024
"""Campaigns of which it is looked at once whose they are."""

_LEAST_SHARE, _FEWEST = 0.1, 8.0
"""Of the campaigns in a family, and campaigns: less are outliers, not a family."""

_ROUNDS, _PRIOR_ODDS = 12, 6.0
_SMALLEST, _LARGEST = 1e-4, 1e3
"""Variances of deviations. Where some campaigns have no positives and all others nothing else, the
likeliest is without bound."""

_SURE = 0.9
"""Probability with which a campaign is another family's than it was before it changes."""


class Deviations(NamedTuple):
    """What the bins of n campaigns say of their deviations from the target's curve: likelihoods
    exp(pull x - x information x / 2), (n, d) and (n, d, d)."""

    pulls: Floats
    information: Floats

    @classmethod
    def at_mode(cls, gradients: Floats, information: Floats, modes: Floats) -> Self:
        """From the likelihood's gradients, (n, k), and information, (n, k, k), at these deviations,
        (n, k), whose other coordinates stay as they are."""
        kept = slice(0, COORDINATES)
        matrices = information[:, kept, kept]
        moved = np.einsum("nij,nj->ni", matrices, modes[:, kept])
        # No view of all the coordinates, which are many times as large.
        return cls(gradients[:, kept] + moved, matrices.copy())

    def chosen(self, rows: Integers) -> "Deviations":
        """Those of some campaigns."""
        return Deviations(self.pulls[rows], self.information[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """Normal families of equal spread.

    shares : of the campaigns, (f,), their sum 1; means : of the deviations, (f, d); variances :
        around them, (d,).
    """

    shares: Floats
    means: Floats
    variances: Floats

    @classmethod
    def one(cls, size: int) -> Self:
        """A single family, to begin with."""
        return cls(np.ones(1), np.zeros((1, size)), np.full(size, 0.05))

    def memberships(self, seen: Deviations, known: Floats | None = None) -> tuple[Floats, Floats]:
        """How likely each campaign is of each family, (n, f), and the log marginal likelihoods of
        the campaigns, (n,); `known` are the posterior covariances, where they are."""
        logs = self._logs(seen, self._posterior(seen) if known is None else known)
        largest = logs.max(axis=1, keepdims=True)
        parts: Floats = np.exp(logs - largest)
        total = parts.sum(axis=1, keepdims=True)
        likely: Floats = (largest + np.log(total))[:, 0]
        return np.asarray(parts / total, np.float64), likely

    def _posterior(self, seen: Deviations) -> Floats:
        return np.asarray(np.linalg.inv(seen.information + np.diag(1 / self.variances)), np.float64)

    def _logs(self, seen: Deviations, spreads: Floats) -> Floats:
        prior = self.means / self.variances
        pulls = seen.pulls[:, None] + prior
        squares = ((pulls @ spreads) * pulls).sum(axis=2)
        _, sizes = np.linalg.slogdet(spreads / self.variances)
        own = np.log(self.shares) - (prior * self.means).sum(axis=1) / 2
        return np.asarray(own + squares / 2 + sizes[:, None] / 2)

    def fitted(self, seen: Deviations) -> "Families":
        """Where EM's rounds lead from here."""
        found = self
        for _ in range(_ROUNDS):
            spreads = found._posterior(seen)
            found = found.updated(seen, found.memberships(seen, spreads)[0], spreads)
        return found

    def updated(
        self, seen: Deviations, memberships: Floats, known: Floats | None = None
    ) -> "Families":
        """One round of EM, given how likely each campaign is of each family, (n, f)."""
        spreads = self._posterior(seen) if known is None else known
        modes = np.einsum(
            "nij,nfj->nfi", spreads, seen.pulls[:, None] + self.means / self.variances
        )
        held = memberships.sum(axis=0) + np.finfo(float).tiny
        means = np.einsum("nf,nfi->fi", memberships, modes) / held[:, None]
        squares = np.einsum("nf,nfi->i", memberships, (modes - means) ** 2)
        own = squares + np.einsum("nii->i", spreads)
        variances = np.clip(own / max(len(memberships), 1), _SMALLEST, _LARGEST)
        return Families(held / held.sum(), means, variances)

    def split(self, seen: Deviations) -> "Families":
        """One family more: the largest is cut in two, along the direction in which the deviations
        of its campaigns differ most, for what they are known to."""
        memberships, _ = self.memberships(seen)
        family = int(np.argmax(self.shares))
        spreads = self._posterior(seen)
        modes = np.einsum("nij,nj->ni", spreads, seen.pulls) / np.sqrt(self.variances)
        centred = modes - memberships[:, family] @ modes / memberships[:, family].sum()
        weighted = centred * memberships[:, family, None]
        _, _, directions = np.linalg.svd(weighted, full_matrices=False)
        behind = (weighted @ directions[0] > 0).astype(np.float64)
        parts = np.column_stack((memberships, np.zeros(len(modes))))
        parts[:, -1] = memberships[:, family] * behind
        parts[:, family] -= parts[:, -1]
        more = np.vstack((self.means, self.means[family]))
        return Families(np.append(self.shares, 0.0), more, self.variances).updated(seen, parts)

    def evidence(self, seen: Deviations) -> float:
        """Log marginal likelihood of the campaigns, less what the families' parameters cost
        (Schwarz, Annals of Statistics 6, 1978), in nats; none where a family is too small."""
        count, size = self.means.shape
        campaigns = len(seen.pulls)
        if count > 1 and min(self.shares) < max(_LEAST_SHARE, _FEWEST / max(campaigns, 1)):
            return -np.inf
        cost = (count - 1) * (size + 1) / 2 * np.log(max(campaigns, 1))
        return float(self.memberships(seen)[1].sum() - cost)


def family_names(count: int) -> tuple[str, ...]:
    """What so many families are called."""
    return tuple(f"family {number}" for number in range(1, count + 1))


def find_families(
    seen: Deviations, before: Integers, peers: Peers = ALONE
) -> tuple[Families, Floats, Integers]:
    """The families of n campaigns, how likely each campaign is of each, (n, f), and whose it is,
    (n,), -1 where there is but one.

    before : the family of each campaign at the last refit, -1 for none. Those families stay while
    there is any evidence for them, and a campaign stays with its own until it is another's with
    nine to one; a new family needs 6 nats.
    """
    *columns, earlier = peers.joined(*_most_known(seen, before))
    *columns, earlier = _most_known(Deviations(*columns), earlier)
    found = _families(Deviations(*columns), earlier)
    if len(found.shares) == 1:
        return found, np.ones((len(before), 1)), np.full(len(before), -1)
    spans = np.array_split(np.arange(len(before)), -(-max(len(before), 1) // _AT_ONCE))
    memberships = np.vstack([found.memberships(seen.chosen(rows))[0] for rows in spans])
    likeliest = np.argmax(memberships, axis=1)
    kept = (before >= 0) & (before < len(found.shares))
    kept &= memberships[np.arange(len(before)), likeliest] < _SURE
    return found, memberships, np.where(kept, before, likeliest)


def _most_known(seen: Deviations, before: Integers) -> tuple[Floats, Floats, Integers]:
    """Of the campaigns that families are learnt from."""
    known = np.trace(seen.information, axis1=1, axis2=2)
    rows = np.sort(np.argsort(-known, kind="stable")[:_LEARNT_FROM])
    return *seen.chosen(rows), before[rows]


def _families(seen: Deviations, before: Integers) -> Families:
    single = Families.one(seen.pulls.shape[1])
    if len(seen.pulls) < 2 * _FEWEST:
        return single
    best, count = single.fitted(seen), int(before.max(initial=-1)) + 1
    # Against as many rounds more of what there is: rounds alone are no evidence for another family.
    if count > 1:
        again = _remembered(best, seen, before, count)
        best = again if again.evidence(seen) > best.fitted(seen).evidence(seen) else best
    while len(best.shares) < MOST:
        more = best.split(seen).fitted(seen)
        if more.evidence(seen) <= best.fitted(seen).evidence(seen) + _PRIOR_ODDS:
            break
        best = more
    return best


def _remembered(single: Families, seen: Deviations, before: Integers, count: int) -> Families:
    """Families that begin with those of the last refit."""
    parts = (before[:, None] == np.arange(count)) * 1.0
    parts[before < 0] = 1 / count
    means = np.tile(single.means, (count, 1))
    shares = np.full(count, 1 / count)
    return Families(shares, means, single.variances).updated(seen, parts).fitted(seen)
