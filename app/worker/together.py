"""Refits of very many campaigns by all workers together: each fits the campaigns of some shards.

Who holds the lease calls the others, has the maps of all made, and publishes; they help, and fold
meanwhile. What comes of it is what one worker alone makes, to the last bit, so whatever comes
between (a worker that dies, a history that cannot be divided) only costs time: it is begun anew
with those who are left, or alone. See docs/scale.md.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Final, TypeVar
from uuid import uuid4

import numpy as np
import redis

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.keys import SHARDS
from app.storage.lease import (
    PLACES,
    Call,
    JointRefits,
    Lease,
    LeaseKeeper,
    LeaseToken,
    Member,
    ShardShare,
)
from app.worker.delayed_targets import DelayedTargets
from app.worker.fitting import Methods, ReadBlocks, StoredHistory
from app.worker.monitoring import RawWindow, TargetReport, TargetScorecards
from app.worker.relabelling import ReadSpan, ScoredClicks, Span
from calibrators.bins.table import History
from calibrators.methods.refit import Fitted
from calibrators.model_versions import refit_by_version
from calibrators.peers import NotDivided, Part, Peers, as_array, listed_in
from calibrators.samples import Floats

_log = logging.getLogger(__name__)
Found = TypeVar("Found")

WORTH_IT: Final = 10_000
"""Campaigns from which on workers refit together: fewer are fitted before all have come."""

CLICKS_WORTH_IT: Final = 300_000
"""Clicks of delayed targets from which on workers read and score them together."""

COME_SECONDS: Final = 1.0
"""Pause in which a worker looks whether it is called."""

_CALL_SECONDS: Final = 3 * COME_SECONDS
_STEP_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.25
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05
_TRIES = 3
_CODE: Final = ("app", "calibrators", "pccem")
_NEEDED: Final = (
    *("window_hours", "history_hours", "bin_size", "prior_strength", "min_samples"),
    *("min_positives", "campaign_group", "group_field", "fields", "top_campaigns"),
)
"""Settings that change what a part of a refit gives, besides `attribution_hours`."""
_ALONE: Final = "alone: "
"""What begins the reason of one that has seen that the history cannot be divided."""


class PeerLost(NotDivided):
    """One of those who refit together has gone, or has failed: the others may try again."""


class StorePeers(Peers):
    """Workers that tell each other through the store. Ends with `PeerLost` where one of them loses
    its lease, gives up, or takes very long, and where `stop` is set."""

    def __init__(
        self, refits: JointRefits, refit: str, members: Sequence[Member], place: int, stop: Event
    ) -> None:
        self.place, self.count = place, len(members)
        self.step = 0
        self._refits, self._refit, self._members, self._stop = refits, refit, members, stop

    def gather(self, parts: Iterable[Part], to_first: bool = False) -> Iterable[Part]:
        """See `Peers`."""
        step, self.step = self.step, self.step + 1
        listed = list(parts)
        self._refits.report(self._refit, step, self.place, listed)
        if to_first and not self.is_first:
            return []
        self._wait_for(step)
        if self.is_first and step:
            # Whoever has told something in this step has read what was told in the last one.
            self._refits.forget(self._refit, step - 1)
        reported = self._refits.reported
        return [
            part
            for place in range(self.count)
            for part in (listed if place == self.place else reported(self._refit, step, place))
        ]

    def _wait_for(self, step: int) -> None:
        pause, begun, looked = _FIRST_PAUSE, monotonic(), monotonic()
        while len(self._refits.reporters(self._refit, step)) < self.count:
            if monotonic() - looked > _LOOK_SECONDS:
                looked = monotonic()
                self._look(step, looked - begun)
            if self._stop.wait(pause):
                raise PeerLost("this worker is to stop")
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _look(self, step: int, waited: float) -> None:
        # Who has told what there is to tell may have gone since: there is no step after its last.
        reported = self._refits.reporters(self._refit, step)
        awaited = [each for place, each in enumerate(self._members) if place not in reported]
        gone, stopped = self._refits.gone(awaited), self._refits.stopped(self._refit)
        if stopped is not None and stopped.startswith(_ALONE):
            raise NotDivided(stopped.removeprefix(_ALONE))
        if gone or stopped or waited > _STEP_SECONDS:
            lost = ", ".join(member.lease for member in gone)
            raise PeerLost(stopped or (f"{lost} has gone" if lost else "a step takes too long"))


@dataclass(slots=True)
class Together:
    """One worker's part in refits of several; `lease` proves that it may call the others.

    `beat` is called while it helps, about three times in the life of a lease. From `worth_it`
    campaigns or `clicks_worth_it` clicks on, others are called: those of the same `code`, a digest.
    """

    settings: Settings
    client: redis.Redis
    bins: BinsStore
    methods: Methods
    holder: str
    lease: Callable[[], LeaseToken]
    share: ShardShare
    beat: Callable[[], object]
    delayed: DelayedTargets | None = None
    worth_it: int = WORTH_IT
    clicks_worth_it: int = CLICKS_WORTH_IT
    stop: Event = field(default_factory=Event)
    code: str = field(init=False)
    _refits: JointRefits = field(init=False)
    _answered: str = ""

    def __post_init__(self) -> None:
        self._refits, self.code = JointRefits(self.client), code_in(Path(__file__).parents[2])
        self.methods.together = self.refit
        if self.delayed is not None:
            self.delayed.together = self.read

    def refit(
        self, target: str, calibrator: str, history: History, memory: object, trial: bool
    ) -> Fitted | None:
        """What the method makes of the history, with the help of others; None where there are none,
        too few campaigns for them, or a history that cannot be divided: it is to be fitted alone.
        """
        if not isinstance(history, StoredHistory):
            return None
        if not self.share.others() or self._size(history) < self.worth_it:
            return None
        hours, window = history.blocks.stored.hours, history.blocks.window
        reported = (0, 0) if window.complete else (window.hours.start, window.hours.stop)
        call = Call(
            "",
            # Of maps on trial that whose events they are fitted to.
            history.blocks.stored.target,
            calibrator,
            history.as_of,
            hours.start,
            hours.stop,
            trial,
            reported,
            self._likeness(),
        )

        def fit(peers: Peers) -> Fitted:
            fitted, scores = self._fitted(call, history, peers, memory)
            if scores is not None:
                window.found, window.complete = scores, True
            return fitted

        return self._with_others(call, fit)

    def read(self, target: str, as_of: float, model: str, span: Span) -> ScoredClicks | None:
        """A span's clicks of a delayed target, scored by the model of a version, with the help of
        others; None where there are none, or too few clicks for them."""
        if self.delayed is None or not self.share.others():
            return None
        hours = self.delayed.own_log.clicks_by_hour(*span)
        read = self.delayed.reader(target, as_of, model)
        if read is None or sum(hours.values()) < self.clicks_worth_it:
            return None
        call = Call("", target, "", as_of, 0, 0, False, (0, 0), self._likeness(), model=model)
        return self._with_others(
            call, lambda peers: read_together(target, read, peers, pieces(span, hours, peers.count))
        )

    def _with_others(self, call: Call, work: Callable[[Peers], Found]) -> Found | None:
        """What comes of it together, tried some times; None where others do not come."""
        for _ in range(_TRIES):
            if not self.share.others():
                return None
            try:
                return self._tried(call._replace(id=uuid4().hex), work)
            except PeerLost as reason:
                _log.warning("the refit of %s begins anew: %s", call.target, reason)
            except NotDivided as reason:
                _log.info("%s is refitted by one worker: %s", call.target, reason)
                return None
        return None

    def _tried(self, call: Call, work: Callable[[Peers], Found]) -> Found | None:
        members = [Member(self.lease().name, self.lease().value), *self._who_comes(call)]
        if len(members) == 1:
            return None
        self._refits.call(call._replace(members=members))
        _log.info("%s is refitted by %d workers", call.target, len(members))
        # It goes on to the end, as one worker does, whoever asks it to stop.
        peers = StorePeers(self._refits, call.id, members, 0, Event())
        try:
            with self._stopping(call.id):
                return work(peers)
        finally:
            self._refits.end(call.id, peers.step - 1)

    def _fitted(
        self, call: Call, history: StoredHistory, peers: Peers, memory: object = None
    ) -> tuple[Fitted, TargetScorecards | None]:
        """What all make together, and the scores of all where a report is made; for who leads."""
        method, own = self.methods.of(call.calibrator), self._own(history, peers, call)
        fitted = refit_by_version(method, own, memory=memory, trial=call.trial)
        # What any of them has set aside stands in the report of who leads.
        damage = peers.gather([(as_array(self.bins.damage.found),)], to_first=True)
        self.bins.damage.found = [each for (found,) in damage for each in listed_in(found)]
        return fitted, self._scores(call, own) if own.blocks.window.hours else None

    @contextmanager
    def _stopping(self, refit: str) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # `JobCancelled` too: nobody is to wait for it.
            alone = isinstance(error, NotDivided) and not isinstance(error, PeerLost)
            self._refits.stop(refit, f"{_ALONE if alone else ''}{error}")
            raise

    def _who_comes(self, call: Call) -> list[Member]:
        """Those who have come when all have, or when one has had time enough to."""
        others, begun = min(self.share.others(), len(PLACES)), monotonic()
        # Who holds a place before there is a call has died with it.
        dead = self._refits.came()
        self._refits.call(call)
        while len(came := self._refits.came(dead)) < others and monotonic() - begun < _CALL_SECONDS:
            sleep(_LONGEST_PAUSE)
        return came

    def help(self) -> bool:
        """Take part in a refit that this worker is called to, if there is one."""
        call = self._refits.called()
        if call is None or call.members or call.id == self._answered:
            return False
        self._answered = call.id
        work = self._work(call)
        if work is None:
            return False
        # A store that stands still for some seconds must not undo the work of all.
        life = 2 * self.settings.lease_seconds
        free = (Lease(self.client, place, self.holder, life) for place in PLACES)
        lease = next((each for each in free if each.acquire()), None)
        if lease is None:
            return False
        try:
            with LeaseKeeper(lease, life, self.beat):
                self._help(call, Member(lease.token.name, lease.token.value), work)
        except NotDivided as reason:
            _log.info("helping with %s ends: %s", call.target, reason)
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception:
            _log.exception("helping with %s failed", call.target)
        finally:
            lease.release()
        return True

    def _work(self, call: Call) -> Callable[[Peers], object] | None:
        """This worker's part; None where it cannot do it."""
        if call.likeness != self._likeness():
            _log.warning("a refit of workers with other settings or code is left to them")
            return None
        if call.model:
            about = call.target, call.as_of, call.model
            read = None if self.delayed is None else self.delayed.reader(*about)
            return None if read is None else partial(read_together, call.target, read)
        bins = self.bins.history(call.target, call.first, call.behind)
        history = StoredHistory(call.as_of, ReadBlocks(bins, RawWindow.none()))
        return partial(self._fitted, call, history)

    def _help(self, call: Call, member: Member, work: Callable[[Peers], object]) -> None:
        members = self._members(call)
        if member not in members:
            return
        peers = StorePeers(self._refits, call.id, members, members.index(member), self.stop)
        with self._stopping(call.id):
            work(peers)
        _log.info("helped with the refit of %s", call.target)

    def _own(self, history: StoredHistory, peers: Peers, call: Call) -> StoredHistory:
        """That of its own shards, and what there is to report of them."""
        shards = shards_of_worker(peers.place, peers.count)
        stored = replace(history.blocks.stored, shards=shards)
        window = RawWindow(range(*call.report), self.settings.top_campaigns)
        return replace(history, blocks=ReadBlocks(stored, window), peers=peers)

    def _scores(self, call: Call, own: StoredHistory) -> TargetScorecards:
        """Those of all, for who leads. The top campaigns, which those who have read their scores
        know, may be in shards whose served probabilities another reads."""
        window, peers, shards = own.blocks.window, own.peers, own.blocks.stored.shards
        report, found = TargetReport(self.settings, self.bins), window.begin()
        if window.found is not None:
            for (entries,) in peers.gather([(as_array(window.found.top.entries),)]):
                window.found.top.join(listed_in(entries))
            shards = shards_of_worker(peers.place, peers.count, report=True)
        sums = report.scores(call.target, window, shards).sums
        found.join(list(peers.gather(sums, to_first=True)))
        return found

    def _members(self, call: Call) -> Sequence[Member]:
        """Those who have come, told by who called; none where it does not go on."""
        begun = monotonic()
        while monotonic() - begun < 10 * COME_SECONDS and not self.stop.wait(_LONGEST_PAUSE):
            now = self._refits.called()
            if now is None or now.id != call.id:
                return ()
            if now.members:
                return now.members
        return ()

    def _size(self, history: StoredHistory) -> int:
        """Campaigns of the newest hour that is over, about as many as there are."""
        target, hour = history.blocks.stored.target, int(history.as_of) - 1
        return sum(map(len, self.bins.shards_of_hour(target, hour)))

    def _likeness(self) -> str:
        needed = [self.code, sorted(self.settings.attribution_hours.items())]
        needed += (getattr(self.settings, name) for name in _NEEDED)
        return sha256(repr(needed).encode()).hexdigest()[:16]


@cache
def code_in(folder: Path) -> str:
    """A digest of the code that refits run, read once: two builds of one version number may divide
    shards in two ways, and what neither takes would lose its maps."""
    found = (path for name in _CODE for path in sorted((folder / name).rglob("*.py")))
    return sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


_BESIDES, _REPORT = 2.2, 0.18
"""What the first does alone, such as the guard, and the report of a shard, as multiples of what
fitting a shard costs; about what `python -m benchmarks together` shows."""


def shards_of_worker(place: int, count: int, *, report: bool = False) -> range:
    """Shards that one of several workers fits, or reports, one worker's after the other's. Who has
    least to do takes the next: what a fit's whole shards leave uneven, reports even."""
    loads, dealt = [_BESIDES, *[0.0] * (count - 1)], [0] * count
    for cost in (1.0, _REPORT)[: 1 + report]:
        dealt = [0] * count
        for _ in range(SHARDS):
            least = loads.index(min(loads))
            loads[least] += cost
            dealt[least] += 1
    return range(sum(dealt[:place]), sum(dealt[: place + 1]))


_LABELS = 0.5
"""What the labels of a click cost the first besides, as a multiple of what it costs to read and
score it."""
_AT_ONCE = 64_000_000
"""Bytes of a message, about half a million clicks."""


def pieces(span: Span, hours: Mapping[int, int], count: int) -> Floats:
    """Bounds between the clicks that each of several workers reads, (count + 1,): whole hours of a
    span, given how many clicks each has; about as many for each, but for the first."""
    own = max(0.0, (1.0 + _LABELS) / count - _LABELS)
    wanted = own + (1.0 - own) * np.arange(count - 1) / (count - 1)
    begins, clicks = np.array(sorted(hours.items()), np.float64).T
    middles = np.cumsum(clicks) - clicks / 2
    starts = np.append(begins * SECONDS_PER_HOUR, span[1])
    bounds = starts[np.searchsorted(middles, wanted * clicks.sum())]
    return np.concatenate(([span[0]], np.clip(bounds, *span), [span[1]]))


def read_together(
    target: str, read: ReadSpan, peers: Peers, bounds: Floats | None = None
) -> ScoredClicks | None:
    """A span's clicks, of which each worker reads those between two of the bounds of the first, who
    gets all; None for the others. It is what one worker alone finds: raises `NotDivided` where
    parts do not tell that."""
    (at,) = peers.from_first(np.empty(0) if bounds is None else bounds)
    own = read((float(at[peers.place]), float(at[peers.place + 1])))
    # A feature that has changed its kind is missing in the older clicks: where these are read alone
    # the model cannot score them.
    if len(set(peers.names([own.source.source]))) > 1:
        raise NotDivided("the model cannot score the clicks of all hours")
    parts = peers.collected(own.packed(target), _AT_ONCE)
    return own.joined(target, parts) if peers.is_first else None
