import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import Features, PostClickModel, check_model_text
from pccem.model_bytes import unpack_model
from tests.pccem.sample_clicks import sample_features, sample_outcomes

ROOT = Path(__file__).parent.parent.parent
N_COLUMNS = 4


def text_of(features: Features, rounds: int) -> str:
    model = PostClickModel.fit(features, sample_outcomes(features), rounds=rounds, num_threads=1)
    return unpack_model(model.to_bytes()).text


TEXT = text_of(sample_features(1_500), 3)
LINES = [line.partition("=")[0] for line in TEXT.split("\n")]


def passes(text: str) -> bool:
    try:
        check_model_text(text, N_COLUMNS)
    except ValueError:
        return False
    return True


def with_sizes(text: str) -> str:
    """The text with the trees' sizes counted anew: only the damage itself is left to find."""
    trees = text.partition("\n\n")[2].partition("end of trees")[0]
    blocks = re.split(r"(?=Tree=\d+\n)", trees)[1:]
    return re.sub(r"tree_sizes=.*", "tree_sizes=" + " ".join(str(len(b)) for b in blocks), text)


def with_line(key: str, value: str, which: int = 0) -> str:
    """The text with the value of one line replaced, and sizes to match."""
    places = [place for place, line in enumerate(LINES) if line == key]
    lines = TEXT.split("\n")
    lines[places[which]] = f"{key}={value}"
    return with_sizes("\n".join(lines))


def value_of(key: str, which: int = 0) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", TEXT, re.MULTILINE)[which].split(" ")


def with_entry(key: str, place: int, entry: str, which: int = 0) -> str:
    """The text with one entry of a list replaced."""
    entries = value_of(key, which)
    entries[place] = entry
    return with_line(key, " ".join(entries), which)


def load_apart(texts: list[str]) -> dict[str, int]:
    """What a process of its own says of these texts; a crash or a hang fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.pccem.load_texts"],
        input=json.dumps([texts, N_COLUMNS]),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counted: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counted


def mutations(text: str) -> Iterator[str]:
    """Each byte flipped, replaced by what a number may hold, doubled, and left out."""
    for place, byte in enumerate(text):
        head, tail = text[:place], text[place + 1 :]
        yield from (head + chr(ord(byte) ^ bit) + tail for bit in (1, 2, 16))
        yield from (head + other + tail for other in "9- \n=" if other != byte)
        yield head + byte + byte + tail
        yield head + tail


def test_what_lightgbm_wrote_passes() -> None:
    assert check_model_text(TEXT, N_COLUMNS) == 3
    assert check_model_text(TEXT.encode(), N_COLUMNS) == 3


def test_every_truncation_is_refused() -> None:
    assert not any(passes(TEXT[:end]) for end in range(len(TEXT)))


def test_what_passes_after_a_mutation_is_harmless() -> None:
    """Sizes are counted anew for the half of the texts, so that lists and trees must be checked."""
    small = text_of(sample_features(600, seed=1), 1)
    found = [mutated for mutated in mutations(small) if passes(mutated)]
    found += [again for m in mutations(small) if passes(again := with_sizes(m))]

    counted = load_apart(found)

    assert counted["refused"] + counted["scored"] == len(found)
    assert counted["scored"] > 1_000


@given(st.data())
def test_bytes_changed_anywhere_are_refused_or_pass(data: st.DataObject) -> None:
    """Nothing but a ValueError comes out of the check."""
    changed = bytearray(TEXT.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        assert check_model_text(bytes(changed), N_COLUMNS) == 3


@given(st.text(max_size=300), st.integers(0, len(TEXT)))
def test_any_text_in_any_place_is_refused_or_passes(inserted: str, place: int) -> None:
    passes(TEXT[:place] + inserted + TEXT[place:])


LEAVES = int(value_of("num_leaves")[0])

REFUSED = {
    "a cycle": (with_entry("left_child", 1, "0"), "numbered behind its parent"),
    "a node its own child": (with_entry("left_child", 2, "2"), "numbered behind its parent"),
    "a leaf that is not there": (
        with_entry("left_child", 0, str(-LEAVES - 1)),
        "every entry must be in",
    ),
    "a node that is not there": (
        with_entry("right_child", 0, str(LEAVES - 1)),
        "every entry must be in",
    ),
    "a leaf that stands twice": (
        with_line("left_child", " ".join(["-1"] * (LEAVES - 1))),
        "every node and leaf must stand once",
    ),
    "a feature that is not there": (with_entry("split_feature", 0, "4"), r"must be in \[0, 3\]"),
    "a feature below 0": (with_entry("split_feature", 0, "-1"), r"must be in \[0, 3\]"),
    "a decision of no kind": (with_entry("decision_type", 0, "12"), r"must be in \[0, 11\]"),
    "an infinite leaf": (with_entry("leaf_value", 0, "1e309"), "every entry must be finite"),
    "a leaf beyond reason": (with_entry("leaf_value", 0, "1e7"), "10000000.0 is beyond"),
    "a leaf that is no number": (with_entry("leaf_value", 0, "nan"), "must hold numbers only"),
    "a threshold that is no number": (with_entry("threshold", 0, "nan"), "must hold numbers only"),
    "a leaf too many": (with_line("num_leaves", str(LEAVES + 1)), "has .* entries, must have"),
    "a leaf too few": (with_line("num_leaves", str(LEAVES - 1)), "has .* entries, must have"),
    "no leaves": (with_line("num_leaves", "0"), r"one number in \[1, 131072\]"),
    "a huge number of leaves": (with_line("num_leaves", "2147483648"), "one number in"),
    "two numbers of leaves": (with_line("num_leaves", "3 3"), "one number in"),
    "a category set too many": (with_line("num_cat", "9"), "cat_boundaries of tree 0: has"),
    "no category sets": (with_line("num_cat", "0"), "has 22 lines, which"),
    "a linear tree": (with_line("is_linear", "1"), "is_linear of tree 0: must be 0"),
    "an unknown line": (TEXT.replace("split_gain", "split_pain"), "must be split_gain="),
    "another version": (TEXT.replace("version=v4", "version=v5"), "must be 'version=v4'"),
    "another objective": (TEXT.replace("binary sig", "poisson s"), "must be 'objective=binary"),
    "more features": (TEXT.replace("idx=3", "idx=4"), "must be 'max_feature_idx=3'"),
    "a name too few": (TEXT.replace(" column_3", ""), "feature_names has 3 entries"),
    "a strange name": (TEXT.replace("column_3", "column:3"), "must not hold 'column:3'"),
    "no trees": (re.sub("tree_sizes=.*", "tree_sizes=", TEXT), "one for each tree"),
    "a size of nothing": (TEXT.replace("tree_sizes=", "tree_sizes=0 "), "must be above 0"),
    "sizes in words": (TEXT.replace("tree_sizes=", "tree_sizes=one "), "integers only"),
    "a line where none may be": (TEXT.replace("\n\nTree=0", "\nx\nTree=0"), "must be an empty"),
    "a tree left out": (TEXT.replace("Tree=1\n", "Tree=2\n"), "must start with 'Tree=1'"),
    "more behind the end": (TEXT + "\n", "must end in"),
    "letters beyond ASCII": (TEXT + "é", "must be ASCII"),
    "nothing": ("", "cut short in its head"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damage_is_named(name: str) -> None:
    text, message = REFUSED[name]

    with pytest.raises(ValueError, match=message):
        check_model_text(text, N_COLUMNS)


def categorical_tree() -> int:
    return next(which for which in range(3) if value_of("num_cat", which) != ["0"])


@pytest.mark.parametrize(
    ("key", "place", "entry", "message"),
    [
        ("cat_boundaries", 0, "1", "must increase from 0"),
        ("cat_boundaries", -1, "0", "must increase from 0"),
        ("cat_boundaries", -1, "2147483647", "has .* entries, must have 2147483647"),
        ("cat_threshold", 0, "4294967296", "every entry must be in"),
        ("cat_threshold", 0, "-1", "every entry must be in"),
    ],
)
def test_damaged_category_sets_are_named(key: str, place: int, entry: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_model_text(with_entry(key, place, entry), N_COLUMNS)


@pytest.mark.parametrize("first", [1, 0])
def test_category_sets_start_at_the_first_and_hold_something(first: int) -> None:
    """Bounds of as many sets as there are, from 1 on, and with an empty set in front."""
    which = categorical_tree()
    count = int(value_of("num_cat", which)[0])
    bounds = range(1, count + 2) if first else [0, *range(count)]
    lines = TEXT.split("\n")
    place = next(n for n, line in enumerate(lines) if line.startswith("cat_boundaries="))
    lines[place] = "cat_boundaries=" + " ".join(map(str, bounds))
    lines[place + 1] = "cat_threshold=" + " ".join(["5"] * bounds[-1])

    with pytest.raises(ValueError, match=f"cat_boundaries of tree {which}: must increase from 0"):
        check_model_text(with_sizes("\n".join(lines)), N_COLUMNS)


@pytest.mark.parametrize("entry", ["9", "-1", "0.5", "inf"])
def test_a_split_by_a_set_that_is_not_there_is_refused(entry: str) -> None:
    which = categorical_tree()
    decisions = list(map(int, value_of("decision_type", which)))
    node = next(place for place, decision in enumerate(decisions) if decision & 1)

    with pytest.raises(ValueError, match="must name one of"):
        check_model_text(with_entry("threshold", node, entry, which), N_COLUMNS)


def test_an_infinite_threshold_is_one_that_lightgbm_writes() -> None:
    which = categorical_tree()
    decisions = list(map(int, value_of("decision_type", which)))
    node = next(place for place, decision in enumerate(decisions) if not decision & 1)

    assert passes(with_entry("threshold", node, "inf", which))


def test_a_single_leaf_is_a_tree() -> None:
    """Nothing to split by: LightGBM writes empty lists."""
    features = Features({"x": sample_features(60).columns["feature.age"]}, 60)
    model = PostClickModel.fit(features, [0.0, 1.0] * 30, num_threads=1)

    assert model.rounds == 1
    assert check_model_text(unpack_model(model.to_bytes()).text, 1) == 1
