"""Versions by the moment that they knew of: what an hour was served by, and when nobody knows."""

import numpy as np
import pytest

from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion
from calibrators import Atlas
from calibrators.maps.calibration_map import MapColumns


@pytest.fixture
def versions(redis_client):
    return Versions(redis_client, kept=3)


@pytest.fixture
def publish(lease, versions):
    packed = {"click": Atlas.empty().to_bytes()}
    return lambda as_of: versions.publish(lease.token, as_of, as_of, packed, {"targets": {}})


def test_the_newest_that_saw_nothing_after_the_moment_is_found(versions, publish):
    for as_of in (3600.0, 5400.0, 9000.0):
        publish(as_of)
    shelf, history = AtlasCache(versions), versions.history()

    found = [shelf.serving(hour, history).as_of for hour in (1, 2, 3)]

    assert found == [3600.0, 5400.0, 9000.0]


def test_before_the_first_version_nothing_served(versions, publish):
    publish(3600.0)

    assert AtlasCache(versions).serving(0, versions.history()) == CachedVersion()


def test_what_was_dropped_is_not_known(versions, publish):
    for hour in range(5):
        publish(hour * 3600.0)

    assert AtlasCache(versions).serving(1, versions.history()) is None


@pytest.mark.parametrize(("campaigns", "held"), [(10, 4), (100_001, 2)])
def test_of_large_versions_fewer_are_held(versions, campaigns, held):
    straight = np.tile([0.0, 1.0], campaigns + 1)
    maps = MapColumns(np.full(campaigns + 1, 2), straight, straight)
    atlas = Atlas.of_columns([f"{number:06d}" for number in range(campaigns)], maps, True)
    shelf = AtlasCache(versions)

    for version in range(5):
        shelf.put(str(version), CachedVersion(float(version), {"click": atlas}))

    # None of them is in the store, so that what is found was held.
    found = [version for version in range(5) if shelf.take(str(version)) is not None]
    shelf.make_room()
    still = [version for version in range(5) if shelf.take(str(version)) is not None]
    assert (len(found), still) == (held, found[1:])
