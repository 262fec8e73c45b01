"""Look-up of raw scores in calibration maps, in nanoseconds of CPU per value.

`scalar` is one score at a time by `Atlas.at`. A batch mixes all of 10,000 campaigns, whose maps
have the same knots, as those of `pooled`; other rows mix fewer or more campaigns, or one, or have
maps with knots of their own, as those of `sir`. `all` is what a caller pays who has names of
campaigns; of it, `rows` finds the rows of the names and `look-up` the probabilities; `look-up in
numpy` is what takes the place of the compiled one where no compiler was. A handful is looked up as
lists (`few`) or as arrays (`many`): where they cross is the `FEW` of calibrators/maps/atlas.py.
The alternatives keep one map per campaign in a dict, and call numpy.interp, scikit-learn's
`IsotonicRegression.predict` or netcal's `transform` once per campaign of the batch; netcal in an
environment of its own, in which one model stands for all. All but netcal's give the same
probabilities.

    python -m benchmarks look_up [--json]
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Self
from unittest.mock import patch

import numpy as np
from sklearn.isotonic import IsotonicRegression

from benchmarks.core.traffic import campaign_names, random_atlas, random_scores
from benchmarks.figures import Cell, Figure, Table
from benchmarks.parts import Part
from benchmarks.peers.baselines import interpolated, models_of, predicted
from benchmarks.peers.calibrator import PeerCalibrator, PeerFailed
from benchmarks.peers.environments import NotInstalled
from benchmarks.timing import interleaved
from calibrators import Atlas, CalibrationMap
from calibrators.samples import Floats

NETCAL_SEED, NETCAL_SAMPLES = 4, 5_000
ROUNDS = 3


class Netcal:
    """One fitted model in its own process; where there is none, the reason stands in the cells."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._peer: PeerCalibrator | None = None
        self._reason = ""

    def __enter__(self) -> Self:
        rng = np.random.default_rng(NETCAL_SEED)
        scores = rng.random(NETCAL_SAMPLES)
        outcomes = (rng.random(NETCAL_SAMPLES) < scores).astype(np.float64)
        try:
            self._peer = self._opened.enter_context(PeerCalibrator("netcal"))
            self._peer.fit("isotonic", scores, outcomes)
        except (NotInstalled, PeerFailed) as error:
            self._peer, self._reason = None, str(error)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def nanoseconds(self, scores: Floats, counts: Sequence[int]) -> Cell:
        """CPU per value when the scores come in calls of so many."""
        if self._peer is None:
            return self._reason
        try:
            seconds = [self._peer.look_up(scores, counts)[0] for _ in range(ROUNDS)]
        except PeerFailed as failed:
            self._peer, self._reason = None, str(failed)
            return self._reason
        return Figure.of(seconds).times(1e9 / len(scores))


SEED = 11
SCALARS = 1000


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    batches: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
    handfuls: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64)
    others: tuple[int, ...] = (1, 10, 100, 1_000, 100_000)
    other_batch: int = 10_000
    own_knots: tuple[int, ...] = (100, 1_000, 10_000)
    budget_seconds: float = 0.5
    netcal: bool = True


@dataclass(frozen=True)
class Kept:
    """An atlas, the same not compiled, and the maps of campaigns that were asked for in two other
    forms."""

    atlas: Atlas
    plain: Atlas
    maps: dict[str, CalibrationMap] = field(default_factory=dict)
    models: dict[str, IsotonicRegression] = field(default_factory=dict)

    @classmethod
    def of(cls, atlas: Atlas) -> Self:
        """Of the atlas."""
        modules = ("calibrators.maps.look_up", "calibrators.names")
        with patch(f"{modules[0]}.compiled", None), patch(f"{modules[1]}.compiled", None):
            return cls(atlas, Atlas.from_bytes(atlas.to_bytes()))

    def batch(self, size: int, rng: np.random.Generator) -> "Batch":
        """Log-uniform scores of uniformly drawn campaigns."""
        names = campaign_names(len(self.atlas))
        campaigns = [names[place] for place in rng.integers(0, len(names), size).tolist()]
        missing = dict.fromkeys(name for name in campaigns if name not in self.maps)
        maps = {name: self.atlas.map_of(name) for name in missing}
        self.maps.update(maps)
        self.models.update(models_of(maps))
        scores = random_scores(size, rng)
        return Batch(self.atlas, self.plain, campaigns, scores, self.maps, self.models)


@dataclass(frozen=True)
class Batch:
    """Scores to look up, and the maps they need in four forms."""

    atlas: Atlas
    plain: Atlas
    campaigns: list[str]
    listed: list[float]
    maps: Mapping[str, CalibrationMap]
    models: Mapping[str, IsotonicRegression]

    @property
    def scores(self) -> Floats:
        """The scores, shape (n,)."""
        return np.array(self.listed)

    @property
    def counts(self) -> list[int]:
        """How many scores each campaign of the batch has."""
        return list(Counter(self.campaigns).values())


Ways = dict[str, Callable[[], object]]


def measure(sizes: Sizes | None = None) -> Table:
    """A row for one score at a time, one for each batch, and those of other maps."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng(SEED)
    kept = Kept.of(random_atlas(sizes.campaigns, SEED))
    opened: AbstractContextManager[Netcal | None] = Netcal() if sizes.netcal else nullcontext()
    with opened as netcal:
        batch = kept.batch(SCALARS, rng)
        rows: Table = {"scalar": _row(_scalar_ways(batch), [1] * SCALARS, batch, sizes, netcal)}
        for size in sizes.batches:
            batch = kept.batch(size, rng)
            rows[f"batch of {size:,}"] = _batch_row(batch, sizes, netcal)
        for size in sizes.handfuls:
            ways = _handful_ways(kept.batch(size, rng))
            rows[f"{size} as lists"] = _nanoseconds(interleaved(ways, sizes.budget_seconds), size)
        for campaigns in sizes.others:
            batch = Kept.of(random_atlas(campaigns, SEED)).batch(sizes.other_batch, rng)
            title = "one map" if campaigns == 1 else f"{campaigns:,} campaigns"
            rows[f"{sizes.other_batch:,} of {title}"] = _batch_row(batch, sizes, netcal)
        kept = Kept.of(random_atlas(sizes.campaigns, SEED, own_knots=True))
        for size in sizes.own_knots:
            batch = kept.batch(size, rng)
            rows[f"own knots, batch of {size:,}"] = _batch_row(batch, sizes, netcal)
    return rows


def _batch_row(batch: Batch, sizes: Sizes, netcal: Netcal | None) -> Mapping[str, Cell]:
    _check_agreement(batch)
    return _row(_batch_ways(batch), batch.counts, batch, sizes, netcal)


def _row(
    ways: Ways, counts: Sequence[int], batch: Batch, sizes: Sizes, netcal: Netcal | None
) -> Mapping[str, Cell]:
    row: dict[str, Cell] = {
        **_nanoseconds(interleaved(ways, sizes.budget_seconds), len(batch.listed))
    }
    if netcal is not None:
        row["netcal"] = netcal.nanoseconds(batch.scores, counts)
    return row


def _nanoseconds(seconds: Mapping[str, Figure], values: int) -> dict[str, Figure]:
    return {name: figure.times(1e9 / values) for name, figure in seconds.items()}


def _scalar_ways(batch: Batch) -> Ways:
    atlas, maps, models = batch.atlas, batch.maps, batch.models
    asked = list(zip(batch.campaigns, batch.listed, strict=True))
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


def _batch_ways(batch: Batch) -> Ways:
    atlas, campaigns, scores = batch.atlas, batch.campaigns, batch.scores
    rows = atlas.rows(campaigns)
    return {
        "sirocco: all": lambda: atlas(campaigns, scores),
        "sirocco: rows": lambda: atlas.rows(campaigns),
        "sirocco: look-up": lambda: atlas.look_up(rows, scores),
        "sirocco: look-up in numpy": lambda: batch.plain.look_up(rows, scores),
        "numpy.interp": lambda: interpolated(batch.maps, campaigns, scores),
        "scikit-learn": lambda: predicted(batch.models, campaigns, scores),
    }


def _handful_ways(batch: Batch) -> Ways:
    atlas, names, listed = batch.atlas, batch.campaigns, batch.listed
    return {
        "sirocco: few": lambda: atlas.look_up_few(atlas.few_rows(names), listed),
        "sirocco: many": lambda: atlas.look_up(atlas.rows(names), np.array(listed)).tolist(),
    }


def _check_agreement(batch: Batch) -> None:
    """A faster way to something else would be no comparison."""
    scores, first = batch.scores[:1000], batch.campaigns[:1000]
    expected = interpolated(batch.maps, first, scores)
    np.testing.assert_allclose(batch.atlas(first, scores), expected, atol=1e-9)
    np.testing.assert_allclose(predicted(batch.models, first, scores), expected, atol=1e-9)


PART = Part("look_up", "Look-up, ns of CPU per value", __doc__, measure)
