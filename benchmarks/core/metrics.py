"""Metrics of many rows, in seconds of CPU: log loss, Cal-N, AUC, csAUC, and means over groups.

The peers of `log_loss` and `auc` are scikit-learn's `log_loss` and `roc_auc_score`. That of a mean
over groups brings the rows of each group together with one stable sort of the groups, and then
calls `cal_n`, `roc_auc_score` or `cs_auc` for each group in a Python loop, which is SCALED up
from a sample of them.

`numpy` is what numpy alone takes to go through the same rows once in the way that the metric has
to: for `log_loss` one logarithm of each probability and their sum, in blocks that stay in the
cache; for all others a sort of the scores, without an index. To read one column from memory and
add it up, which is memory speed, is the first row.

All scores and bids differ. Percentages are rates of clicks.

    python -m benchmarks metrics [--json]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

import numpy as np
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from benchmarks.figures import Cell, Figure, Table, middle
from benchmarks.parts import Part
from benchmarks.timing import Way
from calibrators.samples import Floats, Integers
from evaluation import auc, bucketed_cs_auc, cal_n, cs_auc, gauc, gc_n, gcs_auc, log_loss

SEED = 5
RATES = (0.01, 0.1, 0.5)
BLOCK = 1 << 14
Ways = Mapping[str, Way]


@dataclass(frozen=True)
class Sizes:
    """How much to measure; a loop over groups is measured on `sample` of them."""

    rows: int = 10_000_000
    fewer_rows: int = 1_000_000
    groups: int = 10_000
    sample: int = 100
    rounds: int = 3


class Log(NamedTuple):
    """Columns of n rows."""

    p: Floats
    y: Floats
    bids: Floats

    @classmethod
    def drawn(cls, n: int, rate: float, rng: np.random.Generator) -> "Log":
        """Scores that say something, and clicks at this rate."""
        odds = np.exp(rng.normal(np.log(rate / (1 - rate)), 1.0, n))
        p = odds / (1 + odds)
        y = rng.random(n) < p * (rate / p.mean())
        return cls(p, y.astype(np.float64), rng.lognormal(0.0, 1.0, n))

    def rows(self, chosen: slice | Integers) -> "Log":
        """Some of the rows."""
        return Log(self.p[chosen], self.y[chosen], self.bids[chosen])


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each metric, number of rows and rate of clicks."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng(SEED)
    table: Table = {}
    for rate in RATES:
        log = Log.drawn(sizes.rows, rate, rng)
        for name, ways in _of_all_rows(log, rate, sizes):
            table[f"{name}, {rate:.0%}"] = _row(ways, sizes.rounds)
        if rate == 0.1:
            groups = rng.integers(0, sizes.groups, sizes.rows)
            table |= _of_groups(log, groups, sizes)
    return table


def _of_all_rows(log: Log, rate: float, sizes: Sizes) -> Iterator[tuple[str, Ways]]:
    p, y = log.p, log.y
    if rate == 0.01:
        yield f"sum of {sizes.rows:,}", {"numpy": p.sum}
        yield (
            f"log_loss, {sizes.rows:,}",
            {
                "sirocco": lambda: log_loss(p, y),
                "peer": lambda: sklearn_log_loss(y, p),
                "numpy": lambda: _logarithms(p),
            },
        )
        ways = {"sirocco": lambda: cal_n(p, y), "numpy": lambda: np.sort(p)}
        yield f"cal_n, {sizes.rows:,}", ways
    if rate != 0.1:
        ways = {"sirocco": lambda: auc(p, y), "peer": lambda: roc_auc_score(y, p)}
        yield f"auc, {sizes.rows:,}", ways | {"numpy": lambda: np.sort(p)}
    for n in (sizes.fewer_rows, sizes.rows):
        yield f"cs_auc, {n:,}", _exactly(log.rows(slice(n)))
    if rate == 0.1:
        fewer = log.rows(slice(sizes.fewer_rows))
        ways = {"sirocco": lambda: bucketed_cs_auc(*fewer)}
        yield f"bucketed_cs_auc, {sizes.fewer_rows:,}", ways


def _exactly(log: Log) -> Ways:
    return {"sirocco": lambda: cs_auc(*log), "numpy": lambda: np.sort(log.p * log.bids)}


def _of_groups(log: Log, groups: Integers, sizes: Sizes) -> Table:
    parts = [log.rows(np.flatnonzero(groups == group)) for group in range(sizes.sample)]
    both = [part for part in parts if 0.0 < part.y.sum() < len(part.y)]
    p, y, bids = log
    ways: dict[str, tuple[Way, Way]] = {
        "gc_n": (
            lambda: gc_n(p, y, groups),
            lambda: [cal_n(part.p, part.y, empty="merge") for part in parts],
        ),
        "gauc": (
            lambda: gauc(p, y, groups),
            lambda: [roc_auc_score(part.y, part.p) for part in both],
        ),
        "gcs_auc": (lambda: gcs_auc(p, y, bids, groups), lambda: [cs_auc(*part) for part in parts]),
    }
    together: Ways = {"together": lambda: log.rows(np.argsort(groups, kind="stable"))}
    apart = _seconds(together, sizes.rounds)["together"]
    title = f"{sizes.rows:,}, {sizes.groups:,} groups"
    return {f"{name}, {title}": _group_row(*pair, apart, sizes) for name, pair in ways.items()}


def _logarithms(p: Floats) -> float:
    blocks = (p[start : start + BLOCK] for start in range(0, len(p), BLOCK))
    return float(sum(np.log(block).sum() for block in blocks))


def _row(ways: Ways, rounds: int) -> dict[str, Cell]:
    return _compared(_seconds(ways, rounds))


def _group_row(ours: Way, loop: Way, together: list[float], sizes: Sizes) -> dict[str, Cell]:
    """`loop` takes the sample of the groups only; `together` are the peer's seconds before it."""
    seconds = _seconds({"sirocco": ours, "loop": loop}, sizes.rounds)
    scaled = np.multiply(seconds["loop"], sizes.groups / sizes.sample)
    peer = np.add(together, scaled).tolist()
    return _compared({"sirocco": seconds["sirocco"], "peer": peer})


def _seconds(ways: Ways, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each way in each round, taken in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            started = process_time()
            way()
            seconds[name].append(process_time() - started)
    return seconds


def _compared(seconds: Mapping[str, list[float]]) -> dict[str, Cell]:
    """The figures of each way, and how many times as long one takes as another."""
    row: dict[str, Cell] = {f"{name} s": Figure.of(taken) for name, taken in seconds.items()}
    for slow, fast in (("peer", "sirocco"), ("sirocco", "numpy")):
        if slow in seconds and fast in seconds:
            row[f"{slow} / {fast}"] = middle(row[f"{slow} s"]) / middle(row[f"{fast} s"])
    return row


PART = Part("metrics", "Metrics of many rows, seconds of CPU", __doc__, measure)
