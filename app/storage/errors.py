"""What storage raises."""


class StorageError(Exception):
    """Any failure of storage."""


class StorageUnavailable(StorageError):
    """The store is away, frozen, full or refuses writes."""


class NotReplicated(StorageUnavailable):
    """It is stored, but too few replicas have said that they have it."""

    def __init__(self, replicas: int, wanted: int) -> None:
        super().__init__(
            f"this is stored, but {replicas} of {wanted} replicas have confirmed it, so it is not"
            " acknowledged; send it again: by its Idempotency-Key or by the ids of its events it"
            " counts once"
        )


class IdempotencyConflict(StorageError):
    """One idempotency key came with two different requests."""

    def __init__(self, idempotency_key: str) -> None:
        super().__init__(f"idempotency key {idempotency_key!r} was used for a different request")


class LeaseLost(StorageError):
    """The lease is not, or no longer, held."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the lease {name!r} is not held any more")


class UnknownVersion(StorageError):
    """No such version is kept."""

    def __init__(self, version: str) -> None:
        super().__init__(f"version {version!r} is not kept")


class CorruptVersion(StorageError):
    """A stored version's bytes are not what was published."""

    def __init__(self, version: str, reason: str) -> None:
        super().__init__(f"version {version!r} is damaged: {reason}")


class NewerVersion(CorruptVersion, ValueError):
    """A newer release has written it: nothing is wrong with it, but it cannot be read here."""

    def __init__(self, version: str, reason: str) -> None:
        StorageError.__init__(self, f"version {version!r} is of a newer release: {reason}")


class VersionChanged(StorageError):
    """An operator has rolled back or frozen maps since what is to be published was begun."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not published: maps were rolled back or frozen meanwhile")


class QueueFull(StorageError):
    """Too many jobs are waiting."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} jobs are waiting already, the most there may be")


class BinsConflict(StorageError):
    """Other bins were loaded for this hour under the name of the partition."""

    def __init__(self, source: str, partition: str, target: str, hour: int) -> None:
        super().__init__(
            f"source {source!r}, partition {partition!r}: other bins of target {target!r}, hour"
            f" {hour} were loaded under this name; what is added to them needs a name of its own"
        )


class TooManyLoads(StorageError):
    """Too many partitions of bins were loaded for one hour."""

    def __init__(self, target: str, hour: int, limit: int) -> None:
        super().__init__(
            f"target {target!r}, hour {hour}: bins of {limit} partitions were loaded, the most that"
            " there may be"
        )


class TooManyOverrides(StorageError):
    """Too many campaigns have calibrators of their own."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} campaigns have calibrators of their own, the most there may be")


class TooManyFrozen(StorageError):
    """Too many campaigns are frozen."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} campaigns may be frozen, the most there may be: unfreeze some")
