"""Tables as the store keeps them."""

from app.storage.keys import SHARDS, shard_of
from calibrators import BinsTable


def by_shard(table: BinsTable) -> list[BinsTable]:
    """The campaigns of each shard."""
    return [
        table.select(name for name in table.campaigns if shard_of(name) == shard)
        for shard in range(SHARDS)
    ]
