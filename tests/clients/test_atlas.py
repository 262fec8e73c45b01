"""The client's atlas against the service's: the same bytes, the same probabilities."""

import struct
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sirocco_client import BadAtlas, BadInput
from sirocco_client.atlas import EdgeAtlas
from sirocco_client.maps import COMPILED, index_of, plain_index
from sirocco_client.requests import of_version

from calibrators import Atlas as ServiceAtlas
from calibrators import CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import CampaignGroups, GroupMaps
from tests.calibrators.strategies import maps_of_sets

inner = st.floats(0, 1, exclude_min=True, exclude_max=True)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
scores = st.floats(0, 1)


@pytest.fixture(params=["compiled", "plain"], scope="module", autouse=True)
def look_up(request):
    """All of this holds with either."""
    is_plain = request.param == "plain"
    if not (is_plain or COMPILED):
        pytest.skip("there was no compiler when the client was installed")
    with patch("sirocco_client.atlas.index_of", plain_index if is_plain else index_of):
        yield request.param


@st.composite
def maps(draw: st.DrawFn) -> CalibrationMap:
    """Any map: rising, falling, steep, with knots next to each other."""
    knots = [0.0, *sorted(draw(st.sets(inner, max_size=80))), 1.0]
    values = draw(st.lists(scores, min_size=len(knots), max_size=len(knots)))
    return CalibrationMap(knots, sorted(values) if draw(st.booleans()) else values)


def group_maps(of_groups: dict[str, CalibrationMap]) -> GroupMaps:
    """Of groups that are named before a last r: that of `stranger` may be one."""
    columns = MapColumns.of_maps([*of_groups.values()])
    return GroupMaps(CampaignGroups("^(.*)r$"), tuple(of_groups), columns)


def named(shared: list[CalibrationMap]) -> dict[str, CalibrationMap]:
    """The maps by the numbers of their campaigns."""
    return {f"{number}": each for number, each in enumerate(shared)}


atlases = st.builds(
    ServiceAtlas.build,
    st.dictionaries(names, maps(), max_size=8) | maps_of_sets().map(named),
    target_map=st.none() | maps(),
    groups=st.none()
    | st.dictionaries(names | st.just("strange"), maps(), max_size=3).map(group_maps),
)


@given(st.data(), atlases)
def test_every_probability_is_the_services_to_the_last_bit(data, served):
    """One by one and in a batch, on knots, beside them and in between, for strangers too."""
    atlas = EdgeAtlas.from_bytes(served.to_bytes())
    known = [*served.campaigns, "stranger"]
    knots = served.map_of(known[0]).knots.tolist()
    column = data.draw(st.lists(scores | st.sampled_from(knots), min_size=1, max_size=50))
    campaigns = data.draw(
        st.lists(st.sampled_from(known), min_size=len(column), max_size=len(column))
    )

    expected = served(campaigns, column)

    assert atlas(campaigns, column).tobytes() == expected.tobytes()
    assert [*map(atlas.at, campaigns, column)] == expected.tolist()
    assert atlas(known[0], column).tolist() == served([known[0]] * len(column), column).tolist()
    assert [*map(atlas.level, known)] == [*map(served.level, known)]
    assert len(atlas) == len(served)


@given(st.integers(0, 2**32 - 1))
def test_large_batches_agree_too(seed):
    """More than one piece, over maps of very different lengths."""
    rng = np.random.default_rng(seed)
    served = ServiceAtlas.build({f"c{n}": random_map(rng, 1 + 40 * n) for n in range(5)})
    campaigns = [f"c{n}" for n in rng.integers(0, 6, 9000).tolist()]
    column = rng.random(9000)

    atlas = EdgeAtlas.from_bytes(served.to_bytes())

    assert atlas(campaigns, column).tobytes() == served(campaigns, column).tobytes()
    one = atlas(campaigns[0], column)
    assert one.tobytes() == served([campaigns[0]] * len(column), column).tobytes()


@pytest.mark.parametrize("shared", [False, True])
def test_slopes_found_piece_by_piece_are_the_same(monkeypatch, shared):
    """Pieces end within maps."""
    rng = np.random.default_rng(2)
    maps = [random_map(rng, 30) for _ in range(6)]
    if shared:
        maps = [CalibrationMap(maps[0].knots, np.sort(rng.random(32))) for _ in maps]
    served = ServiceAtlas.build(named(maps))
    monkeypatch.setattr("sirocco_client.maps._KNOTS_AT_ONCE", 7)

    atlas = EdgeAtlas.from_bytes(served.to_bytes())

    column = rng.random(300)
    for name in served.campaigns:
        assert atlas(name, column).tobytes() == served([name] * 300, column).tobytes()


def random_map(rng: np.random.Generator, knots: int) -> CalibrationMap:
    inner_knots = np.unique(rng.random(knots))
    inner_knots = inner_knots[(inner_knots > 0) & (inner_knots < 1)]
    return CalibrationMap([0.0, *inner_knots, 1.0], np.sort(rng.random(len(inner_knots) + 2)))


def test_a_float32_means_the_same_as_its_float64(atlas):
    """It is not multiplied in its own precision."""
    mine = EdgeAtlas.from_bytes(atlas.to_bytes())
    score = np.float32(0.7)

    assert mine.at("shoes", score) == atlas.at("shoes", float(score))


def test_names_of_the_version_before_are_used_again(atlas):
    """Where they are the same bytes; otherwise they are read."""
    before = EdgeAtlas.from_bytes(atlas.to_bytes())
    names_before = before._names
    changed = ServiceAtlas.build(dict.fromkeys(atlas.campaigns, CalibrationMap.identity()))
    other = ServiceAtlas.build({"gloves": CalibrationMap.proportional(0.5)})

    same = EdgeAtlas.from_bytes(changed.to_bytes(), before)
    new = EdgeAtlas.from_bytes(other.to_bytes(), before)

    assert same._names is names_before
    assert (same.at("hats", 0.5), before.at("hats", 0.5)) == (0.5, 0.25)
    assert (new.at("gloves", 0.5), new.at("hats", 0.5)) == (0.25, 0.5)


def test_reading_lets_others_have_their_turn():
    """After every thousand names, when these have rows, and after every 65,536 knots."""
    twenty = random_map(np.random.default_rng(1), 18)
    served = ServiceAtlas.build({f"c{n}": twenty for n in range(4_000)})
    breaths: list[None] = []

    EdgeAtlas.from_bytes(served.to_bytes(), breathe=lambda: breaths.append(None))

    assert len(breaths) == 4 + 1 + 2


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan")])
def test_scores_outside_are_refused(atlas, score):
    """By field, value and rule, in both ways to ask."""
    mine = EdgeAtlas.from_bytes(atlas.to_bytes())

    with pytest.raises(BadInput, match=r"score = .*: must be a number in \[0, 1\]"):
        mine.at("shoes", score)
    with pytest.raises(BadInput, match=r"scores\[1\] = .*: must be a number in \[0, 1\]"):
        mine(["shoes", "shoes"], [0.5, score])


@pytest.mark.parametrize("score", ["0.5", b"0.5", "x", None, True, [0.5]])
@pytest.mark.parametrize("campaign", ["shoes", "never seen"])
def test_what_is_no_number_is_no_score(atlas, campaign, score):
    with pytest.raises(BadInput, match=r"^score( = .*)?: must be a number in \[0, 1\]"):
        EdgeAtlas.from_bytes(atlas.to_bytes()).at(campaign, score)


@pytest.mark.parametrize("campaigns", ["", ["shoes", ""] * 50])
def test_a_campaign_without_a_name_is_refused_as_by_the_service(atlas, campaigns):
    """One at a time, a few, and many."""
    mine = EdgeAtlas.from_bytes(atlas.to_bytes())

    for look_up in (lambda: mine(campaigns, [0.5] * 100), lambda: mine.at("", 0.5)):
        with pytest.raises(BadInput, match="campaign = '': must have at least 1 byte"):
            look_up()
    with pytest.raises(BadInput, match="campaign = ''"):
        mine(campaigns[:2], [0.5] * 2)


@pytest.mark.parametrize("campaign", [5, None, True, b"shoes", 0.5])
def test_a_campaign_that_is_no_text_is_refused_by_field_and_rule(atlas, campaign):
    mine = EdgeAtlas.from_bytes(atlas.to_bytes())
    one = (lambda: mine.at(campaign, 0.5), lambda: mine.level(campaign))

    for look_up in (*one, lambda: mine([campaign], [0.5])):
        with pytest.raises(BadInput, match=r"^campaign( = .*)?: must be a string$"):
            look_up()
    with pytest.raises(BadInput, match=r"^campaigns?\b"):
        mine(campaign, [0.5])


def test_columns_must_be_equally_long(atlas):
    """Nothing is guessed; nothing for nothing."""
    mine = EdgeAtlas.from_bytes(atlas.to_bytes())

    with pytest.raises(BadInput, match="campaigns"):
        mine(["shoes"], [0.5, 0.5])
    with pytest.raises(BadInput, match="scores: must have one dimension, not 0"):
        mine("shoes", 0.5)
    assert mine([], []).tolist() == []


@given(atlases, st.data())
def test_damaged_bytes_are_refused_or_read_as_the_service_reads_them(served, data):
    """Cut short or with a byte changed: both refuse, or both read the same maps."""
    whole = bytearray(served.to_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)) | st.just(len(whole)))])
    try:
        expected = ServiceAtlas.from_bytes(damaged)
    except ValueError:
        with pytest.raises(BadAtlas):
            EdgeAtlas.from_bytes(damaged)
        return
    found = EdgeAtlas.from_bytes(damaged)
    for campaign in (*expected.campaigns, "stranger"):
        assert found.at(campaign, 0.3) == expected.at(campaign, 0.3)


def packed(lengths: bytes, text: bytes, count: int) -> bytes:
    """An atlas of identities with this for its names."""
    sizes = struct.pack(f"<{count + 1}I", *[2] * (count + 1))
    ends = struct.pack("<2d", 0.0, 1.0) * (count + 1)
    return struct.pack("<4sHHI", b"SATL", 1, 0, count) + lengths + text + sizes + ends + ends


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_lengths_may_have_any_width(width):
    """As `docs/formats.md` says."""
    lengths = bytes([width, 0]) + (1).to_bytes(width, "little") * 2

    assert len(EdgeAtlas.from_bytes(packed(lengths, b"ab", 2))) == 2


@pytest.mark.parametrize(
    ("lengths", "text", "count"),
    [
        (b"\1\0\1\1", b"aa", 2),
        (b"\1\0\1\1", b"a\xff", 2),
        (b"\3\0\1\1\1", b"a", 1),
        (b"\1\2\1", b"a", 1),
        (b"\1\1\1", b"a", 1),
        (b"\x08\0" + b"\xff" * 8, b"a", 1),
    ],
    ids=["twice", "no UTF-8", "width", "unit", "a billion", "negative"],
)
def test_bad_names_are_refused(lengths, text, count):
    """Whatever is wrong with them."""
    with pytest.raises(BadAtlas):
        EdgeAtlas.from_bytes(packed(lengths, text, count))


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: b"SATM" + whole[4:],
        lambda whole: whole[:4] + b"\2" + whole[5:],
        lambda whole: whole[:6] + b"\2" + whole[7:],
        lambda whole: whole[:14],
        lambda whole: whole[:10],
        lambda whole: whole[:14] + b"\1" + whole[15:],
        lambda whole: whole + b"\0",
    ],
    ids=["magic", "version", "target map", "no lengths", "no header", "one knot", "too long"],
)
def test_other_bytes_are_refused(change):
    """Each with a reason, and never guessed at."""
    with pytest.raises(BadAtlas):
        EdgeAtlas.from_bytes(change(ServiceAtlas.empty().to_bytes()))


def test_a_version_of_the_model_is_served_as_by_the_service():
    """By its own map, by that for new campaigns, and of a version that is not known by none's."""
    factors = {"a": 0.5, "a\x1ev1": 0.4, "\x1ev1": 0.3}
    maps = {name: CalibrationMap.proportional(factor) for name, factor in factors.items()}
    served = ServiceAtlas.build(maps, CalibrationMap.proportional(0.2))
    atlas = EdgeAtlas.from_bytes(served.to_bytes())
    for count in (4, 200):
        for version in ("v1", "v9", None):
            plain = (["a", "new"] * count)[:count]
            names = of_version(plain, version)
            column = np.linspace(0, 1, count)
            assert atlas(names, column).tolist() == served(names, column).tolist()
            assert [atlas.level(name) for name in names] == [served.level(name) for name in names]
            assert atlas.at(names[0], 0.7) == served.at(names[0], 0.7)
    with pytest.raises(BadInput, match="model_version"):
        of_version("a", "two\nlines")
