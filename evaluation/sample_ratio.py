"""Sample ratio: did the arms of a test get the shares of the traffic that they were meant to?"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import chdtrc

from calibrators.samples import Floats

Counted = Literal["units", "impressions"]
SUSPICIOUS = 0.001
"""A p-value below it is a mismatch: one test in a thousand, so that alarms are worth a look."""


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """Sizes of the arms beside what the split promised.

    Attributes
    ----------
    counted : what was counted, "units" or "impressions".
    observed : how many each arm has.
    expected : how many it would have by the split.
    p_value : of the chi-square test: how often chance alone makes sizes that far off.
    """

    counted: Counted
    observed: Mapping[Hashable, int]
    expected: Mapping[Hashable, float]
    p_value: float

    @property
    def mismatch(self) -> bool:
        """Whether the sizes are too far off for chance, p < 0.001: then trust no other number."""
        return self.p_value < SUSPICIOUS


def sample_ratio(
    counted: Counted,
    sizes: Mapping[Hashable, int],
    split: Mapping[Hashable, float] | None,
) -> SampleRatio:
    """The check of two arms or more; without a split they should be of equal size.

    Raises
    ------
    ValueError
        When the split does not name exactly the arms, or a share is not finite and above 0.

    References
    ----------
    Fabijan et al., "Diagnosing sample ratio mismatch in online controlled experiments", KDD 2019.

    Examples
    --------
    >>> check = sample_ratio("units", {"a": 50_500, "b": 49_500}, None)
    >>> round(check.p_value, 4), check.mismatch
    (0.0016, False)
    """
    shares = _shares(sizes, split)
    observed = np.array(list(sizes.values()), float)
    expected = observed.sum() * shares
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return SampleRatio(
        counted,
        dict(sizes),
        dict(zip(sizes, expected.tolist(), strict=True)),
        float(chdtrc(len(sizes) - 1, statistic)),
    )


def _shares(sizes: Mapping[Hashable, int], split: Mapping[Hashable, float] | None) -> Floats:
    if split is None:
        return np.full(len(sizes), 1.0 / len(sizes))
    if split.keys() != sizes.keys():
        listed = ", ".join(sorted(map(repr, sizes)))
        raise ValueError(f"split = {dict(split)}: must name exactly the arms, which are {listed}")
    for arm, share in split.items():
        if not (np.isfinite(share) and share > 0.0):
            raise ValueError(f"split[{arm!r}] = {share}: must be finite and above 0")
    shares = np.array([float(split[arm]) for arm in sizes])
    normed: Floats = shares / shares.sum()
    return normed
