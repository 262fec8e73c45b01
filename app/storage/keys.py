"""Every key that sirocco keeps in Redis, and how campaigns are spread over shards.

The braces are Redis Cluster's hash tags: keys of one shard live in one slot, and so do the keys of
maps, versions, leases and jobs, which scripts move together.

    sirocco:{07}:log:<hour>:<target>      list of packed blocks that are not folded yet
    sirocco:{07}:logs                     set of "<hour>:<target>": the logs that hold blocks
    sirocco:{07}:hours                    sorted set of "<hour>:<target>" by time of expiry
    sirocco:{07}:seen:<hour>:<target>     set of the ids of events that were stored
    sirocco:{07}:bins:<hour>:<target>     hash: folds (a counter), table (the bytes of a BinsTable)
    sirocco:{07}:judged:<hour>:<target>   bytes of a BinsTable of calibrated probabilities
    sirocco:{07}:damaged                  list of blocks that no fold could read
    sirocco:{maps}:request:<key>          fingerprint of the request stored under an Idempotency-Key
    sirocco:{maps}:current                the version in force
    sirocco:{maps}:history                list of the versions kept, newest first
    sirocco:{maps}:sequence               counter of versions
    sirocco:{maps}:version:<version>      hash: manifest, report, chunks of atlases
    sirocco:{maps}:lease:<name>           the token of who holds the lease
    sirocco:{maps}:fence:<name>           counter of leases granted
    sirocco:{maps}:job:<id>               hash: one job
    sirocco:{maps}:jobs:queued            list of job ids, oldest first
    sirocco:{maps}:jobs:running           set of job ids
    sirocco:{maps}:jobs:same              hash: what a queued job asks for -> its id
    sirocco:{maps}:jobs:sequence          counter of jobs
    sirocco:{maps}:heartbeat              JSON: the worker's last sign of life

An hour is the whole number floor(epoch seconds / 3600).
"""

from typing import NamedTuple
from zlib import crc32

SHARDS = 16
"""Number of shards. Fixed: another number would look for stored bins in the wrong place."""

CURRENT = "sirocco:{maps}:current"
HISTORY = "sirocco:{maps}:history"
SEQUENCE = "sirocco:{maps}:sequence"
JOBS_QUEUED = "sirocco:{maps}:jobs:queued"
JOBS_RUNNING = "sirocco:{maps}:jobs:running"
JOBS_SAME = "sirocco:{maps}:jobs:same"
JOBS_SEQUENCE = "sirocco:{maps}:jobs:sequence"
HEARTBEAT = "sirocco:{maps}:heartbeat"


def shard_of(campaign: str) -> int:
    """The shard that holds a campaign's events and bins."""
    return crc32(campaign.encode()) % SHARDS


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
    def judged(self) -> str:
        """Key of the bins of calibrated probabilities."""
        return f"{_shard(self.shard)}:judged:{self.member}"


def logs(shard: int) -> str:
    """Key of the set of logs that hold blocks."""
    return f"{_shard(shard)}:logs"


def hours(shard: int) -> str:
    """Key of the sorted set of hours that hold events."""
    return f"{_shard(shard)}:hours"


def damaged(shard: int) -> str:
    """Key of the list of blocks that no fold could read."""
    return f"{_shard(shard)}:damaged"


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


def _shard(shard: int) -> str:
    return f"sirocco:{{{shard:02d}}}"
