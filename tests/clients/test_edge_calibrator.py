"""`EdgeCalibrator` against the real service: fresh when it can be, and never without its maps."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sirocco_client import BadAtlas, BadInput, EdgeCalibrator, NoAtlas
from sirocco_client.edge_calibrator import read_atlas_file

from calibrators import Atlas, CalibrationMap
from tests.api.running_service import IDLE_SECONDS, eventually, serving
from tests.clients.faulty_proxy import answers, cuts_short, drops, spoils
from tests.reserved_ports import reserved_port

QUICK: dict[str, Any] = {"refresh_seconds": 0.005}
SELDOM: dict[str, Any] = {"refresh_seconds": 3600.0}
OTHER = Atlas.build({"hats": CalibrationMap.proportional(0.125)})


def test_probabilities_are_the_services_to_the_last_bit(lasting, published, atlas):
    """One at a time and in batches, with the version that the service says."""
    campaigns = ["shoes", "hats", "stranger"] * 20
    column = np.linspace(0.0, 1.0, len(campaigns)) ** 2
    asked = {"target": "click", "campaigns": campaigns, "scores": column.tolist()}
    remote = lasting.http.post("/v1/calibrate", json=asked).json()

    with EdgeCalibrator(lasting.url, "click", **SELDOM) as edge:
        assert edge.wait(60)
        assert edge(campaigns, column).tolist() == remote["probabilities"]
        assert [*map(edge.at, campaigns, column.tolist())] == remote["probabilities"]
        assert edge.version == remote["version"] == published
        assert [edge.level(name) for name in campaigns[:3]] == ["campaign", "campaign", "target"]


def test_a_new_version_is_taken_and_an_old_one_is_not_sent_again(service, version, proxy):
    """It asks by ETag, and only what has changed travels."""
    with EdgeCalibrator(proxy.url, "click", **QUICK) as edge:
        eventually(lambda: edge.counts.confirmed > 3)
        assert (edge.counts.taken, edge.at("hats", 0.5)) == (1, 0.25)

        newer = service.publish({"click": OTHER})
        eventually(lambda: edge.version == newer)

        assert edge.at("hats", 0.5) == 0.0625
    looks = [seen for seen in proxy.seen if "/atlas/" in str(seen.path)]
    asked = [seen.headers.get("If-None-Match") for seen in looks]
    assert asked[:2] == [None, f'"{version}-click"']


def test_ages_are_told(service, atlas):
    """Since the publish, and since the service last confirmed it."""
    service.publish({"click": atlas}, published_at=time.time() - 1000.0)

    with EdgeCalibrator(service.url, "click", **SELDOM) as edge:
        assert edge.wait(60)
        assert edge.age is not None
        assert edge.unconfirmed_seconds is not None
        assert 999.0 <= edge.age < 1500.0
        assert 0.0 <= edge.unconfirmed_seconds < 500.0
        assert not edge.stale
        edge.refresh()
        assert edge.counts.confirmed == 1


def test_an_age_that_is_not_told_is_not_known(proxy, atlas):
    """Nothing is made up for it."""
    proxy.always = answers(200, atlas.to_bytes(), Sirocco_Version="000007-abc", ETag='"x"')

    with EdgeCalibrator(proxy.url, "click", label="challenger", **SELDOM) as edge:
        assert edge.wait(60)
        assert (edge.version, edge.age) == ("000007-abc", None)


def test_when_the_service_goes_the_atlas_stays(settings, redis_url, monkeypatch):
    """It grows stale, says so, and is current again after the service has come back."""
    monkeypatch.setattr(IDLE_SECONDS, 0.1)
    placed = settings.model_copy(update={"port": reserved_port()})
    with serving(placed, redis_url) as first:
        first.publish({"click": OTHER})
        edge = EdgeCalibrator(first.url, "click", stale_seconds=0.0, **QUICK)
        assert edge.wait(60)
    eventually(lambda: edge.counts.failed > 2)
    assert (edge.at("hats", 0.5), edge.stale) == (0.0625, True)

    with serving(placed, redis_url) as second, edge:
        newer = second.publish({"click": Atlas.build({"hats": CalibrationMap.proportional(0.5)})})
        eventually(lambda: edge.version == newer)
        assert edge.at("hats", 0.5) == 0.25


def test_a_service_that_lost_its_versions_does_not_take_ours(service, version, proxy, atlas):
    """One that has just started without its store serves the identity: worse than what we hold."""
    with EdgeCalibrator(proxy.url, "click", **SELDOM) as edge:
        assert edge.wait(60)
        proxy.always = answers(200, Atlas.empty().to_bytes(), Sirocco_Version="none")

        assert not edge.refresh()

        assert (edge.version, edge.at("hats", 0.5)) == (version, 0.25)


@pytest.mark.parametrize(
    "change",
    [lambda body: body[:-8], lambda body: body[:-8] + b"\xff" * 8, lambda body: b"<html>"],
    ids=["short", "changed", "other"],
)
def test_damaged_atlases_are_refused(service, version, proxy, change):
    """The last good one stays until a good one comes."""
    with EdgeCalibrator(proxy.url, "click", **SELDOM) as edge:
        assert edge.wait(60)
        newer = service.publish({"click": OTHER})
        proxy.faults.extend([spoils(change), cuts_short, drops, answers(500)])

        assert [edge.refresh() for _ in range(4)] == [False] * 4
        assert (edge.version, edge.at("hats", 0.5)) == (version, 0.25)
        assert (edge.counts.refused, edge.counts.failed) == (1, 4)

        assert edge.refresh()
        assert (edge.version, edge.at("hats", 0.5)) == (newer, 0.0625)


def test_refused_atlases_are_asked_for_less_often(proxy):
    """Each comes whole, and may be large."""
    proxy.always = answers(200, b"no atlas", Sirocco_Version="1")
    with EdgeCalibrator(proxy.url, "click", **SELDOM) as edge:
        for _ in range(9):
            edge.refresh()

        assert 16 * 1800.0 <= edge._pause() <= 16 * 5400.0


@pytest.mark.parametrize(
    "ask", [lambda e: e.at("a", 0.5), lambda e: e("a", [0.5]), lambda e: e.level("a")]
)
def test_before_the_first_atlas_it_says_so(proxy, ask):
    """By choice an error, so that nobody bids raw scores unawares."""
    proxy.always = answers(503)
    with EdgeCalibrator(proxy.url, "click", **SELDOM) as edge:
        with pytest.raises(NoAtlas):
            ask(edge)
        assert (edge.version, edge.age, edge.unconfirmed_seconds, edge.stale) == (
            "none",
            None,
            None,
            True,
        )
        assert not edge.wait(0.001)


def test_before_the_first_atlas_it_may_change_nothing(proxy):
    """By the other choice."""
    proxy.always = answers(503)
    with EdgeCalibrator(proxy.url, "click", before_first="identity", **SELDOM) as edge:
        assert (edge.at("a", 0.3), edge("a", [0.3]).tolist()) == (0.3, [0.3])
        assert (edge.level("a"), edge.version) == ("identity", "none")


def test_a_service_without_a_version_gives_the_identity(service):
    """Nothing has been published: that is an answer, with no age."""
    with EdgeCalibrator(service.url, "click", **SELDOM) as edge:
        assert edge.wait(60)
        assert (edge.at("a", 0.3), edge.version, edge.age) == (0.3, "none", None)


def test_a_kept_atlas_serves_without_a_service(lasting, published, tmp_path):
    """From the first moment, with its version and its ages; then it is confirmed, not sent."""
    kept = tmp_path / "click.atlas"
    with EdgeCalibrator(lasting.url, "click", keep_in=kept, **SELDOM) as edge:
        assert edge.wait(60)
        eventually(kept.exists)

    with EdgeCalibrator("http://127.0.0.1:9", "click", keep_in=str(kept), **SELDOM) as alone:
        assert (alone.at("hats", 0.5), alone.version) == (0.25, published)
        assert alone.age is not None
        assert alone.wait(0.0)
        assert not alone.stale
    with EdgeCalibrator(lasting.url, "click", keep_in=kept, **SELDOM) as again:
        eventually(lambda: again.counts.confirmed == 1)
        assert again.counts.taken == 0
    assert [path.name for path in tmp_path.iterdir()] == ["click.atlas"]


def is_whole(kept: Path) -> bool:
    """Whether the file can be read."""
    try:
        read_atlas_file(kept, "click")
    except BadAtlas:
        return False
    return True


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:90] + b"\0" + content[91:],
        lambda content: b"",
        lambda content: b"SEDG\2" + content[5:],
    ],
    ids=["short", "changed", "empty", "newer"],
)
def test_a_damaged_file_is_not_served(lasting, published, tmp_path, damage):
    """It begins as if there were none, and the next atlas mends the file."""
    kept = tmp_path / "click.atlas"
    with EdgeCalibrator(lasting.url, "click", keep_in=kept, **SELDOM):
        eventually(kept.exists)
    kept.write_bytes(damage(kept.read_bytes()))

    with EdgeCalibrator("http://127.0.0.1:9", "click", keep_in=kept, **SELDOM) as alone:
        assert (alone.version, alone.counts.refused) == ("none", 1)
    with EdgeCalibrator(lasting.url, "click", keep_in=kept, **SELDOM):
        eventually(lambda: is_whole(kept))


def test_a_file_of_another_target_is_not_served(lasting, published, tmp_path):
    """Two calibrators were given the same path by mistake."""
    kept = tmp_path / "click.atlas"
    with EdgeCalibrator(lasting.url, "click", keep_in=kept, **SELDOM):
        eventually(kept.exists)

    with EdgeCalibrator("http://127.0.0.1:9", "conversion", keep_in=kept, **SELDOM) as other:
        assert (other.version, other.counts.refused) == ("none", 1)


def test_a_folder_that_cannot_be_written_stops_nothing(lasting, published, tmp_path):
    """It is logged, and the atlas serves."""
    with EdgeCalibrator(lasting.url, "click", keep_in=tmp_path / "none/x", **SELDOM) as edge:
        assert edge.wait(60)
        assert edge.at("hats", 0.5) == 0.25


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(lasting, published, tmp_path):
    """A folder stands at its path: the temporary file goes again."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/inside").touch()

    with EdgeCalibrator(lasting.url, "click", keep_in=tmp_path / "kept", **SELDOM) as edge:
        assert edge.wait(60)
        edge.close()

    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.slow
def test_readers_never_see_half_of_a_version(service):
    """While versions come, every batch belongs wholly to one of them."""
    names = [f"c{n}" for n in range(200)]
    column = np.linspace(0.1, 1.0, len(names))
    done, ratios = threading.Event(), set()
    with EdgeCalibrator(service.url, "click", before_first="identity", **QUICK) as edge:

        def read() -> None:
            while not done.is_set():
                (ratio,) = set(np.round(edge(names, column) / column, 9).tolist())
                ratios.add(ratio)

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(1, 9):
            maps = dict.fromkeys(names[::2], CalibrationMap.proportional(number / 16))
            target_map = CalibrationMap.proportional(number / 16)
            newest = service.publish({"click": Atlas.build(maps, target_map=target_map)})
            eventually(lambda newest=newest: edge.version == newest)
            eventually(lambda number=number: number / 16 in ratios or not reader.is_alive())
        done.set()
        reader.join()

    assert ratios - {1.0} == {number / 16 for number in range(1, 9)}


def test_a_fault_of_ours_does_not_end_the_refreshing(lasting, published, monkeypatch):
    """The thread goes on whatever a look raises."""
    with EdgeCalibrator(lasting.url, "click", **SELDOM) as edge:
        assert edge.wait(60)
        with monkeypatch.context() as patched:
            patched.setattr(edge, "_refresh", lambda: 1 / 0)
            assert not edge.refresh()

        assert edge.refresh()


@pytest.mark.parametrize(
    "options", [{"refresh_seconds": 0.0}, {"before_first": "guess"}, {"url": "service"}]
)
def test_options_that_mean_nothing_are_refused(options):
    """By the name of the option, before any thread begins."""
    given = {"url": "http://127.0.0.1:9", "target": "click", **options}
    with pytest.raises(BadInput, match=next(iter(options))):
        EdgeCalibrator(**given)
