"""Every key that sirocco keeps in Redis, and how campaigns are spread over shards.

The braces are Redis Cluster's hash tags: keys of one shard live in one slot, and so do the keys of
maps, versions, leases and jobs, which scripts move together.

    sirocco:{07}:log:<hour>:<target>      list of packed blocks that are not folded yet
    sirocco:{07}:folding:<hour>:<target>  how far the log is folded, `statistics/folding.py`
    sirocco:{07}:logs                     set of sealed "<hour>:<target>": the logs that hold blocks
    sirocco:{07}:hours                    sorted set of the same names by time of expiry
    sirocco:{07}:ids:<hour>:<target>      set of the hashes of the ids of events that were stored
    sirocco:{07}:ids_moved:<hour>:<target>  the same, while the worker packs them
    sirocco:{07}:ids_staged:<packer>:<hour>:<target>  hash: the blocks that it makes of them
    sirocco:{07}:ids_packed:<hour>:<target>  hash: blocks of hashes, `ids.py`
    sirocco:{07}:seen:<hour>:<target>     set of ids as they were stored before there were hashes
    sirocco:{07}:bins:<hour>:<target>     hash: folds (a counter), table (the bytes of a BinsTable),
                                          from (the last batch that it has of each shard's log),
                                          and of each breakdown that there is the same by its name;
                                          loaded:<partition>: the digest of bins that were loaded
    sirocco:{07}:judged:<hour>:<target>   bytes of a BinsTable of calibrated probabilities
    sirocco:{07}:evidence:<target>        bytes: which campaigns are off, `bins.py`
    sirocco:{07}:damaged                  list of what nobody could read: blocks, names
    sirocco:{07}:damaged:<rest of a key>  what was found under the key, and nobody could read
    sirocco:{07}:click:<click id>         hash: an open click, or behaviours that wait for one
    sirocco:{07}:open                     sorted set of click ids by the time to close them
    sirocco:{07}:waiting                  sorted set of click ids that behaviours wait for, by the
                                          time to give up
    sirocco:{07}:clicked:<hour>           hash: id of every click of the hour -> d if it is of a
                                          delayed target, else i; then its campaign
    sirocco:{07}:conversions:<hour>:<target>  list of packed blocks for the click log
    sirocco:{07}:conversion_logs          set of sealed names: which of those lists hold blocks
    sirocco:{07}:converted:<hour>:<target>  set of "<time>:<click id>": conversions that were stored
    sirocco:{07}:clicks                   hash of counters: closed, orphans and more
    sirocco:{07}:features                 in a cluster, what {maps}:features is elsewhere
    sirocco:{07}:request:<key>            in a cluster, what {maps}:request is elsewhere
    sirocco:{07}:probe                    in a cluster, what {maps}:probe is elsewhere
    sirocco:{maps}:evidence:<target>      bytes: the same of the target as a whole
    sirocco:{maps}:loads:<hour>:<target>  hash: partition of loaded bins -> their digest
    sirocco:{maps}:unit_days:<target>     hash: day -> bytes: what units did, `breakdowns.py`
    sirocco:{maps}:features               hash: name of a pre-click feature -> n, a number, or s
    sirocco:{maps}:clicks                 the same counters, of before each shard had its own
    sirocco:{maps}:damage                 hash: kind of what was damaged -> how often; at -> last
    sirocco:{maps}:click_log              sealed id of the click log that clicks are closed into
    sirocco:{maps}:overrides              hash: <target>:<campaign> -> the campaign's calibrator
    sirocco:{maps}:request:<key>          fingerprint of the request stored under an Idempotency-Key
    sirocco:{maps}:current                the version in force
    sirocco:{maps}:history                list of the versions kept, newest first
    sirocco:{maps}:sequence               counter of versions
    sirocco:{maps}:version:<version>      hash: manifest, report, chunks of atlases
    sirocco:{maps}:held                   which version waits for approval, and why; lives for a day
    sirocco:{maps}:frozen                 hash: target, or <target>:<campaign> -> sealed time since
                                          which no refit replaces its maps
    sirocco:{maps}:freezes                counter of freezes
    sirocco:{maps}:published              channel: notice of each new version
    sirocco:{maps}:lease:<name>           the token of who holds the lease
    sirocco:{maps}:fence:<name>           counter of leases granted
    sirocco:{maps}:job:<id>               hash: one job
    sirocco:{maps}:jobs:queued            list of job ids, oldest first
    sirocco:{maps}:jobs:running           set of job ids
    sirocco:{maps}:jobs:same              hash: what a queued job asks for -> its id
    sirocco:{maps}:jobs:sequence          counter of jobs
    sirocco:{maps}:heartbeat              JSON: the worker's last sign of life
    sirocco:{maps}:joint_refit            sealed JSON: a refit that workers are called to
    sirocco:{maps}:joint_refit:<id>:<step>  hash: what each has reported in a step, `lease.py`
    sirocco:{maps}:models:<target>        list of the post-click models kept, newest first
    sirocco:{maps}:model:<target>:<version>   hash: manifest, contents, chunks of the model
    sirocco:{maps}:probe                  a tiny write, to see whether the server takes any
    sirocco:{maps}:models                 counter of post-click models
    sirocco:{maps}:api_keys               hash: id of an API key -> JSON: its digest and scopes
    sirocco:{maps}:audit                  list of JSON: the changes by admins, oldest first
    sirocco:{maps}:audit:head             "<number> <digest>" of the last of them
    sirocco:{maps}:training:<target>:<as_of>  how often that training has been begun

The target of a log, ids and bins is `product:<name>` for the impressions that are trials of a
product of targets, `outcomes:<name>` for outcomes that are sent of it.

Sealed text has its checksum before it (`seal`). An hour is the whole number
floor(epoch seconds / 3600). Bins are kept in the shard of their campaign, and so are the logs and
ids of events with ids. Events that name a click are kept in the shard of its id, all others of a
request in the log of one shard, whichever: folding takes each to the shard of its campaign.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from math import ceil, floor
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from app.settings import SECONDS_PER_HOUR
from calibrators.arms import ARMS
from calibrators.bins.codecs import SEPARATOR, campaign_of, campaigns_of

SHARDS = 16
"""Number of shards. Fixed: another number would look for stored bins in the wrong place."""

BREAKDOWNS = (*ARMS, "bid", "money", "units", "unit_money")
"""The sums that are kept beside the bins of an hour, see `breakdowns.py`."""

CURRENT = "sirocco:{maps}:current"
HISTORY = "sirocco:{maps}:history"
SEQUENCE = "sirocco:{maps}:sequence"
HELD = "sirocco:{maps}:held"
FROZEN = "sirocco:{maps}:frozen"
FREEZES = "sirocco:{maps}:freezes"
PUBLISHED = "sirocco:{maps}:published"
JOBS_QUEUED = "sirocco:{maps}:jobs:queued"
JOBS_RUNNING = "sirocco:{maps}:jobs:running"
JOBS_SAME = "sirocco:{maps}:jobs:same"
JOBS_SEQUENCE = "sirocco:{maps}:jobs:sequence"
HEARTBEAT = "sirocco:{maps}:heartbeat"
API_KEYS = "sirocco:{maps}:api_keys"
AUDIT = "sirocco:{maps}:audit"
AUDIT_HEAD = "sirocco:{maps}:audit:head"
FEATURES = "sirocco:{maps}:features"
CLICK_LOG = "sirocco:{maps}:click_log"
OVERRIDES = "sirocco:{maps}:overrides"
JOINT_REFIT = "sirocco:{maps}:joint_refit"
FORMER_CLICK_COUNTERS = "sirocco:{maps}:clicks"
DAMAGE = "sirocco:{maps}:damage"
MODEL_SEQUENCE = "sirocco:{maps}:models"

# Formats of a shard that Python and Lua read alike: append.lua fills them in itself.
CLICK = "sirocco:{%02d}:click:"
CLICKED = "sirocco:{%02d}:clicked:"
OPEN_CLICKS = "sirocco:{%02d}:open"
WAITING = "sirocco:{%02d}:waiting"
CLICK_COUNTERS = "sirocco:{%02d}:clicks"
SHARD_FEATURES = "sirocco:{%02d}:features"

# Of a shard's number.
open_clicks, waiting, click_counters = OPEN_CLICKS.__mod__, WAITING.__mod__, CLICK_COUNTERS.__mod__
logs = "sirocco:{{{:02d}}}:logs".format
hours = "sirocco:{{{:02d}}}:hours".format
damaged = "sirocco:{{{:02d}}}:damaged".format
conversion_logs = "sirocco:{{{:02d}}}:conversion_logs".format
_of_target_hour = "sirocco:{{{:02d}}}:{}:{}".format


probe = "sirocco:{{{}}}:probe".format
PROBE = probe("maps")


def set_aside(key: str) -> str:
    """Where a key goes that cannot be read; in the same slot."""
    slot, _, rest = key.removeprefix("sirocco:").partition(":")
    return f"sirocco:{slot}:damaged:{rest}"


# Of a name; with an empty one, the prefix of all of the kind.
request = "sirocco:{{maps}}:request:{}".format
shard_request = "sirocco:{{{:02d}}}:request:{}".format
version = "sirocco:{{maps}}:version:{}".format
lease = "sirocco:{{maps}}:lease:{}".format
fence = "sirocco:{{maps}}:fence:{}".format
job = "sirocco:{{maps}}:job:{}".format
models = "sirocco:{{maps}}:models:{}".format

# Of a product of targets: what its trials are counted under, as if it were a target.
product = "product:{}".format
# The same of outcomes that are sent of a product, which are events.
product_outcomes = "outcomes:{}".format
# Of a target.
unit_days = "sirocco:{{maps}}:unit_days:{}".format

# Of an hour and a target.
loads = "sirocco:{{maps}}:loads:{}:{}".format
# Of a partition of bins that were loaded, as 16 hexadecimal digits: a field beside the bins.
loaded = "loaded:{}".format
IS_LOADED = re.compile("loaded:[0-9a-f]{16}").fullmatch
"""Whether a field beside the bins says which bins were loaded."""

# Of a refit of several workers, and of a step of it.
joint_refit = "sirocco:{{maps}}:joint_refit:{}:{}".format

# Of a target, and of a model's version or the moment of a training.
model = "sirocco:{{maps}}:model:{}:{}".format
training = "sirocco:{{maps}}:training:{}:{:.0f}".format


def shard_of(name: str) -> int:
    """The shard that holds a campaign's events and bins, or what is known of a click by its id."""
    return crc32(name.encode()) % SHARDS


def shard_of_campaign(name: str) -> int:
    """The shard of a campaign, in which those of all versions of the model are, too."""
    return shard_of(campaign_of(name) if SEPARATOR in name else name)


def shards_of(names: Collection[str]) -> NDArray[np.int64]:
    """`shard_of_campaign` of m names, as an array (m,)."""
    names = campaigns_of([*names])
    # Nothing but C is called: requests bring thousands of names.
    return np.fromiter(map(crc32, map(str.encode, names)), np.int64, len(names)) % SHARDS


_FORMER_MEMBER = re.compile(r"[0-9]{1,9}:[a-z][a-z0-9_]{0,63}")


def closed_hours(as_of: float) -> int:
    """The first hour that is not over at as_of: hours below it are closed."""
    return floor(as_of / SECONDS_PER_HOUR)


def begun_hours(as_of: float) -> int:
    """The first hour that has not begun at as_of: hours below it may hold events."""
    return ceil(as_of / SECONDS_PER_HOUR)


class _Key:
    """The key of this kind of a target's hour in its shard."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __get__(self, kept: "TargetHour", owner: object) -> str:
        return _of_target_hour(kept.shard, self.kind, kept.name)


class _TargetHour(NamedTuple):
    shard: int
    target: str
    hour: int


class TargetHour(_TargetHour):
    """One hour of one target within one shard: what a log and its bins are kept for."""

    __slots__ = ()

    @classmethod
    def from_member(cls, shard: int, member: bytes) -> "TargetHour":
        """The inverse of `member`; reads bare names, too. ValueError on any other bytes."""
        hour, _, target = unseal(member, str(shard), _FORMER_MEMBER).partition(":")
        return cls(shard, target, int(hour))

    @property
    def name(self) -> str:
        """What ends the names of its keys; a target may hold colons."""
        return f"{self.hour}:{self.target}"

    @property
    def member(self) -> str:
        """How the shard's sets of logs and hours name it."""
        return seal(self.name, str(self.shard))

    @property
    def checksum(self) -> int:
        """What the checksums of its blocks and bins begin with: none fits into another's place."""
        return crc32(f"{self.shard}:{self.name}".encode())

    # Keys, of:
    log = _Key("log")  # the blocks that are not folded yet
    folding = _Key("folding")  # how far they are folded
    ids = _Key("ids")  # the hashes of the ids of events that were stored
    moved_ids = _Key("ids_moved")  # those that the worker packs
    packed_ids = _Key("ids_packed")  # those that are packed
    seen = _Key("seen")  # the ids that were stored before there were hashes
    bins = _Key("bins")  # the folded bins
    calibrated = _Key("judged")  # the bins of calibrated probabilities
    conversions = _Key("conversions")  # the blocks of conversions that nobody took yet
    converted = _Key("converted")  # the conversions that were stored

    def staged_ids(self, packer: str) -> str:
        """Key of what the worker makes of the ids that it packs."""
        return _of_target_hour(self.shard, f"ids_staged:{packer}", self.name)


def logs_named(shard: int, members: Iterable[bytes]) -> Iterator[TargetHour]:
    """The logs that members of a shard's sets name; what is no name of a log is passed over."""
    for member in members:
        with suppress(ValueError):
            yield TargetHour.from_member(shard, member)


def evidence(target: str, shard: int | None) -> str:
    """Key of what is known about the calibration of a shard's campaigns, or of the target."""
    slot = "maps" if shard is None else f"{shard:02d}"
    return f"sirocco:{{{slot}}}:evidence:{target}"


def click(shard: int, click_id: str) -> str:
    """Key of one open click; with an empty id, the prefix of all of the shard."""
    return CLICK % shard + click_id


_HEAD = re.compile(r"2:([0-9a-f]{8}):")


def seal(text: str, about: str = "") -> str:
    """A short text behind its checksum: 2:<CRC-32 in 8 hexadecimal digits>:<text>.

    The 2 is the schema_version. The checksum also covers what the text is about, such as the key or
    the field that it is stored under, so that text in a wrong place is noticed, too.
    """
    return f"2:{_checksum(text, about)}:{text}"


_NO_FORMER = re.compile("(?!)")


def unseal(data: bytes | str, about: str, former: re.Pattern[str] = _NO_FORMER) -> str:
    """The text that was sealed, or one of version 1 that matches `former` as a whole, where there
    was such a version; ValueError on all else."""
    text = data if isinstance(data, str) else data.decode()
    head = _HEAD.match(text)
    if head is not None:
        found = text[head.end() :]
        if head[1] == _checksum(found, about):
            return found
    elif former.fullmatch(text):
        return text
    raise ValueError(f"the checksum of {text[:80]!r} is wrong")


def _checksum(text: str, about: str) -> str:
    return f"{crc32(text.encode(), crc32(about.encode())):08x}"
