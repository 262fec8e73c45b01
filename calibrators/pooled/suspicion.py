"""Which campaigns are worth the change detector's work."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats

SPANS = (1, 2, 4, 8)
"""Hours, of spans that are held against the campaign's mean; so are all first and all last ones."""

EVIDENCE = 6.0
"""In nats: with less, neither a jump nor an odd hour is more likely than not."""


def suspicious(expected: Floats, observed: Floats) -> NDArray[np.bool_]:
    """Whether any span's positives speak against the campaign's mean ratio, (c,), from positives as
    ratios to that mean, (c, h): a generalised likelihood ratio test of Poisson counts, cheap, and
    easily passed."""
    e, y = (np.cumsum(np.pad(a, ((0, 0), (1, 0))), axis=1) for a in (expected, observed))
    most = (_evidence(e, y) + _evidence(e[:, -1:] - e, y[:, -1:] - y)).max(axis=1)
    for span in SPANS:
        spans = _evidence(e[:, span:] - e[:, :-span], y[:, span:] - y[:, :-span])
        most = np.maximum(most, spans.max(axis=1, initial=0.0))
    found: NDArray[np.bool_] = most > EVIDENCE
    return found


def _evidence(expected: Floats, observed: Floats) -> Floats:
    """Half the Poisson deviance."""
    e, y = np.maximum(expected, 1e-12), np.maximum(observed, 0.0)
    return y * np.log(np.maximum(y, 1e-12) / e) - y + e
