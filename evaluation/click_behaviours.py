"""What users of the synthetic platform are like before a click, and do in the hour after it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrators.samples import Floats
from pccem import Categorical, Column

POST_CLICK_SECONDS = 3600.0

_DEVICES = ("desktop", "phone", "tablet")
_DEVICE_SHARES = (0.35, 0.55, 0.10)
_DEVICE_APPEAL = np.array([1.1, -0.75, 0.275])
"""Mean 0 and variance about .75 over the shares."""

_PAST_RATE = 0.8
_UNKNOWN_SHARE = 0.2
_UNTRACKED_SHARE = 0.1
_INTENT_OF_SIGNAL = 0.5
"""How much of what draws a user to click also shows in what they do afterwards."""


@dataclass(frozen=True, slots=True, eq=False)
class Visitors:
    """n users at the moment of their click.

    `signal`, (n,), standard normal or nearly so, is all that a score can know; `features` are the
    part of it that the click event carries.
    """

    signal: Floats
    features: Mapping[str, Column]


def draw_visitors(n: int, rng: np.random.Generator) -> Visitors:
    """n users: device, purchases of the past (unknown for a fifth) and price tell some of it."""
    devices = rng.choice(len(_DEVICES), n, p=_DEVICE_SHARES).astype(np.int32)
    past = rng.poisson(_PAST_RATE, n).astype(np.float64)
    price = rng.normal(0.0, 1.0, n)
    standing = (past - _PAST_RATE) / np.sqrt(_PAST_RATE)
    told = 0.4 * _DEVICE_APPEAL[devices] + 0.4 * standing - 0.3 * price
    signal = told + 0.78 * rng.normal(0.0, 1.0, n)
    known = np.where(rng.random(n) < _UNKNOWN_SHARE, np.nan, past)
    features: dict[str, Column] = {
        "feature.device": Categorical(devices, _DEVICES),
        "feature.past_purchases": known,
        "feature.price": np.exp(3.0 + 0.8 * price),
    }
    return Visitors(signal, features)


def draw_behaviours(
    signal: Floats, revealed: Floats, delay: Floats, rng: np.random.Generator
) -> dict[str, Column]:
    """The paper's five behaviours of the first hour, (n,) each, driven by intent.

    Intent = .5 signal + revealed. A count of 0 is missing: no such event ever came. A tenth of the
    users cannot be tracked and miss all but purchases, which the shop itself reports: the
    conversions of the hour, and a few orders of something else.
    """
    n = len(signal)
    intent = _INTENT_OF_SIGNAL * signal + revealed
    tracked = rng.random(n) >= _UNTRACKED_SHARE
    seconds = np.exp(4.0 + 0.5 * intent + 0.8 * rng.normal(0.0, 1.0, n))
    converted = np.asarray(delay < POST_CLICK_SECONDS, np.int64)
    return {
        "behaviour.session_seconds": _seen(np.minimum(seconds, POST_CLICK_SECONDS), tracked),
        "behaviour.page_views": _seen(1 + _count(0.3 + 0.5 * intent, rng), tracked),
        "behaviour.add_to_cart": _seen(_count(-2.2 + 0.8 * intent, rng), tracked),
        "behaviour.favorites": _seen(_count(-3.0 + 0.6 * intent, rng), tracked),
        "behaviour.purchases": _seen(converted + _count(-5.5 + 0.5 * intent, rng)),
    }


def _count(log_rate: Floats, rng: np.random.Generator) -> Floats:
    return rng.poisson(np.exp(log_rate)).astype(np.float64)


def _seen(values: Floats, tracked: np.ndarray | bool = True) -> Floats:
    return np.where((values > 0) & tracked, values, np.nan)
