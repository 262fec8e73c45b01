"""Names of keys: what is stored today must be found tomorrow."""

from hypothesis import given
from hypothesis import strategies as st

from app.storage import keys
from app.storage.keys import TargetHour, shard_of

places = st.builds(TargetHour, st.integers(0, 15), st.text(max_size=8), st.integers(0, 10**6))


def test_a_campaign_keeps_its_shard_for_ever():
    """Bins that are stored under another shard would be looked for in vain."""
    assert keys.SHARDS == 16
    assert [shard_of(name) for name in ("", "a", "campaign-7", "Größe")] == [0, 3, 0, 5]


def test_campaigns_spread_over_every_shard():
    assert {shard_of(f"campaign-{number}") for number in range(200)} == set(range(keys.SHARDS))


@given(places)
def test_a_member_names_its_log_whatever_the_target_holds(place):
    assert TargetHour.from_member(place.shard, place.member.encode()) == place


def ids_of(place: TargetHour) -> tuple[str, ...]:
    return place.ids, place.moved_ids, place.staged_ids("p"), place.packed_ids


@given(st.lists(places, unique=True, max_size=10))
def test_no_two_things_share_a_key(held):
    names = [
        name
        for place in held
        for name in (
            place.log,
            place.folding,
            place.bins,
            place.calibrated,
            place.seen,
            *ids_of(place),
        )
    ]
    assert len(set(names)) == len(names)


def test_keys_that_a_script_moves_together_carry_one_hash_tag():
    place = TargetHour(7, "click", 500_000)
    of_hour = (place.log, place.folding, place.bins, place.seen, *ids_of(place))
    of_shard = (*of_hour, keys.logs(7), keys.hours(7), keys.damaged(7), keys.probe("07"))
    of_clicks = (keys.click(7, "1"), keys.open_clicks(7), keys.waiting(7), keys.CLICKED % 7)
    of_clicks += (keys.click_counters(7), keys.SHARD_FEATURES % 7, keys.shard_request(7, "k"))
    of_logs = (place.conversions, place.converted, keys.conversion_logs(7))
    of_maps = (keys.CURRENT, keys.HISTORY, keys.version("v"), keys.lease("l"), keys.fence("l"))
    of_all = (keys.job("1"), keys.FEATURES, keys.OVERRIDES)
    of_jobs = (keys.JOBS_QUEUED, keys.JOBS_RUNNING, keys.JOBS_SAME, keys.JOBS_SEQUENCE)

    assert all(name.startswith("sirocco:{07}:") for name in (*of_shard, *of_clicks, *of_logs))
    assert all(name.startswith("sirocco:{maps}:") for name in (*of_maps, *of_jobs, *of_all))


def test_all_versions_of_a_campaign_are_in_its_shard():
    names = [f"c{number}" for number in range(50)]
    versions = [f"{name}\x1ev{number}" for number, name in enumerate(names)]
    assert keys.shards_of(versions).tolist() == keys.shards_of(names).tolist()
    assert [*map(keys.shard_of_campaign, versions)] == [*map(keys.shard_of, names)]
