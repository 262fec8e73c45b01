"""The maps of an atlas as columns."""

from calibrators.atlas import Atlas
from calibrators.map_columns import MapColumns


def columns_of(atlas: Atlas) -> MapColumns:
    """By row: the target's (or the identity) first, then those of its campaigns."""
    return MapColumns(*atlas._blocks.flat())
