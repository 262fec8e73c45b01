"""The structure of LightGBM's text models, checked before LightGBM sees the text.

LightGBM's own loader trusts its input: one changed byte can make it crash or loop for ever, and
with it the process. What passes here has the lines, the counts and the indices that the loader and
the scoring take for granted.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NoReturn

END: Final = "end of trees\n"
_HEAD: Final = (
    "tree",
    "version=v4",
    "num_class=1",
    "num_tree_per_iteration=1",
    "label_index=0",
)
_OBJECTIVE: Final = "objective=binary sigmoid:1"
_HEAD_LINES: Final = 11
_NUMBER = r"-?\d{1,309}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?"
_NUMBERS: Final = re.compile(rf"{_NUMBER}(?: {_NUMBER})*", re.ASCII)
_THRESHOLDS: Final = re.compile(rf"(?:inf|{_NUMBER})(?: (?:inf|{_NUMBER}))*", re.ASCII)
_INTEGERS: Final = re.compile(r"-?\d{1,10}(?: -?\d{1,10})*", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_INFO: Final = re.compile(rf"none|\[{_NUMBER}:{_NUMBER}\]|-?\d+(?::-?\d+)*", re.ASCII)
_LARGEST: Final = 2**31 - 1
_MOST_LEAVES: Final = 2**17
_MOST_LOG_ODDS: Final = 1e6
_MOST_DECISION: Final = 11
_CATEGORICAL: Final = 1


def trimmed(text: str) -> str:
    """LightGBM's text up to the end of the trees.

    Behind it stand importances and parameters, which nothing reads, and among them the number of
    threads, which must not change a model's bytes.
    """
    return text[: text.index(END) + len(END)]


def check_model_text(text: bytes | str, n_features: int) -> int:
    """Refuse a text that LightGBM would not have written for a binary model of n features.

    Parameters
    ----------
    text : what `trimmed` gave.
    n_features : number of features the model was trained on.

    Returns
    -------
    int
        Number of trees.

    Raises
    ------
    ValueError
        The text is cut short or changed: a line is missing, unknown or out of place, a list has
        another length than its tree says, a child, a feature or a category is out of range, a node
        is reached twice or never, a number is not finite, a tree's size is wrong.

    Notes
    -----
    A tree of k leaves has nodes 0..k-2, and leaf j is the child -1-j. Every child must be numbered
    behind its parent, as LightGBM numbers them, and stand exactly once: so there is no cycle, and
    each walk ends in a leaf.
    """
    content = _ascii(text)
    head = content.split("\n", _HEAD_LINES)
    if len(head) <= _HEAD_LINES:
        raise ValueError("model text: cut short in its head")
    sizes = _checked_head(head[:_HEAD_LINES], n_features)
    start = len(content) - len(head[_HEAD_LINES])
    for number, size in enumerate(sizes):
        _check_tree(content[start : start + size], number, n_features)
        start += size
    if content[start:] != END:
        raise ValueError(f"model text: must end in {END!r} behind its {len(sizes)} trees")
    return len(sizes)


def _ascii(text: bytes | str) -> str:
    # Sizes count bytes: in ASCII, and only there, they count characters too.
    if not text.isascii():
        raise ValueError("model text: must be ASCII")
    return text.decode("ascii") if isinstance(text, bytes) else text


def _checked_head(lines: Sequence[str], n_features: int) -> list[int]:
    """The trees' sizes in bytes."""
    expected = (*_HEAD, f"max_feature_idx={n_features - 1}", _OBJECTIVE)
    for line, right in zip(lines, expected, strict=False):
        if line != right:
            raise ValueError(f"model text: {_short(line)} must be {right!r}")
    names, infos, sizes, blank = lines[len(expected) :]
    _check_tokens(names, "feature_names", _NAME, n_features)
    _check_tokens(infos, "feature_infos", _INFO, n_features)
    if blank:
        raise ValueError(f"model text: {_short(blank)} must be an empty line")
    counted = _integers(_value(sizes, "tree_sizes", "head"), "tree_sizes of the head")
    if min(counted, default=0) < 1:
        raise ValueError("model text: tree_sizes must be above 0, one for each tree")
    return counted


def _check_tokens(line: str, key: str, pattern: re.Pattern[str], count: int) -> None:
    tokens = _value(line, key, "head").split(" ")
    if len(tokens) != count:
        raise ValueError(f"model text: {key} has {len(tokens)} entries, must have {count}")
    for token in tokens:
        if not pattern.fullmatch(token):
            raise ValueError(f"model text: {key} must not hold {_short(token)}")


def _check_tree(block: str, number: int, n_features: int) -> None:
    where = f"tree {number}"
    lines = block.split("\n")
    if len(lines) < _FEWEST_LINES or lines[0] != f"Tree={number}" or any(lines[-3:]):
        raise ValueError(f"model text: {where} must start with 'Tree={number}' and end in 2 blanks")
    leaves, categorical = (
        _count(line, key, where, least, most)
        for line, key, least, most in (
            (lines[1], "num_leaves", 1, _MOST_LEAVES),
            (lines[2], "num_cat", 0, _MOST_LEAVES),
        )
    )
    keys = (*_KEYS, *(_CATEGORY_KEYS if categorical else ()), *_LAST_KEYS)
    if len(lines) != len(keys) + _FEWEST_LINES - 1:
        raise ValueError(f"model text: {where} has {len(lines)} lines, which is not what it needs")
    values = {key: _value(line, key, where) for key, line in zip(keys, lines[3:-3], strict=True)}
    _Tree(where, leaves, categorical, n_features, values).check()


_KEYS: Final = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_CATEGORY_KEYS: Final = ("cat_boundaries", "cat_threshold")
_LAST_KEYS: Final = ("is_linear", "shrinkage")
# "Tree=", num_leaves and num_cat; then two blank lines, the second of which ends the block.
_FEWEST_LINES: Final = 7


@dataclass(frozen=True, slots=True)
class _Tree:
    """One tree's lists, still as text."""

    where: str
    leaves: int
    categorical: int
    n_features: int
    values: Mapping[str, str]

    def check(self) -> None:
        """Raises ValueError unless every list has its length and every entry its range."""
        nodes, leaves = self.leaves - 1, self.leaves
        self._within("split_feature", nodes, 0, self.n_features - 1)
        self._within("internal_count", nodes, 0, _LARGEST)
        self._within("leaf_count", leaves, 0, _LARGEST)
        for key in ("split_gain", "internal_value", "internal_weight"):
            self._numbers(key, nodes)
        self._numbers("leaf_weight", leaves if nodes else 0)
        steepest = max(map(abs, self._numbers("leaf_value", leaves)))
        if steepest > _MOST_LOG_ODDS:
            self._refuse("leaf_value", f"{steepest} is beyond {_MOST_LOG_ODDS}")
        if self.values["is_linear"] != "0":
            self._refuse("is_linear", "must be 0")
        self._numbers("shrinkage", 1)
        self._check_children(nodes)
        self._check_decisions(nodes)

    def _check_children(self, nodes: int) -> None:
        left = self._within("left_child", nodes, -self.leaves, nodes - 1)
        right = self._within("right_child", nodes, -self.leaves, nodes - 1)
        if any(0 <= child <= parent for side in (left, right) for parent, child in enumerate(side)):
            self._refuse("left_child, right_child", "a child must be numbered behind its parent")
        expected = [*range(-self.leaves, 0), *range(1, nodes)] if nodes else []
        if sorted(left + right) != expected:
            self._refuse("left_child, right_child", "every node and leaf must stand once")

    def _check_decisions(self, nodes: int) -> None:
        decisions = self._within("decision_type", nodes, 0, _MOST_DECISION)
        # Infinity: all that is known goes left, what is missing right.
        thresholds = self._parsed("threshold", nodes, _THRESHOLDS)
        sets = [
            threshold
            for decision, threshold in zip(decisions, thresholds, strict=True)
            if decision & _CATEGORICAL
        ]
        if any(place not in range(self.categorical) for place in sets):
            self._refuse("threshold", f"must name one of {self.categorical} sets of categories")
        if self.categorical:
            self._check_category_sets()

    def _check_category_sets(self) -> None:
        bounds = self._within("cat_boundaries", self.categorical + 1, 0, _LARGEST)
        if bounds[0] != 0 or any(b <= a for a, b in pairwise(bounds)):
            self._refuse("cat_boundaries", "must increase from 0")
        self._within("cat_threshold", bounds[-1], 0, 2**32 - 1)

    def _within(self, key: str, count: int, least: int, most: int) -> list[int]:
        entries = _integers(self.values[key], f"{key} of {self.where}")
        self._check_length(key, len(entries), count)
        if entries and not least <= min(entries) <= max(entries) <= most:
            self._refuse(key, f"every entry must be in [{least}, {most}]")
        return entries

    def _numbers(self, key: str, count: int) -> list[float]:
        entries = self._parsed(key, count, _NUMBERS)
        if not all(map(math.isfinite, entries)):
            self._refuse(key, "every entry must be finite")
        return entries

    def _parsed(self, key: str, count: int, pattern: re.Pattern[str]) -> list[float]:
        text = self.values[key]
        if text and not pattern.fullmatch(text):
            self._refuse(key, "must hold numbers only")
        entries = list(map(float, text.split()))
        self._check_length(key, len(entries), count)
        return entries

    def _check_length(self, key: str, length: int, count: int) -> None:
        if length != count:
            self._refuse(key, f"has {length} entries, must have {count}")

    def _refuse(self, key: str, rule: str) -> NoReturn:
        raise ValueError(f"model text: {key} of {self.where}: {rule}")


def _count(line: str, key: str, where: str, least: int, most: int) -> int:
    counts = _integers(_value(line, key, where), f"{key} of {where}")
    if len(counts) != 1 or not least <= counts[0] <= most:
        raise ValueError(f"model text: {key} of {where} must be one number in [{least}, {most}]")
    return counts[0]


def _integers(text: str, where: str) -> list[int]:
    if text and not _INTEGERS.fullmatch(text):
        raise ValueError(f"model text: {where} must hold integers only")
    return list(map(int, text.split()))


def _value(line: str, key: str, where: str) -> str:
    name, equals, value = line.partition("=")
    if not equals or name != key:
        raise ValueError(f"model text: {_short(line)} in {where} must be {key}=...")
    return value


def _short(line: str) -> str:
    return repr(line[:40])
