"""Refits of a target that several versions of a model score side by side: each gets its own maps.

The method learns from all scores, carried over to one scale (`Streams`). What a version's outcomes
have more or less than these maps say is a curve of its own (`OwnCurves`), which starts from none.
See docs/model-pushes.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrators.bins.model_versions import by_version, has_versions
from calibrators.bins.table import BinsTable, History, HourTables
from calibrators.maps.atlas import Atlas
from calibrators.methods.refit import Fitted, Method, ScaleOfScores
from calibrators.pooled.method import Pooled
from calibrators.version_scales import FEWEST, OwnCurves, Streams, label

_NEW_SHARE = 0.01
"""Of an hour's impressions, from which on a version that is new is worth a refit."""

_GROWTH = 2.0
"""A version's first hour is looked at again when it has so many times the impressions."""


class _VersionsFound(Exception):
    """The history has named versions of the model."""


def _without_any(block: HourTables) -> HourTables:
    if any(map(has_versions, block.values())):
        raise _VersionsFound
    return block


@dataclass(frozen=True, slots=True, eq=False)
class _Watched(History):
    """Raises `_VersionsFound` at the first table that has any: who has none pays for no look."""

    of: History = field(kw_only=True)

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """See `History`."""
        return map(_without_any, self.of.between(first, behind))

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        """See `History`."""
        for tables in self.of.sums(*spans):
            _without_any(dict(enumerate(tables)))
            yield tables


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """Blocks that are made anew each time."""

    of: History
    change: Streams | None = None

    def __iter__(self) -> Iterator[HourTables]:
        return map(self.change.carried_over if self.change else _without_any, self.of.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class _CarriedOver(History):
    """A history with all scores on the scale of the reference, under the campaigns' own names."""

    of: History = field(kw_only=True)
    streams: Streams = field(kw_only=True)

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """See `History`."""
        return map(self.streams.carried_over, self.of.between(first, behind))


def _own_history(streams: Streams, history: History, hours: int, atlas: Atlas) -> History:
    """Each version's impressions as one campaign, by what the shared maps give."""
    tables: dict[int, list[BinsTable]] = {}
    for block in history.between(history.newest + 1 - hours, history.newest + 1):
        for hour, table in block.items():
            for version, part in streams.parts(table).items():
                moved = atlas.calibrated(streams.moved(version, part))
                names = [label(version)] * len(moved)
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
        if has_versions(running) and self._is_new(hour, running):
            return True
        if self.shared is None:
            return False
        carried = self.streams.carried_over({hour: running})[hour] if self.streams else running
        return self.shared.changed(hour, carried)

    def _is_new(self, hour: int, running: BinsTable) -> bool:
        seen = set() if self.streams is None else self.streams.seen
        begun = {} if self.streams is None or hour != self.newest else self.streams.begun
        counts = {each: part.totals()[0].sum() for each, part in by_version(running).items()}
        least = max(FEWEST, _NEW_SHARE * sum(counts.values()))
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
    watched = _Watched(history.as_of, _Blocks(history), history.fields, of=history)
    try:
        fitted = method.refit(watched, memory=known.shared, trial=trial)
    except _VersionsFound:
        return _refit(method, history, known, trial)
    looks = fitted.scale is not None
    return replace(fitted, scale=VersionScale(fitted.scale, history.newest)) if looks else fitted


def _refit(method: Method, history: History, known: _Memory, trial: bool) -> Fitted:
    streams = Streams.of(history, method.hours)
    blocks = _Blocks(history, streams)
    carried = _CarriedOver(history.as_of, blocks, history.fields, of=history, streams=streams)
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
