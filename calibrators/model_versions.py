"""Versions of a model that score a target side by side: each gets its own maps.

Their scores are carried over to the scale of one of them, the reference, quantile by quantile,
campaign by campaign, between hours that lie together (`Streams`). The method learns from all. What
a version's outcomes have more or less than these maps say is a curve of its own (`OwnCurves`),
which starts from none. See docs/model-pushes.md.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrators.bins.model_versions import MOST_VERSIONS, by_version, named, parted
from calibrators.bins.table import BinsTable, ChangedHistory, History, HourTables
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import MapColumns
from calibrators.methods.refit import Fitted, Method, ScaleOfScores
from calibrators.peers import NotDivided
from calibrators.pooled.cells import FARTHEST, log_odds
from calibrators.pooled.method import Pooled
from calibrators.pooled.pushes import Transport
from calibrators.samples import Floats, Integers, expit

Version = str | None
"""The name of a version of a model; None of impressions that say none."""

_DAY = 24
_NEAR = 3.0
"""Hours apart in which hours count half as much for comparing the scores of two versions."""

_FEWEST = 100.0
"""Impressions of a version from which on its scores are carried over, and it is worth a refit."""

_ROUNDS = 30
"""Of a fixed point that a handful finds where versions are alike."""

_PRIOR = 25.0
"""Predicted positives by which a version's own curve is drawn to none."""

_REACH = np.linspace(-16.0, 16.0, 641)
"""Log-odds at which a version's own curve is drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The versions of a model that scored, and how their scores lie to one another.

    impressions : of each version, in the window; the reference is the first.
    seen : all versions of the window, those that are too many included.
    begun : impressions of those whose first hour is the newest.
    campaigns : the row of each in the transports.
    transports : from each version but the reference to it.
    """

    impressions: Mapping[Version, float]
    seen: Collection[Version]
    begun: Mapping[Version, float]
    campaigns: Mapping[str, int] = field(default_factory=dict)
    transports: Mapping[Version, Transport] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History, hours: int) -> "Streams":
        """Of the last hours of a history. The reference is the version with the most impressions
        in the newest day; of named versions there are `MOST_VERSIONS`, those with the most."""
        first, behind = history.newest + 1 - hours, history.newest + 1
        counts: dict[Version, Floats] = {None: np.zeros(hours)}
        for block in history.between(first, behind):
            for hour, table in block.items():
                for version, part in by_version(table).items():
                    counts.setdefault(version, np.zeros(hours))
                    counts[version][hour - first] += part.totals()[0].sum()
        begun = {each: n[-1] for each, n in counts.items() if n[-1] and not n[:-1].any()}
        seen = frozenset(counts)
        by_size = sorted(counts, key=lambda each: (-counts[each][-_DAY:].sum(), each or ""))
        named_ones = [each for each in by_size if each is not None][:MOST_VERSIONS]
        kept = [each for each in by_size if each is None or each in named_ones]
        for version in counts.keys() - set(kept):
            counts[None] += counts[version]
        kept = [each for each in kept if counts[each].any()] or [None]
        sums = {each: float(counts[each].sum()) for each in kept}
        return cls(sums, seen, begun)._compared(history.between(first, behind), first, counts)

    @property
    def reference(self) -> Version:
        """The version whose scale the others are carried over to."""
        return next(iter(self.impressions))

    @property
    def named(self) -> list[str]:
        """The versions that have a name."""
        return [version for version in self.impressions if version is not None]

    def parts(self, table: BinsTable) -> Mapping[Version, BinsTable]:
        """The table by version; one that is none of these counts as none."""
        if not table.has_versions:
            return {None: table}
        found: dict[Version, list[BinsTable]] = {}
        for version, part in by_version(table).items():
            known = version if version in self.impressions else None
            found.setdefault(known, []).append(part)
        return {version: BinsTable.merge(parts) for version, parts in found.items()}

    def _compared(
        self, blocks: Iterator[HourTables], first: int, counts: Mapping[Version, Floats]
    ) -> "Streams":
        """With transports, and the campaigns that these know."""
        others = [each for each in self.impressions if each != self.reference]
        weights = {each: _nearness(counts[each], counts[self.reference]) for each in others}
        names: dict[str, int] = {}
        sums: dict[Version, list[tuple[Integers, Floats, Floats, Floats]]] = {}
        for block in blocks:
            parts = {hour - first: self.parts(table) for hour, table in block.items()}
            for version in others:
                own, theirs = (
                    _weighted_sum(parts, each, weight)
                    for each, weight in zip(
                        (version, self.reference), weights[version], strict=True
                    )
                )
                found = sums.setdefault(version, [])
                found += [_entries(own, names, True), _entries(theirs, names, False)]
        transports = {}
        for version, entries in sums.items():
            rows, values, old, new = (
                np.concatenate(column) for column in zip(*entries, strict=True)
            )
            if min(old.sum(), new.sum()) < _FEWEST:
                old = np.zeros_like(old)
            rows = rows.astype(np.int64)
            transports[version] = Transport.of(rows, values, old, new, len(names)).rising()
        return replace(self, campaigns=names, transports=transports)

    def rows_of(self, campaigns: Sequence[str]) -> Integers:
        """Rows of campaigns in the transports, (c,), -1 of others."""
        return np.array([self.campaigns.get(name, -1) for name in campaigns], np.int64)

    def to_reference(self, version: Version, values: Floats, rows: Integers) -> Floats:
        """Log-odds, (m,), of campaigns in these rows, as the reference has them."""
        transport = self.transports.get(version)
        return values if transport is None else transport(values, rows)

    def from_reference(self, version: Version, values: Floats, rows: Integers) -> Floats:
        """The inverse."""
        transport = self.transports.get(version)
        if transport is None:
            return values
        levels = np.append(transport.levels, 0.0)[rows]
        back = replace(transport, before=transport.after, after=transport.before)
        return np.clip(back.common(values - levels), -FARTHEST, FARTHEST)

    def carried_over(self, block: HourTables) -> HourTables:
        """A block's tables on the scale of the reference."""
        return {hour: self._carried_over(table) for hour, table in block.items()}

    def _carried_over(self, table: BinsTable) -> BinsTable:
        parts = self.parts(table)
        return BinsTable.merge(
            part if version not in self.transports else self.moved(version, part)
            for version, part in parts.items()
        )

    def moved(self, version: Version, table: BinsTable) -> BinsTable:
        """A version's table on the scale of the reference."""
        scores, outcomes, weights, rows = table.samples()
        moved = self.to_reference(version, log_odds(scores), self.rows_of(table.campaigns)[rows])
        columns = expit(moved), weights, outcomes * weights
        return BinsTable.from_columns(table.campaigns, rows, *columns)

    def atlas(self, atlas: Atlas, curves: "OwnCurves | None" = None) -> Atlas:
        """The maps of all versions, from those of the reference: those of impressions without a
        version are the reference's where there are none in the window."""
        behind, every = len(atlas) + 1, len(atlas.columns())
        main = self._maps(atlas, None if None in self.impressions else self.reference, curves)
        names, rows, parts = [*atlas.campaigns], [*range(1, behind)], [main.run(0, behind)]
        for version in self.named:
            names += [named(each, version) for each in ("", *atlas.campaigns)]
            rows += range(behind)
            parts.append(self._maps(atlas, version, curves).run(0, behind))
        groups = atlas.groups and replace(atlas.groups, maps=main.run(behind, every))
        maps = MapColumns.end_to_end(parts)
        found = Atlas.of_columns(names, maps, atlas.target_map is not None, groups)
        found = found.with_effects(atlas.effects)
        if atlas.spreads is None:
            return found
        of = dict(zip(names, rows, strict=True))
        order = [0, *(of[name] for name in found.campaigns), *range(behind, every)]
        return found.with_spreads(atlas.spreads.taken(np.array(order, np.int64)))

    def _maps(self, atlas: Atlas, version: Version, curves: "OwnCurves | None") -> MapColumns:
        """The maps of all rows, of the reference's scores, as they are of a version's."""
        shared = np.full(len(atlas.columns()) - 1 - len(atlas), -1)
        own = np.concatenate(([-1], self.rows_of(atlas.campaigns), shared)).astype(np.int64)

        def moved(rows: Integers, scores: Floats) -> Floats:
            return expit(self.from_reference(version, log_odds(scores), own[rows]))

        found = (atlas.at_scores(moved) if version in self.transports else atlas).columns()
        if curves is None:
            return found
        return MapColumns(found.lengths, found.knots, curves.of_values(version, found.values))

    def completed(self, atlas: Atlas) -> Atlas:
        """An older atlas with maps of all these versions: of those that it does not have, what it
        gives on the scale of its reference."""
        known = {version for _, version in map(parted, atlas.campaigns)}
        missing = [each for each in self.named if each not in known]
        if not missing:
            return atlas
        plain = [name for name in atlas.campaigns if parted(name)[1] is None]
        main = self.atlas(_only(atlas, plain, self.reference if self.reference in known else None))
        maps = {name: main.map_of(name) for name in main.campaigns if parted(name)[1] in missing}
        return atlas.with_own(maps)


def _only(atlas: Atlas, campaigns: Sequence[str], version: Version) -> Atlas:
    """The maps that serve these campaigns in a version, and its target's, without its name."""
    rows = atlas.rows([named(name, version) for name in ("", *campaigns)])
    maps = atlas.columns(rows)
    return Atlas.of_columns(campaigns, maps, atlas.target_map is not None, None)


def _nearness(own: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Weights of the hours of two versions, (h,) each, 1 at most: each hour as much as the other
    version has impressions around it, so that the same hours are compared where both scored."""
    hours = np.arange(len(own))
    near = np.exp2(-np.abs(hours[:, None] - hours) / _NEAR)
    weights = near @ others, near @ own
    first, second = (each / max(float(each.max()), 1e-300) for each in weights)
    return first, second


def _weighted_sum(
    parts: Mapping[int, Mapping[Version, BinsTable]], version: Version, weights: Floats
) -> BinsTable:
    tables = []
    for hour, by_name in parts.items():
        table = by_name.get(version)
        if table is not None and weights[hour] > 0:
            sums = np.rint(table.sums * weights[hour]).astype(np.int64)
            tables.append(BinsTable.of_all(table.campaigns, table.offsets, table.cells, sums))
    return BinsTable.merge(tables)


def _entries(
    table: BinsTable, names: dict[str, int], is_own: bool
) -> tuple[Integers, Floats, Floats, Floats]:
    """Campaign, log-odds, and impressions of the version and of the reference, of each cell."""
    scores, _, weights, rows = table.samples()
    numbers = [names.setdefault(name, len(names)) for name in table.campaigns]
    nothing = np.zeros(len(weights))
    both = (weights, nothing) if is_own else (nothing, weights)
    return np.array(numbers, np.int64)[rows], log_odds(scores), *both


@dataclass(frozen=True, slots=True, eq=False)
class OwnCurves:
    """What each version's outcomes make of log-odds that the shared maps give: at `_REACH`, never
    falling. On the mean over all impressions nothing."""

    curves: Mapping[Version, Floats]

    @classmethod
    def of(
        cls, atlas: Atlas, impressions: Mapping[Version, float], predicted: Mapping[str, float]
    ) -> "OwnCurves":
        """From maps of the versions by `_label`, fitted to what the shared maps give, and the
        positives that these predict."""
        spreads = atlas.spreads
        within = _REACH if spreads is None else np.clip(_REACH, spreads.low, spreads.high)
        shifts = {}
        for version in impressions:
            positives = predicted.get(_label(version), 0.0)
            shift = log_odds(atlas.map_of(_label(version))(expit(within))) - within
            shifts[version] = shift * positives / (positives + _PRIOR)
        total = sum(impressions.values()) or 1.0
        shares = {version: count / total for version, count in impressions.items()}
        mean = np.zeros(len(_REACH))
        for _ in range(_ROUNDS):
            # Shared maps are the mean probability of all, which that of log-odds lies below.
            parts = [shares[each] * expit(_REACH + own - mean) for each, own in shifts.items()]
            mean += log_odds(np.sum(parts, axis=0)) - log_odds(expit(_REACH))
        moved = {each: np.maximum.accumulate(_REACH + s - mean) for each, s in shifts.items()}
        return cls(moved)

    def of_values(self, version: Version, values: Floats) -> Floats:
        """Probabilities, (m,), by a version's curve; 0 and 1 stay."""
        inside = (values > 0.0) & (values < 1.0)
        found = values.copy()
        found[inside] = expit(np.interp(log_odds(values[inside]), _REACH, self.curves[version]))
        return found


def _label(version: Version) -> str:
    return named("", version) or "unnamed"


_NEW_SHARE = 0.01
"""Of an hour's impressions, from which on a version that is new is worth a refit."""

_GROWTH = 2.0
"""A version's first hour is looked at again when it has so many times the impressions."""


class _VersionsFound(Exception):
    """The history has named versions of the model."""


def _without_any(block: HourTables) -> HourTables:
    if any(table.has_versions for table in block.values()):
        raise _VersionsFound
    return block


class _Watched(ChangedHistory):
    """Raises `_VersionsFound` at the first table that has any: who has none pays for no look."""

    __slots__ = ()

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        """See `History`."""
        for tables in self.of.sums(*spans):
            _without_any(dict(enumerate(tables)))
            yield tables


def _own_history(streams: Streams, history: History, hours: int, atlas: Atlas) -> History:
    """Each version's impressions as one campaign, by what the shared maps give."""
    tables: dict[int, list[BinsTable]] = {}
    for block in history.between(history.newest + 1 - hours, history.newest + 1):
        for hour, table in block.items():
            for version, part in streams.parts(table).items():
                moved = atlas.calibrated(streams.moved(version, part))
                names = [_label(version)] * len(moved)
                tables.setdefault(hour, []).append(moved.renamed(names))
    return History(history.as_of, [{hour: BinsTable.merge(some) for hour, some in tables.items()}])


@dataclass(frozen=True, slots=True, eq=False)
class VersionScale:
    """See `ScaleOfScores`; also tells when a version scores that a refit did not know.

    shared : that of the reference's scores, of methods that look at it.
    newest : the newest hour that the refit saw, since 1970.
    """

    shared: ScaleOfScores | None
    newest: int
    streams: Streams | None = None

    @property
    def pushes(self) -> Sequence[int]:
        """See `ScaleOfScores`."""
        return () if self.shared is None else self.shared.pushes

    def on_scale(self, atlas: Atlas | None, as_of: float) -> Atlas | None:
        """See `ScaleOfScores`: with maps of all versions."""
        found = atlas if self.shared is None else self.shared.on_scale(atlas, as_of)
        return found if found is None or self.streams is None else self.streams.completed(found)

    def changed(self, hour: int, running: BinsTable) -> bool:
        """See `ScaleOfScores`."""
        if running.has_versions and self._is_new(hour, running):
            return True
        if self.shared is None:
            return False
        carried = self.streams.carried_over({hour: running})[hour] if self.streams else running
        return self.shared.changed(hour, carried)

    def _is_new(self, hour: int, running: BinsTable) -> bool:
        seen = set() if self.streams is None else self.streams.seen
        begun = {} if self.streams is None or hour != self.newest else self.streams.begun
        counts = {each: part.totals()[0].sum() for each, part in by_version(running).items()}
        least = max(_FEWEST, _NEW_SHARE * sum(counts.values()))
        return any(
            count >= (_GROWTH * begun[each] if each in begun else np.inf if each in seen else least)
            for each, count in counts.items()
            if each is not None
        )


@dataclass(frozen=True, slots=True)
class _Memory:
    """Of the method, and of the versions' own curves."""

    shared: object = None
    own: object = None


def refit_by_version(
    method: Method, history: History, *, memory: object = None, trial: bool = False
) -> Fitted:
    """A method's refit, see `Method`; of a history with versions of the model, with maps of each.

    Without any it is the method's own, to the last bit. Of a campaign of a version, see
    `calibrators.bins.model_versions`, the atlas then has a map of its own, for each campaign that
    has one and for new ones.
    """
    known = memory if isinstance(memory, _Memory) else _Memory(memory)
    watched = _Watched.by(_without_any, history)
    try:
        fitted = method.refit(watched, memory=known.shared, trial=trial)
    except _VersionsFound:
        if history.peers.count > 1:
            raise NotDivided("versions of the model score side by side") from None
        return _refit(method, history, known, trial)
    looks = fitted.scale is not None
    return replace(fitted, scale=VersionScale(fitted.scale, history.newest)) if looks else fitted


def _refit(method: Method, history: History, known: _Memory, trial: bool) -> Fitted:
    streams = Streams.of(history, method.hours)
    carried = ChangedHistory.by(streams.carried_over, history)
    shared = method.refit(carried, memory=known.shared, trial=trial)
    own_history = _own_history(streams, history, method.hours, shared.atlas)
    own = Pooled(method.hours).refit(own_history, memory=known.own, trial=trial)
    whole = BinsTable.merge(table for block in own_history.blocks for table in block.values())
    weights = streams.impressions, dict(zip(whole.campaigns, whole.outcomes()[0], strict=True))
    tried = None
    if shared.trial is not None and own.trial is not None:
        tried = streams.atlas(shared.trial, OwnCurves.of(own.trial, *weights))
    counts = {version: streams.impressions[version] for version in streams.named}
    return replace(
        shared,
        atlas=streams.atlas(shared.atlas, OwnCurves.of(own.atlas, *weights)),
        trial=tried,
        memory=_Memory(shared.memory, own.memory),
        notes={**shared.notes, "model_versions": counts},
        scale=VersionScale(shared.scale, history.newest, streams),
    )
