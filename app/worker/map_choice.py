"""Atlases of some campaigns out of those of all."""

from collections.abc import Collection

from calibrators import Atlas, CalibrationMap
from calibrators.atlas import CAMPAIGN


def only(atlas: Atlas, campaigns: Collection[str]) -> Atlas:
    """The maps of these campaigns, as far as they have any, and the target's."""
    return Atlas.build(_own(atlas, campaigns), atlas.target_map)


def replaced(atlas: Atlas, source: Atlas, campaigns: Collection[str]) -> Atlas:
    """The atlas with these campaigns as they are in the source; one without a map there has none.

    Every other map, and the target's, stays.
    """
    named = set(campaigns)
    kept = {name: atlas.map_of(name) for name in atlas.campaigns if name not in named}
    return Atlas.build(kept | _own(source, named), atlas.target_map)


def filled(atlas: Atlas | None, source: Atlas | None) -> Atlas | None:
    """The atlas with the source's maps where it has none."""
    if atlas is None or source is None:
        return source if atlas is None else atlas
    missing = set(source.campaigns).difference(atlas.campaigns)
    target_map = atlas.target_map or source.target_map
    if not missing and target_map == atlas.target_map:
        return atlas
    return Atlas.build(_own(atlas, atlas.campaigns) | _own(source, missing), target_map)


def _own(atlas: Atlas, campaigns: Collection[str]) -> dict[str, CalibrationMap]:
    return {name: atlas.map_of(name) for name in campaigns if atlas.level(name) == CAMPAIGN}
