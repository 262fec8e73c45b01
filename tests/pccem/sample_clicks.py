"""Clicks whose conversions are driven by what a visitor does, made to order."""

import numpy as np

from pccem import Attribution, Categorical, Clicks, Features, attribute

DAY = 86_400.0
WINDOW = 7 * DAY
AS_OF = 100 * DAY


def sample_features(n: int, seed: int = 0) -> Features:
    """Three numbers, two of them with missing values, and a category that is sometimes missing."""
    rng = np.random.default_rng(seed)
    intent = rng.normal(size=n)
    cart = np.where(rng.random(n) < 0.3, np.nan, (intent + rng.normal(size=n) > 1).astype(float))
    return Features(
        {
            "behaviour.pages": np.floor(np.exp(intent + 0.5 * rng.normal(size=n))),
            "behaviour.cart": cart,
            "feature.age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)),
            "feature.device": Categorical(
                rng.integers(-1, 3, n).astype(np.int32), ("phone", "tablet", "desk")
            ),
        },
        n,
    )


def sample_outcomes(features: Features, seed: int = 0) -> np.ndarray:
    """(n,) booleans; a page view raises the odds, a tablet lowers them."""
    rng = np.random.default_rng(seed + 1)
    pages, device = features.columns["behaviour.pages"], features.columns["feature.device"]
    assert isinstance(device, Categorical)
    assert not isinstance(pages, Categorical)
    log_odds = -3.0 + 1.5 * np.log1p(pages) - 1.0 * (device.codes == 1)
    return rng.random(len(features)) < 1.0 / (1.0 + np.exp(-log_odds))


def sample_clicks(n: int, days: float = 14.0, seed: int = 0) -> Clicks:
    """Clicks spread over the mature days before AS_OF, at whole seconds, in no order."""
    rng = np.random.default_rng(seed + 2)
    times = np.floor(AS_OF - WINDOW - 1.0 - rng.random(n) * (days * DAY - 1.0))
    return Clicks(
        times,
        ("north", "south", "unused"),
        rng.integers(0, 2, n).astype(np.int32),
        rng.beta(2.0, 8.0, n).round(2),
        sample_features(n, seed),
    )


def attributed(clicks: Clicks, converted: np.ndarray, as_of: float = AS_OF) -> Attribution:
    """The attribution of clicks of which these convert a minute later."""
    ids = np.arange(len(clicks))
    return attribute(
        ids,
        clicks.clicked_at,
        ids[converted],
        clicks.clicked_at[converted] + 60.0,
        window=WINDOW,
        as_of=as_of,
    )
