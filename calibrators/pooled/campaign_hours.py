"""Expected and observed positives of campaigns by hour: what levels, change points and outlier
filters are worked out from.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, Integers

SHORTEST = 1 / 12
"""Hours: a running hour that began less than five minutes ago is left out. Its last impressions
wait for their clicks still, and are too large a part of it."""

SPANS = (1, 2, 4, 8)
"""Hours that are tested together: where positives are few, an hour alone says nothing."""


_BLOCK = 4096
"""Campaigns of a block: enough that a step takes longer than its call, and few enough that what it
takes meanwhile are a few MB."""


class CampaignHours(NamedTuple):
    """Positives of c campaigns in h hours, oldest hour first.

    expected : (c, h), the sum of the probabilities that the shape gives, finite, >= 0.
    observed : (c, h), positives, finite, >= 0, may be fractional.
    weights : (c, h) in [0, 1], what each hour counts.
    begun : (c, h) in (0, 1], the probability that the last jump was no later than the hour, of
        which the weight is a part; never falling.
    groups : (c,), the group of each campaign counted from 0, or -1 for none.
    fitted, variances : (c,), the campaign's own level that is in the expected, a log ratio that
        may have been fitted on these very hours, and its variance before that, >= 0.
    """

    expected: Floats
    observed: Floats
    weights: Floats
    begun: Floats
    groups: Integers
    fitted: Floats
    variances: Floats

    @classmethod
    def of(
        cls,
        expected: Floats,
        observed: Floats,
        *,
        groups: ArrayLike | None = None,
        fitted: Floats | None = None,
        variances: Floats | None = None,
    ) -> "CampaignHours":
        """Every hour counts and there was no jump; without groups there are none, without a level
        or variance it is 0."""
        every = np.broadcast_to(1.0, expected.shape)
        rows = np.full(len(expected), -1) if groups is None else np.asarray(groups, np.int64)
        none = np.zeros(len(expected))
        own = (none if given is None else given for given in (fitted, variances))
        return cls(expected, observed, every, every, rows, *own)

    def chosen(self, hours: slice) -> "CampaignHours":
        """The same in some of the hours."""
        return self._replace(
            expected=self.expected[:, hours],
            observed=self.observed[:, hours],
            weights=self.weights[:, hours],
            begun=self.begun[:, hours],
        )

    def blocks(self) -> list["CampaignHours"]:
        """The campaigns in blocks, one at least; views of the tables."""
        firsts = range(0, max(len(self.expected), 1), _BLOCK)
        return [self._rows(slice(first, first + _BLOCK)) for first in firsts]

    def _rows(self, span: slice) -> "CampaignHours":
        return CampaignHours(
            self.expected[span],
            self.observed[span],
            self.weights[span],
            self.begun[span],
            self.groups[span],
            self.fitted[span],
            self.variances[span],
        )


def complete_hours(ages: Floats) -> slice:
    """The hours without one that has only just begun; see `SHORTEST`. ages: (h,), hours from the
    middle of what has passed of each hour to the moment, oldest first."""
    begun = len(ages) and 2 * ages[-1] < SHORTEST - 1e-9
    return slice(0, len(ages) - int(begun))


def starts(ages: Floats) -> Floats:
    """Hours from the start of each hour to the moment, (h,); the newest may be part-filled."""
    return ages + np.minimum(ages, 0.5)


def span_sums(values: Floats, span: int) -> Floats:
    """Sums of `span` hours in turn, (c, h - span + 1); none where there are fewer."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    # Rounding alone makes one negative.
    return np.maximum(sums[:, span:] - sums[:, :-span], 0.0)


def poisson_evidence(expected: Floats, observed: Floats) -> Floats:
    """Half the Poisson deviance, in nats, of what was observed, of one shape."""
    e, y = np.maximum(expected, 1e-12), np.maximum(observed, 1e-12)
    return y * np.log(y / e) - y + e
