"""`python -m research.coverage`: how often 90 % intervals hold the true probability.

Synthetic platforms whose truth is known (`PLATFORMS`, and worlds with fields) are refitted hour by
hour; of every impression of the next hour it is counted whether its true probability lies inside
the interval that the published maps give. Behind it, in parentheses, how wide intervals are by that
of a normal variable with the mean square of what the maps miss. All of a platform share its luck,
so of several platforms the standard error of the coverage is said too, from how much these differ.
Impressions of worlds with fields are told apart by how many had the rarest of their values in the
hours before; `effects certain` is what would be inside if the effects of fields were known for
certain. `--ideal 1` counts what an observer has inside who knows the law of the campaigns' levels.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from app.cli.console import progress
from calibrators.maps.atlas import Atlas
from calibrators.pooled import Pooled
from calibrators.samples import Floats, Integers
from evaluation.simulation.ad_platform import PlatformHour
from research.leaderboard.fields.method import PooledFields, Shape
from research.leaderboard.fields.platform import FIELD_REGIMES, FieldHour, FieldPlatform
from research.leaderboard.fields.scores import world
from research.leaderboard.method import Past
from research.leaderboard.picture import Dot, Drawing, Mark, Stroke, Text
from research.leaderboard.platform import MOST_JUMPS, REGIMES, Distortions, DriftingPlatform, Regime

LOWER, UPPER = 0.05, 0.95
_SIGMAS = 1.645
WINDOW: Final = 48
"""Hours of traffic that are a campaign's support."""

PLATFORMS: Final = {
    "steady": Regime(
        "60 campaigns, CTR 2 %: levels stay", 60, 6_000, 0.02, Distortions(level=0.25, slope=0.1)
    ),
    "drifting": Regime(
        "60 campaigns, CTR 3 %: levels drift, everyone's and each campaign's",
        60,
        9_000,
        0.03,
        Distortions(level=0.2, slope=0.1, wave=0.04, drift=0.1, walk=0.02, day=0.05),
    ),
    "small": Regime(
        "20 campaigns, CTR 2 %: the same with 40 clicks an hour",
        20,
        2_000,
        0.02,
        Distortions(level=0.25, slope=0.1, drift=0.1, walk=0.02),
    ),
    **REGIMES,
}
"""Those of the leaderboard, and smaller ones."""

_DECILES = 10
_LARGE_JUMP = 0.2
_SINCE: Final = ((0, 1, "hour of a jump"), (1, 4, "1 to 3 hours after"), (4, 12, "4 to 11 after"))
ALL, NEW, NO_JUMP = "all", "new campaigns", "no jump in 12 hours"
RAREST: Final = (
    (0, 300, "rarest value: below 300"),
    (300, 3_000, "rarest value: below 3,000"),
    (3_000, np.inf, "rarest value: 3,000 and more"),
)
CERTAIN: Final = ", effects certain"


class Counts:
    """By part of the impressions: how many there are, how many are inside, their widths, and the
    squares of how far what is served is off, in log-odds."""

    def __init__(self) -> None:
        self._sums: dict[str, Floats] = defaultdict(lambda: np.zeros(4))

    def add(self, part: str, inside: NDArray[np.bool_], widths: Floats, missed: Floats) -> None:
        """Count the impressions of a part."""
        if len(inside):
            self._sums[part] += (len(inside), inside.sum(), widths.sum(), (missed**2).sum())

    def __iadd__(self, other: "Counts") -> "Counts":
        for part, sums in other._sums.items():
            self._sums[part] += sums
        return self

    def found(self) -> dict[str, dict[str, float]]:
        """By part: impressions, coverage, the mean width of the intervals in log-odds, and that of
        a normal variable with the mean square of the errors: the width that is needed, where all
        are alike."""
        return {
            part: {
                "impressions": n,
                "coverage": inside / n,
                "width": width / n,
                "needed": 2 * _SIGMAS * float(np.sqrt(squares / n)),
            }
            for part, (n, inside, width, squares) in sorted(self._sums.items())
        }

    def part(self, name: str) -> tuple[float, float]:
        """Impressions of a part, and how many are inside."""
        impressions, inside, *_ = self._sums.get(name, np.zeros(4)).tolist()
        return impressions, inside


def found_on(platforms: Sequence[Counts]) -> dict[str, dict[str, float]]:
    """What is found on all of several platforms, by part, with the standard `error` of the coverage
    where at least two of them have such impressions.

    Source: the linearised error of a ratio of sums over clusters, Cochran, Sampling Techniques,
    1977, section 6.3.
    """
    total = Counts()
    for each in platforms:
        total += each
    found = total.found()
    for part, row in found.items():
        impressions, inside = np.array([each.part(part) for each in platforms]).T
        count = np.count_nonzero(impressions)
        if count > 1:
            squares = float(((inside - row["coverage"] * impressions) ** 2).sum())
            row["error"] = float(np.sqrt(squares * count / (count - 1))) / row["impressions"]
    return found


def coverage(platform: DriftingPlatform, first: int, hours: int) -> Iterator[Counts]:
    """Of each of so many hours from the first on, with maps refitted at its start; nothing of the
    hours before, of which one comes for each too."""
    past, support = Past(platform.campaigns), np.zeros((first + hours, platform.campaigns))
    start, memory, method = int(platform.start // 3600), None, Pooled(hours=WINDOW)
    for hour in range(first + hours):
        drawn, counts = platform.hour(hour), Counts()
        if hour >= first:
            fitted = method.refit(past.as_of(start + hour), memory=memory)
            memory = fitted.memory
            seen = support[max(hour - WINDOW, 0) : hour].sum(axis=0)
            counts = _counted(platform, hour, drawn, fitted.atlas, seen)
        past.add(start + hour, drawn.events)
        support[hour] = np.bincount(drawn.events.rows, minlength=platform.campaigns)
        yield counts


def _counted(
    platform: DriftingPlatform, hour: int, drawn: PlatformHour, atlas: Atlas, support: Floats
) -> Counts:
    campaigns, scores = drawn.events.rows.astype(np.int64), drawn.events.scores
    rows = atlas.rows(platform.names)[campaigns]
    served = atlas.look_up(rows, scores)
    ends = atlas.quantiles(rows, scores, served, (LOWER, UPPER))
    inside, widths, missed = _missed(served, ends, drawn.truth)
    counts = Counts()
    for part, held in _parts(platform, hour, campaigns, support):
        counts.add(part, inside[held], widths[held], missed[held])
    return counts


def _missed(
    served: Floats, ends: Sequence[Floats], truth: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Whether each truth is inside, the widths, and how far what is served is off, in log-odds."""
    lower, upper = ends
    odds = upper / (1 - upper) * (1 - lower) / lower
    missed = np.log(served / (1 - served) * (1 - truth) / truth)
    return (lower <= truth) & (truth <= upper), np.log(odds), missed


_LEVELS: Floats = np.arange(-3.5, 3.51, 0.02)
_BESIDES: Floats = np.arange(-13.0, 3.01, 0.04)
_TOGETHER: Floats = expit(_BESIDES[:, None] + _LEVELS)
"""Campaigns' own levels, log-odds besides them, and the probabilities that both make."""


class IdealObserver:
    """Knows the law by which campaigns' own levels are drawn and jump, and all else exactly; what
    the positives say of the levels is found by brute force, on a grid.

    `frequency`: how often levels jump in what it takes for the law, as a multiple of that.
    """

    def __init__(self, platform: DriftingPlatform, frequency: float = 1.0) -> None:
        rules = platform.distortions
        self._rules = replace(rules, jumps=rules.jumps * frequency)
        self._moves = _normal(_LEVELS[:, None] - _LEVELS, rules.jump)
        # By how often a level has jumped.
        self._belief = np.zeros((MOST_JUMPS + 1, platform.campaigns, len(_LEVELS)))
        self._belief[0] = _normal(_LEVELS, rules.level)

    def pass_time(self, hour: int) -> None:
        """What is believed when this hour begins, of which jumps may be the first to tell."""
        chance, (none, one, two) = self._rules.jump_chance(hour), self._belief
        moved, stays = none @ self._moves, 1 - chance
        once = stays * one + 2 * chance * stays * moved
        twice = two + chance * (one + chance * moved) @ self._moves
        self._belief = np.stack((stays**2 * none, once, twice))

    def learn(self, campaigns: Integers, besides: Floats, outcomes: Floats) -> None:
        """From an hour's impressions, whose log-odds but for the own levels are `besides`, (n,)."""
        cells = np.rint((besides - _BESIDES[0]) / (_BESIDES[1] - _BESIDES[0])).astype(np.int64)
        counts = np.zeros((self._belief.shape[1], len(_BESIDES)))
        np.add.at(counts, (campaigns, cells.clip(0, len(_BESIDES) - 1)), 1.0)
        expected = counts @ _TOGETHER
        observed = np.bincount(campaigns, weights=outcomes, minlength=len(expected))
        logs = observed[:, None] * np.log(np.maximum(expected, 1e-300)) - expected
        self._belief *= np.exp(logs - logs.max(axis=1, keepdims=True))
        self._belief /= self._belief.sum(axis=(0, 2), keepdims=True)

    def intervals(self) -> tuple[Floats, Floats]:
        """The means of the levels, and how far around them nine tenths are, (c,) each."""
        belief = self._belief.sum(axis=0)
        means = belief @ _LEVELS
        away = np.abs(_LEVELS - means[:, None])
        order = np.argsort(away, axis=1)
        inside = np.cumsum(np.take_along_axis(belief, order, 1), axis=1)
        last = np.take_along_axis(order, (inside < UPPER - LOWER).sum(axis=1)[:, None], 1)
        return means, np.take_along_axis(away, last, 1)[:, 0]


def _normal(levels: Floats, deviation: float) -> Floats:
    """Shares of the grid in the last axis; all in its middle of no deviation."""
    density = np.exp(-0.5 * (levels / max(deviation, 1e-3)) ** 2)
    return np.asarray(density / density.sum(axis=-1, keepdims=True))


def ideal_coverage(
    platform: DriftingPlatform, first: int, hours: int, frequency: float = 1.0
) -> Iterator[Counts]:
    """`coverage` of an `IdealObserver`."""
    observer = IdealObserver(platform, frequency)
    support = np.zeros((first + hours, platform.campaigns))
    for hour in range(first + hours):
        drawn, own, counts = platform.hour(hour), platform.own_levels(hour), Counts()
        campaigns = drawn.events.rows.astype(np.int64)
        observer.pass_time(hour)
        if hour >= first:
            means, halves = observer.intervals()
            missed, wide = (means - own)[campaigns], halves[campaigns]
            seen = support[max(hour - WINDOW, 0) : hour].sum(axis=0)
            for part, held in _parts(platform, hour, campaigns, seen):
                counts.add(part, (np.abs(missed) <= wide)[held], 2 * wide[held], missed[held])
        besides = logit(drawn.truth) - own[campaigns]
        observer.learn(campaigns, besides, drawn.events.outcomes)
        support[hour] = np.bincount(campaigns, minlength=platform.campaigns)
        yield counts


def field_coverage(platform: FieldPlatform, first: int, hours: int) -> Iterator[Counts]:
    """The same of a world with fields, without pairs of them."""
    sizes = {field.name: field.values for field in platform.regime.fields}
    method = PooledFields(Shape(platform.names, sizes), pairs=False)
    seen = {name: np.zeros(size) for name, size in sizes.items()}
    for number in range(first + hours):
        hour, counts = platform.hour(number), Counts()
        if number >= first:
            rarest = np.min([seen[name][codes] for name, codes in hour.fields.items()], axis=0)
            _count_fields(counts, method, hour, rarest)
        method.observe(hour)
        for name, codes in hour.fields.items():
            seen[name] += np.bincount(codes, minlength=sizes[name])
        yield counts


def _count_fields(counts: Counts, method: PooledFields, hour: FieldHour, rarest: Floats) -> None:
    served = method.predict(hour.blind())
    for by_fields, words in ((True, ""), (False, CERTAIN)):
        ends = method.quantiles(hour, served, (LOWER, UPPER), by_fields)
        found = _missed(served, ends, hour.truth)
        counts.add(ALL + words, *found)
        for low, behind, name in RAREST:
            held = (low <= rarest) & (rarest < behind)
            counts.add(name + words, found[0][held], found[1][held], found[2][held])


def _parts(
    platform: DriftingPlatform, hour: int, campaigns: Integers, support: Floats
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Impressions by what their campaign is; the deciles are of campaigns, by their traffic."""
    yield ALL, np.ones(len(campaigns), bool)
    yield NEW, support[campaigns] == 0
    known = np.flatnonzero(support)
    order = known[np.argsort(support[known], kind="stable")]
    decile = np.full(len(support), -1)
    decile[order] = np.arange(len(order)) * _DECILES // max(len(order), 1)
    for number in range(_DECILES):
        yield f"decile {number + 1:2}", decile[campaigns] == number
    since = _since_jump(platform, hour)[campaigns]
    for low, high, name in _SINCE:
        yield name, (low <= since) & (since < high)
    yield NO_JUMP, since >= _SINCE[-1][1]


def _since_jump(platform: DriftingPlatform, hour: int) -> Integers:
    """Hours since each campaign's last large jump, its own or everyone's."""
    paths, never = platform.paths, 1 << 30
    large = (np.abs(paths.jump_sizes) > _LARGE_JUMP) & (paths.jump_hours <= hour)
    since = np.where(large, hour - paths.jump_hours, never).min(axis=0)
    if platform.distortions.global_jump > _LARGE_JUMP and hour >= paths.global_jump_hour:
        since = np.minimum(since, hour - paths.global_jump_hour)
    return np.asarray(since)


class Certainty(NamedTuple):
    """Of one campaign in one hour: its impressions before, and what is said of a score against its
    true probability, as ratios."""

    impressions: int
    lower: float
    served: float
    upper: float


def growing(platform: DriftingPlatform, hours: int) -> list[Certainty]:
    """Of the campaign with the most traffic among those that start late, hour by hour from its
    first one, the interval of its mean score."""
    first = np.argmax([platform.traffic(hour) > 0 for hour in range(hours)], axis=0)
    late = int(np.flatnonzero(first > 0)[0])
    past, start, memory, seen = Past(platform.campaigns), int(platform.start // 3600), None, 0
    found: list[Certainty] = []
    for hour in range(int(first[late]) + hours):
        drawn = platform.hour(hour)
        own = np.flatnonzero(drawn.events.rows == late)
        if hour >= first[late] and len(own):
            fitted = Pooled(hours=WINDOW).refit(past.as_of(start + hour), memory=memory)
            memory = fitted.memory
            found.append(_certainty(fitted.atlas, platform.names[late], drawn, own, seen))
        past.add(start + hour, drawn.events)
        seen += len(own)
    return found


def _certainty(atlas: Atlas, name: str, drawn: PlatformHour, own: Integers, seen: int) -> Certainty:
    scores, rows = drawn.events.scores[own], atlas.rows([name] * len(own))
    served = atlas.look_up(rows, scores)
    columns = (served, *atlas.quantiles(rows, scores, served, (LOWER, UPPER)))
    middle, low, high = (float(np.mean(column / drawn.truth[own])) for column in columns)
    return Certainty(seen, low, middle, high)


_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 860.0, 380.0, 70.0, 90.0, 310.0
_TICKS = (0.5, 0.7, 1.0, 1.4, 2.0)


def picture(found: Sequence[Certainty]) -> Drawing:
    """A bar from lower to upper for each hour, and what is served as a dot."""
    step = (_WIDTH - _LEFT - 30) / len(found)
    title = "A new campaign becomes certain"
    marks: list[Mark] = [
        Text(24, 36, title, 19, bold=True),
        Text(24, 58, "Served (dots) and 90 % intervals (bars), hour by hour, as a ratio to the true"
             " probability", 13, "muted"),
    ]  # fmt: skip
    for tick in _TICKS:
        colour, width = ("ink", 1.4) if tick == 1.0 else ("grid", 1.0)
        marks.append(Stroke(_LEFT, _y(tick), _WIDTH - 24, _y(tick), colour, width))
        marks.append(Text(_LEFT - 10, _y(tick) + 4, f"{tick:g}", 12.5, "muted", "right"))
    for place, each in enumerate(found):
        x = _LEFT + step * (place + 0.5)
        marks.append(Stroke(x, _y(each.lower), x, _y(each.upper), "series-2", 4.0))
        marks.append(Dot(x, _y(each.served), 4.0, "series-1"))
        if place % 6 == 0:
            marks.append(Text(x, _BOTTOM + 24, f"{each.impressions:,}", 12.5, "muted", "center"))
    label = "impressions of the campaign before the hour"
    marks.append(Text(_WIDTH / 2, _BOTTOM + 48, label, 13, "muted", "center"))
    return Drawing(_WIDTH, _HEIGHT, title, marks)


def _y(ratio: float) -> float:
    span = np.log(_TICKS[-1] / _TICKS[0])
    share = np.clip(np.log(ratio / _TICKS[0]) / span, -0.05, 1.05)
    return float(_BOTTOM - share * (_BOTTOM - _TOP))


def _lines(found: dict[str, dict[str, dict[str, float]]]) -> Iterable[str]:
    """A Markdown table: parts by regimes, coverage in percent, and widths over what is needed."""
    parts = sorted({part for parts in found.values() for part in parts})
    yield "| | " + " | ".join(found) + " |"
    yield "|---" * (1 + len(found)) + "|"
    for part in parts:
        cells = (parts.get(part) for parts in found.values())
        yield f"| {part} | " + " | ".join(_cell(cell) if cell else "-" for cell in cells) + " |"


def _cell(cell: dict[str, float]) -> str:
    error = f" ± {100 * cell['error']:.1f}" if "error" in cell else ""
    width = cell["width"] / max(cell["needed"], 1e-9)
    return f"{100 * cell['coverage']:.1f}{error} ({width:.2f})"


def _hours(given: argparse.Namespace, name: str, seed: int) -> Iterator[Counts]:
    if name in FIELD_REGIMES:
        return field_coverage(world(name, seed), given.first, given.hours)
    platform = PLATFORMS[name].platform(seed)
    if given.ideal:
        return ideal_coverage(platform, given.first, given.hours, given.ideal)
    return coverage(platform, given.first, given.hours)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    given = _parser().parse_args(arguments)
    if given.picture:
        drawing = picture(growing(PLATFORMS["steady"].platform(given.seed), given.hours))
        given.picture.write_text(drawing.svg())
        return 0
    total = sum(given.first + given.hours for _ in given.regimes for _ in range(given.seeds))
    found: dict[str, dict[str, dict[str, float]]] = {}
    with progress("refitting and counting", total, "hours", shown=not given.json) as advance:
        for name in given.regimes:
            platforms = []
            for seed in range(given.seed, given.seed + given.seeds):
                platforms.append(counts := Counts())
                for hour in _hours(given, name, seed):
                    counts += hour
                    advance(f"{name}, seed {seed}")
            found[name] = found_on(platforms)
    text = json.dumps(found, indent=1) if given.json else "\n".join(_lines(found))
    sys.stdout.write(text + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m research.coverage", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [*PLATFORMS, *FIELD_REGIMES]
    parser.add_argument("--regimes", nargs="+", choices=names, default=list(PLATFORMS))
    parser.add_argument("--seeds", type=int, default=3, help="platforms of each regime")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--first", type=int, default=WINDOW, help="first hour that is counted")
    parser.add_argument("--hours", type=int, default=36, help="hours that are counted")
    told = "count for an ideal observer to whom levels jump so often, as a multiple of the truth"
    parser.add_argument("--ideal", type=float, default=0.0, metavar="FREQUENCY", help=told)
    parser.add_argument("--picture", type=Path, help="draw a new campaign into this file instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
