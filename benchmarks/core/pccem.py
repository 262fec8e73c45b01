"""The post-click model and its labels, without any storage, from 0.1 to 1 million clicks.

Clicks are those of `evaluation.ClickPlatform`: 8 campaigns, 14 days, 5 behaviours, 3 features,
conversions within 7 days. Training is on mature clicks, on two threads, with the checks that decide
about a publish; `grown` is what its peak adds to the memory of the process; of more than 2,000,000
clicks a sample is taken. All else is on one thread. `join` is `pccem.attribute`. `delays` is the
fit of the delay distribution as of the end of the log, when half of the clicks are not mature, and
its error the largest at any delay, against the share that came in the end. `label` turns scores
into expected conversions, drift correction included. `--large` adds 10 million clicks.

The alternatives: LightGBM's own `train` and `predict` on a ready matrix of numbers, with the same
parameters and rounds; and for delays the empirical distribution of mature clicks alone.

    python -m benchmarks pccem [--large] [--json]
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

import lightgbm
import numpy as np

from benchmarks.core.traffic import ATTRIBUTION_SECONDS, HOUR, Span
from benchmarks.figures import Cell, Figure, Table, transposed
from benchmarks.machine import peak_bytes, release_free_memory, reset_peak, resident_bytes
from benchmarks.parts import Part
from benchmarks.timing import BUDGET_SECONDS, interleaved
from calibrators.samples import Floats
from pccem import (
    Attribution,
    Categorical,
    DelayDistribution,
    Features,
    LabelRules,
    PostClickModel,
    Training,
    TrainingRules,
    label,
    train,
)
from pccem.model import Boosting

Row = dict[str, Cell]

DAYS = 14
THREADS = 2
RULES = TrainingRules(num_threads=THREADS, post_click=HOUR)
_GRID = np.geomspace(60.0, ATTRIBUTION_SECONDS, 200)


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    clicks: tuple[int, ...] = (100_000, 1_000_000)
    budget_seconds: float = BUDGET_SECONDS
    rules: TrainingRules = RULES


LARGE = Sizes((100_000, 1_000_000, 10_000_000))


@dataclass(frozen=True)
class Used:
    """What a call took."""

    wall: float
    cpu: float
    grown: float

    @classmethod
    def by(cls, call: Callable[[], object]) -> "Used":
        """Wall and CPU seconds, and bytes that its peak added to the process."""
        release_free_memory()
        reset_peak()
        resident, wall, cpu = resident_bytes(), perf_counter(), process_time()
        call()
        return cls(perf_counter() - wall, process_time() - cpu, peak_bytes() - resident)

    def row(self) -> Row:
        """As cells."""
        return {
            "training wall s": self.wall,
            "training CPU s": self.cpu,
            "training grown MB": self.grown / 1e6,
        }


def measure(sizes: Sizes | None = None) -> Table:
    """Two columns for each number of clicks: sirocco's, and the alternative's."""
    sizes = sizes or Sizes()
    columns: Table = {}
    for size in sizes.clicks:
        span = Span.of(size, DAYS)
        ours, plain = _measure(span, sizes)
        columns[f"{size:,} clicks"] = ours
        columns[f"{size:,}, plain"] = plain
    return transposed(columns)


def _measure(span: Span, sizes: Sizes) -> tuple[Row, Row]:
    mature = span.known(span.end + ATTRIBUTION_SECONDS)
    model, ours, plain = _training(span, mature, sizes.rules)
    known = span.known(span.end)
    delays = _delays(span, known)
    ways = {
        "join": lambda: span.known(span.end),
        "delays": lambda: _delays(span, known),
        "ECDF": lambda: _ecdf(known),
        "label": _labelling(span, known, delays, model),
    }
    seconds = interleaved(ways, sizes.budget_seconds)
    scoring, plain_scoring = _scoring(span, model, sizes.budget_seconds)
    ours |= {
        "scoring clicks/s of a core": scoring,
        "join ms": seconds["join"].times(1e3),
        "label ms": seconds["label"].times(1e3),
        "delays ms": seconds["delays"].times(1e3),
        "delays: conversions used": delays.conversions,
        "delays: largest error of F": _error(_share_of(delays), span),
    }
    plain |= {
        "scoring clicks/s of a core": plain_scoring,
        "delays ms": seconds["ECDF"].times(1e3),
        "delays: conversions used": len(_ecdf(known)),
        "delays: largest error of F": _error(_steps(_ecdf(known)), span),
    }
    return ours, plain


def _training(
    span: Span, mature: Attribution, rules: TrainingRules
) -> tuple[PostClickModel, Row, Row]:
    found: list[Training] = []
    as_of = span.end + ATTRIBUTION_SECONDS
    ours = Used.by(lambda: found.append(train(span.clicks, mature, as_of=as_of, rules=rules)))
    if (model := found[0].model) is None:
        raise RuntimeError(f"no model: {found[0].refused}")
    matrix = _matrix(span.clicks.model_features())
    outcomes = mature.converted.astype(np.float64)
    rounds: Row = {"rounds": model.rounds}
    plain = Used.by(lambda: _plain(matrix, outcomes, model.rounds))
    return model, {**ours.row(), **rounds}, {**plain.row(), **rounds}


def _plain(matrix: Floats, outcomes: Floats, rounds: int) -> lightgbm.Booster:
    parameters = Boosting(num_threads=THREADS).parameters()
    return lightgbm.train(parameters, lightgbm.Dataset(matrix, outcomes), num_boost_round=rounds)


def _scoring(span: Span, model: PostClickModel, budget: float) -> tuple[Figure, Figure]:
    """Clicks a second of one core: sirocco's, and LightGBM's on a ready matrix."""
    features = span.clicks.model_features()
    matrix = _matrix(features)
    booster = _plain(matrix, span.known(span.end).converted.astype(np.float64), model.rounds)
    seconds = interleaved(
        {
            "sirocco": lambda: model.score(features, num_threads=1),
            "plain": lambda: booster.predict(matrix, num_threads=1),
        },
        budget,
    )
    ours, plain = (_rate(figure, len(features)) for figure in seconds.values())
    return ours, plain


def _rate(seconds: Figure, clicks: int) -> Figure:
    median, low, high = seconds
    return Figure(clicks / median, clicks / high, clicks / low)


def _matrix(features: Features) -> Floats:
    """Categories as their codes."""
    columns = [
        column.codes if isinstance(column, Categorical) else column
        for column in features.columns.values()
    ]
    return np.column_stack(columns).astype(np.float64)


def _delays(span: Span, known: Attribution) -> DelayDistribution:
    clicks = span.clicks
    found = DelayDistribution.fit(
        known.delay,
        known.age,
        clicks.rows,
        clicks.campaigns,
        window=ATTRIBUTION_SECONDS,
        min_conversions=1,
    )
    if found is None:
        raise RuntimeError("no mature click has converted")
    return found


def _ecdf(known: Attribution) -> Floats:
    """Sorted delays of the mature clicks."""
    return np.sort(known.delay[known.mature & known.converted])


def _labelling(
    span: Span, known: Attribution, delays: DelayDistribution, model: PostClickModel
) -> Callable[[], Floats]:
    clicks = span.clicks
    scores = model.score(clicks.model_features(), num_threads=1)
    rules = LabelRules(post_click=HOUR)
    return lambda: label(scores, known, delays, clicks.rows, clicks.campaigns, rules)


def _share_of(delays: DelayDistribution) -> Floats:
    return delays.share(_GRID, np.zeros(len(_GRID), np.int64), ("none of its own",))


def _steps(ordered: Floats) -> Floats:
    """Share of sorted delays up to each point of the grid."""
    return np.searchsorted(ordered, _GRID, side="right") / len(ordered)


def _error(shares: Floats, span: Span) -> float:
    return float(np.abs(shares - _steps(span.final_delays)).max())


PART = Part(
    "pccem", "Post-click model, delays and labels", __doc__, measure, lambda: measure(LARGE)
)
