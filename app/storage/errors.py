"""What storage raises."""


class StorageError(Exception):
    """Any failure of storage; `text` says what it is, with what it is about in its braces."""

    text = "{}"

    def __init__(self, *about: object) -> None:
        super().__init__(self.text.format(*about))


class StorageUnavailable(StorageError):
    """The store is away, frozen, full or refuses writes."""


class StoreDenied(StorageUnavailable):
    """Redis refuses the user or the password of its address, or what that user may do."""

    text = "the store failed: Redis denies access by SIROCCO_REDIS_URL: {}"


class NotReplicated(StorageUnavailable):
    """It is stored, but too few replicas, of those that are wanted, have said that they have it."""

    text = (
        "this is stored, but {} of {} replicas have confirmed it, so it is not acknowledged; send"
        " it again: by its Idempotency-Key or by the ids of its events it counts once"
    )


class MasterUnreplicated(StorageUnavailable):
    """Too few replicas of one master have what was written to it; its address, and its shards."""

    text = (
        "{} of {} replicas of the Redis master at {} have confirmed its writes: events{} stand"
        " still, and refits of all, until they do"
    )


class IdempotencyConflict(StorageError):
    """One idempotency key came with two different requests."""

    text = "idempotency key {!r} was used for a different request"


class LeaseLost(StorageError):
    """The lease of this name is not, or no longer, held."""

    text = "the lease {!r} is not held any more"


class UnknownVersion(StorageError):
    """No such version is kept."""

    text = "version {!r} is not kept"


class CorruptVersion(StorageError):
    """A stored version's bytes are not what was published, and why."""

    text = "version {!r} is damaged: {}"


class NewerVersion(CorruptVersion, ValueError):
    """A newer release has written it: nothing is wrong with it, but it cannot be read here."""

    text = "version {!r} is of a newer release: {}"


class VersionChanged(StorageError):
    """An operator has rolled back or frozen maps since what is to be published was begun."""

    text = "{} is not published: maps were rolled back or frozen meanwhile"


class QueueFull(StorageError):
    """Too many jobs are waiting."""

    text = "{} jobs are waiting already, the most there may be"


class BinsConflict(StorageError):
    """Other bins were loaded for this hour under the name of the partition, which is that of a
    source, for a target."""

    text = (
        "source {!r}, partition {!r}: other bins of target {!r}, hour {} were loaded under this"
        " name; what is added to them needs a name of its own"
    )


class TooManyLoads(StorageError):
    """Too many partitions of bins were loaded for one hour of a target."""

    text = "target {!r}, hour {}: bins of {} partitions were loaded, the most that there may be"


class TooManyOverrides(StorageError):
    """Too many campaigns have calibrators of their own."""

    text = "{} campaigns have calibrators of their own, the most there may be"


class TooManyFrozen(StorageError):
    """Too many campaigns are frozen."""

    text = "{} campaigns may be frozen, the most there may be: unfreeze some"
