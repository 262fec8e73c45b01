"""Look-up of raw scores in the maps of 10,000 campaigns, in nanoseconds of CPU per value.

`scalar` is one score by `Atlas.at`; a batch mixes all campaigns. `all` is what a caller pays who
has names of campaigns; of it, `rows` finds the rows of the names and `look-up` the
probabilities. The alternatives keep one map per campaign in a dict, and call numpy.interp or
scikit-learn's `IsotonicRegression.predict` once per campaign of the batch. All give the same
probabilities.

    python -m benchmarks.look_up [--json]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import IsotonicRegression

from benchmarks.figures import Figure, Table
from benchmarks.isotonic import interpolated, models_of, predicted
from benchmarks.maps import campaign_names, random_maps, random_scores
from benchmarks.parts import Part, main
from benchmarks.timing import BUDGET_SECONDS, interleaved
from calibrators import Atlas, CalibrationMap

SEED = 11
SCALARS = 1000


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    batches: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
    budget_seconds: float = BUDGET_SECONDS


@dataclass(frozen=True)
class Kept:
    """The same maps in three forms."""

    atlas: Atlas
    maps: Mapping[str, CalibrationMap]
    models: Mapping[str, IsotonicRegression]

    @classmethod
    def of(cls, maps: Mapping[str, CalibrationMap]) -> "Kept":
        """Every form of the maps."""
        return cls(Atlas.build(maps), maps, models_of(maps))


Ways = dict[str, Callable[[], object]]


def measure(sizes: Sizes | None = None) -> Table:
    """A row for one score at a time, and one for each size of batch."""
    sizes = sizes or Sizes()
    kept = Kept.of(random_maps(sizes.campaigns, SEED))
    rng = np.random.default_rng(SEED)
    scalar = interleaved(_scalar_ways(kept, rng), sizes.budget_seconds)
    rows: Table = {"scalar": _nanoseconds(scalar, SCALARS)}
    for size in sizes.batches:
        seconds = interleaved(_batch_ways(kept, size, rng), sizes.budget_seconds)
        rows[f"batch of {size:,}"] = _nanoseconds(seconds, size)
    return rows


def _nanoseconds(seconds: Mapping[str, Figure], values: int) -> dict[str, Figure]:
    return {name: figure.times(1e9 / values) for name, figure in seconds.items()}


def _scalar_ways(kept: Kept, rng: np.random.Generator) -> Ways:
    atlas, maps, models = kept.atlas, kept.maps, kept.models
    asked = list(zip(*_batch(kept, SCALARS, rng), strict=True))
    return {
        "sirocco: all": lambda: [atlas.at(campaign, score) for campaign, score in asked],
        "numpy.interp": lambda: [
            float(np.interp(score, maps[campaign].knots, maps[campaign].values))
            for campaign, score in asked
        ],
        "scikit-learn": lambda: [
            float(models[campaign].predict([score])[0]) for campaign, score in asked
        ],
    }


def _batch_ways(kept: Kept, size: int, rng: np.random.Generator) -> Ways:
    campaigns, listed = _batch(kept, size, rng)
    scores = np.array(listed)
    rows = kept.atlas.rows(campaigns)
    _check_agreement(kept, campaigns, listed)
    return {
        "sirocco: all": lambda: kept.atlas(campaigns, scores),
        "sirocco: rows": lambda: kept.atlas.rows(campaigns),
        "sirocco: look-up": lambda: kept.atlas.look_up(rows, scores),
        "numpy.interp": lambda: interpolated(kept.maps, campaigns, scores),
        "scikit-learn": lambda: predicted(kept.models, campaigns, scores),
    }


def _batch(kept: Kept, size: int, rng: np.random.Generator) -> tuple[list[str], list[float]]:
    names = campaign_names(len(kept.maps))
    chosen = rng.integers(0, len(names), size).tolist()
    return [names[place] for place in chosen], random_scores(size, rng)


def _check_agreement(kept: Kept, campaigns: list[str], scores: list[float]) -> None:
    """A faster way to something else would be no comparison."""
    some, first = np.array(scores[:1000]), campaigns[:1000]
    expected = interpolated(kept.maps, first, some)
    np.testing.assert_allclose(kept.atlas(first, some), expected, atol=1e-9)
    np.testing.assert_allclose(predicted(kept.models, first, some), expected, atol=1e-9)


PART = Part("look_up", "Look-up, ns of CPU per value", __doc__, measure)

if __name__ == "__main__":
    main(PART)
