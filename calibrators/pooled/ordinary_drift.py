"""How much a campaign's ratio moves from hour to hour when nothing happens."""

import numpy as np

from calibrators.samples import Floats

STEPS: Floats = np.geomspace(0.01, 0.5, 12)
"""Standard deviations of an hour's step of the log ratio."""

SPANS = (1, 4)
"""Hours that are compared with as many before them: alone, where they scatter; together, where the
ratio goes its way, for a smooth course counts as the steps that it amounts to."""

_USUAL = 0.05
_DOUBT = 0.8
"""The prior of a step: log-normal around the usual one."""

_FREEDOM = 4.0
"""Degrees of freedom of the t density of differences: a few jumps do not make the steps large."""

_FEWEST_EXPECTED = 4.0


def drift_variances(expected: Floats, observed: Floats) -> Floats:
    """The variance of an hour's step of the log ratio, (c,), from positives, (c, h).

    For each of `SPANS` the mode of the posterior over `STEPS`, of which the larger counts.
    """
    usual = -0.5 * (np.log(STEPS / _USUAL) / _DOUBT) ** 2
    places = np.zeros(len(expected), np.int64)
    for span in SPANS:
        fits = [_fit(expected, observed, span, step) for step in STEPS.tolist()]
        places = np.maximum(places, np.argmax(usual[:, None] + fits, axis=0))
    return STEPS[places] ** 2


def _fit(expected: Floats, observed: Floats, span: int, step: float) -> Floats:
    """Log likelihood of the differences of a campaign's spans in turn, (c,), over their overlap."""
    e, y = _spans(expected, span), _spans(observed, span)
    logs, noise = np.log((y + 0.5) / (e + 0.5)), 1 / (e + 0.5)
    between = step**2 * (2 * span**2 + 1) / (3 * span)
    variances = noise[:, span:] + noise[:, :-span] + between
    squares = (logs[:, span:] - logs[:, :-span]) ** 2
    logs_of_t = (_FREEDOM + 1) * np.log1p(squares / (_FREEDOM * variances)) + np.log(variances)
    usable = np.minimum(e[:, span:], e[:, :-span]) >= _FEWEST_EXPECTED
    fits: Floats = -0.5 * np.where(usable, logs_of_t, 0.0).sum(axis=1) / span
    return fits


def _spans(values: Floats, span: int) -> Floats:
    """Sums of `span` hours in turn, (c, h - span + 1); none where there are fewer."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    return sums[:, span:] - sums[:, :-span]
