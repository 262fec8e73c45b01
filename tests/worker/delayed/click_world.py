"""Days of clicks whose conversions come within a day, in the click log and as one stream."""

from dataclasses import dataclass

import numpy as np

from app.click_log.log import ClickLog
from app.click_log.rows import ClosedClick
from app.settings import Settings
from app.storage.blocks import StoredConversion
from evaluation.backtest.click_history import ClickStream
from pccem import Categorical, Clicks, Features

DAY = 86_400.0
MIDNIGHT = 17_000 * DAY
WINDOW = DAY
AS_OF = MIDNIGHT + 4 * DAY
NOW = MIDNIGHT + 100 * DAY
TARGET = "conversion"
CAMPAIGNS = ("big", "small")


def delayed_settings(**changes: object) -> Settings:
    """A service whose attribution window is a day, quick to learn, of maps that are known to the
    last bit."""
    values: dict[str, object] = {
        "calibrator": "sir",
        "guard": False,
        # A worker that a test steps has no thread that renews its lease.
        "lease_seconds": 600,
        "attribution_hours": {TARGET: 24},
        "window_hours": 6,
        "training_days": 2,
        "min_training_clicks": 500,
        "bin_size": 50,
        "min_samples": 50,
        "min_positives": 5,
        "fold_seconds": 0.01,
        "training_threads": 1,
    }
    return Settings(**{**values, **changes})


def drawn_stream(hours: int, per_hour: int = 60, seed: int = 1, shift: float = 0.0) -> ClickStream:
    """Clicks from MIDNIGHT on; pages viewed tell who converts, scores promise twice too much.

    `shift` moves the conversion rate of all clicks.
    """
    rng = np.random.default_rng(seed)
    n = hours * per_hour
    times = MIDNIGHT + np.sort(rng.random(n)) * hours * 3600
    intent = rng.normal(size=n)
    truth = 1 / (1 + np.exp(-(-1.2 + shift + 1.5 * intent)))
    scores = np.clip(2 * truth.mean() * np.exp(rng.normal(0, 0.3, n)), 0.001, 0.999)
    delay = np.where(rng.random(n) < truth, rng.exponential(4 * 3600, n) % DAY, np.nan)
    features = Features(
        {
            "behaviour.page_views": np.where(rng.random(n) < 0.1, np.nan, np.exp(intent)),
            "feature.age": rng.integers(18, 70, n).astype(float),
            "feature.device": Categorical(rng.integers(0, 2, n).astype(np.int32), ("app", "web")),
        },
        n,
    )
    rows = (rng.random(n) < 0.3).astype(np.int32)
    return ClickStream(Clicks(times, CAMPAIGNS, rows, scores, features), delay)


@dataclass(frozen=True)
class LoggedStream:
    """Puts a stream into a click log, as closing does."""

    log: ClickLog
    stream: ClickStream

    def write(self, first: float, behind: float, served: float | None = 0.5) -> None:
        """The clicks of [first, behind) with all their conversions; each was served its score
        times `served`."""
        places = range(*self.stream.between(first, behind).indices(len(self.stream)))
        self.log.write_clicks([self._closed(place, served) for place in places])
        converted = [place for place in places if not np.isnan(self.stream.delay[place])]
        self.log.write_conversions([self._conversion(place) for place in converted])

    def _closed(self, place: int, served: float | None) -> ClosedClick:
        clicks = self.stream.clicks
        columns = clicks.features.columns
        device = columns["feature.device"]
        score = float(clicks.scores[place])
        pages = float(columns["behaviour.page_views"][place])
        return ClosedClick(
            f"click-{place}",
            CAMPAIGNS[clicks.rows[place]],
            float(clicks.clicked_at[place]),
            {TARGET: score},
            {
                "age": float(columns["feature.age"][place]),
                "device": device.categories[device.codes[place]],
            },
            {} if np.isnan(pages) else {"page_views": pages},
            {} if served is None else {TARGET: score * served},
        )

    def _conversion(self, place: int) -> StoredConversion:
        at = float(self.stream.clicks.clicked_at[place] + self.stream.delay[place])
        return StoredConversion(f"click-{place}", TARGET, at)
