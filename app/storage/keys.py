"""Every key that sirocco keeps in Redis, and how campaigns are spread over shards.

The braces are Redis Cluster's hash tags: keys of one shard live in one slot, and so do the keys of
maps, versions, leases and jobs, which scripts move together.

    sirocco:{07}:log:<hour>:<target>      list of packed blocks that are not folded yet
    sirocco:{07}:logs                     set of "<hour>:<target>": the logs that hold blocks
    sirocco:{07}:hours                    sorted set of "<hour>:<target>" by time of expiry
    sirocco:{07}:seen:<hour>:<target>     set of the ids of events that were stored
    sirocco:{07}:bins:<hour>:<target>     hash: folds (a counter), table (the bytes of a BinsTable)
    sirocco:{07}:judged:<hour>:<target>   bytes of a BinsTable of calibrated probabilities
    sirocco:{07}:damaged                  list of blocks that nobody could read
    sirocco:{07}:click:<click id>         hash: an open click, or behaviours that wait for one
    sirocco:{07}:open                     sorted set of click ids by the time to close them
    sirocco:{07}:waiting                  sorted set of click ids that behaviours wait for, by the
                                          time to give up
    sirocco:{07}:clicked:<hour>           hash: id of every click of the hour -> d if it is of a
                                          delayed target, else i; then its campaign
    sirocco:{07}:conversions:<hour>:<target>  list of packed blocks for the click log
    sirocco:{07}:conversion_logs          set of "<hour>:<target>": which of those lists hold blocks
    sirocco:{07}:converted:<hour>:<target>  set of "<time>:<click id>": conversions that were stored
    sirocco:{maps}:features               hash: name of a pre-click feature -> n, a number, or s
    sirocco:{maps}:clicks                 hash of counters: closed, orphans and more
    sirocco:{maps}:overrides              hash: <target>:<campaign> -> the campaign's calibrator
    sirocco:{maps}:request:<key>          fingerprint of the request stored under an Idempotency-Key
    sirocco:{maps}:current                the version in force
    sirocco:{maps}:history                list of the versions kept, newest first
    sirocco:{maps}:sequence               counter of versions
    sirocco:{maps}:version:<version>      hash: manifest, report, chunks of atlases
    sirocco:{maps}:published              channel: notice of each new version
    sirocco:{maps}:lease:<name>           the token of who holds the lease
    sirocco:{maps}:fence:<name>           counter of leases granted
    sirocco:{maps}:job:<id>               hash: one job
    sirocco:{maps}:jobs:queued            list of job ids, oldest first
    sirocco:{maps}:jobs:running           set of job ids
    sirocco:{maps}:jobs:same              hash: what a queued job asks for -> its id
    sirocco:{maps}:jobs:sequence          counter of jobs
    sirocco:{maps}:heartbeat              JSON: the worker's last sign of life
    sirocco:{maps}:models:<target>        list of the post-click models kept, newest first
    sirocco:{maps}:model:<target>:<version>   hash: manifest, contents, chunks of the model
    sirocco:{maps}:models                 counter of post-click models
    sirocco:{maps}:training:<target>:<as_of>  how often that training has been begun

An hour is the whole number floor(epoch seconds / 3600). Events that name a click are kept in the
shard of its id, all others in the shard of their campaign.
"""

from collections.abc import Collection
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

SHARDS = 16
"""Number of shards. Fixed: another number would look for stored bins in the wrong place."""

CURRENT = "sirocco:{maps}:current"
HISTORY = "sirocco:{maps}:history"
SEQUENCE = "sirocco:{maps}:sequence"
PUBLISHED = "sirocco:{maps}:published"
JOBS_QUEUED = "sirocco:{maps}:jobs:queued"
JOBS_RUNNING = "sirocco:{maps}:jobs:running"
JOBS_SAME = "sirocco:{maps}:jobs:same"
JOBS_SEQUENCE = "sirocco:{maps}:jobs:sequence"
HEARTBEAT = "sirocco:{maps}:heartbeat"
FEATURES = "sirocco:{maps}:features"
OVERRIDES = "sirocco:{maps}:overrides"
CLICK_COUNTERS = "sirocco:{maps}:clicks"

# Formats of a shard that Python and Lua read alike: append.lua fills them in itself.
CLICK = "sirocco:{%02d}:click:"
CLICKED = "sirocco:{%02d}:clicked:"
OPEN_CLICKS = "sirocco:{%02d}:open"
WAITING = "sirocco:{%02d}:waiting"
MODEL_SEQUENCE = "sirocco:{maps}:models"


def shard_of(name: str) -> int:
    """The shard that holds a campaign's events and bins, or what is known of a click by its id."""
    return crc32(name.encode()) % SHARDS


def shards_of(names: Collection[str]) -> NDArray[np.int64]:
    """`shard_of` each of m names, as an array (m,)."""
    # Nothing but C is called: requests bring thousands of names.
    return np.fromiter(map(crc32, map(str.encode, names)), np.int64, len(names)) % SHARDS


class TargetHour(NamedTuple):
    """One hour of one target within one shard: what a log and its bins are kept for."""

    shard: int
    target: str
    hour: int

    @classmethod
    def from_member(cls, shard: int, member: bytes) -> "TargetHour":
        """The inverse of `member`."""
        hour, _, target = member.decode().partition(":")
        return cls(shard, target, int(hour))

    @property
    def member(self) -> str:
        """How the shard's sets of logs and hours name it; a target may hold colons."""
        return f"{self.hour}:{self.target}"

    @property
    def log(self) -> str:
        """Key of the blocks that are not folded yet."""
        return f"{_shard(self.shard)}:log:{self.member}"

    @property
    def seen(self) -> str:
        """Key of the ids of events that were stored."""
        return f"{_shard(self.shard)}:seen:{self.member}"

    @property
    def bins(self) -> str:
        """Key of the folded bins."""
        return f"{_shard(self.shard)}:bins:{self.member}"

    @property
    def calibrated(self) -> str:
        """Key of the bins of calibrated probabilities."""
        return f"{_shard(self.shard)}:judged:{self.member}"


class ConversionHour(NamedTuple):
    """One hour of conversions of one target within one shard: what a log is kept for."""

    shard: int
    target: str
    hour: int

    @classmethod
    def from_member(cls, shard: int, member: bytes) -> "ConversionHour":
        """The inverse of `member`."""
        hour, _, target = member.decode().partition(":")
        return cls(shard, target, int(hour))

    @property
    def member(self) -> str:
        """How the shard's set of logs names it."""
        return f"{self.hour}:{self.target}"

    @property
    def log(self) -> str:
        """Key of the blocks that nobody took yet."""
        return f"{_shard(self.shard)}:conversions:{self.member}"

    @property
    def converted(self) -> str:
        """Key of the conversions that were stored."""
        return f"{_shard(self.shard)}:converted:{self.member}"


def logs(shard: int) -> str:
    """Key of the set of logs that hold blocks."""
    return f"{_shard(shard)}:logs"


def hours(shard: int) -> str:
    """Key of the sorted set of hours that hold events."""
    return f"{_shard(shard)}:hours"


def damaged(shard: int) -> str:
    """Key of the list of blocks that nobody could read."""
    return f"{_shard(shard)}:damaged"


def click(shard: int, click_id: str) -> str:
    """Key of one open click; with an empty id, the prefix of all of the shard."""
    return CLICK % shard + click_id


def open_clicks(shard: int) -> str:
    """Key of the sorted set of open clicks."""
    return OPEN_CLICKS % shard


def waiting(shard: int) -> str:
    """Key of the sorted set of clicks that behaviours wait for."""
    return WAITING % shard


def clicked(shard: int, hour: int) -> str:
    """Key of the ids of an hour's clicks, open or closed."""
    return f"{CLICKED % shard}{hour}"


def conversion_logs(shard: int) -> str:
    """Key of the set of logs that hold conversions."""
    return f"{_shard(shard)}:conversion_logs"


def request(idempotency_key: str) -> str:
    """Key of the record of one request."""
    return f"sirocco:{{maps}}:request:{idempotency_key}"


def version(version: str) -> str:
    """Key of one version; with an empty name, the prefix of all versions."""
    return f"sirocco:{{maps}}:version:{version}"


def lease(name: str) -> str:
    """Key of one lease."""
    return f"sirocco:{{maps}}:lease:{name}"


def fence(name: str) -> str:
    """Key of the counter of grants of one lease."""
    return f"sirocco:{{maps}}:fence:{name}"


def job(job_id: str) -> str:
    """Key of one job; with an empty id, the prefix of all jobs."""
    return f"sirocco:{{maps}}:job:{job_id}"


def models(target: str) -> str:
    """Key of the list of a target's post-click models."""
    return f"sirocco:{{maps}}:models:{target}"


def model(target: str, version: str) -> str:
    """Key of one post-click model; with an empty version, the prefix of the target's."""
    return f"sirocco:{{maps}}:model:{target}:{version}"


def training(target: str, as_of: float) -> str:
    """Key of the count of trainings of a target as of one moment."""
    return f"sirocco:{{maps}}:training:{target}:{as_of:.0f}"


def _shard(shard: int) -> str:
    return f"sirocco:{{{shard:02d}}}"
