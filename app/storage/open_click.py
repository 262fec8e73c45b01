"""One open click, and the fields of the hash that holds it in Redis.

    campaign            the campaign
    at                  when it was clicked
    open                1 until the worker begins to close it
    p:<target>          a score
    n:<feature>         a feature that is a number
    s:<feature>         a feature that is a string
    b:<at>:<name>       value of a behaviour of that time

All as text; numbers as Python's `repr`, which reads back exactly. Short fields and values keep the
hash in its compact form. Behaviours that wait for their click are a hash of `b:` fields alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OpenClick:
    """A click with all that is known of it; times are epoch seconds.

    Behaviours are (name, occurred_at, value), in the order of their times, then names.
    """

    click_id: str
    campaign: str
    clicked_at: float
    scores: dict[str, float] = field(default_factory=dict)
    features: dict[str, float | str] = field(default_factory=dict)
    behaviours: list[tuple[str, float, float]] = field(default_factory=list)


def click_fields(
    campaign: str, at: str, scores: Mapping[str, float], features: Mapping[str, float | str]
) -> list[str]:
    """Fields and values of a click that was just received."""
    flat = ["campaign", campaign, "at", at, "open", "1"]
    for target, score in scores.items():
        flat += (f"p:{target}", repr(score))
    for name, value in features.items():
        flat += (feature_kind(value) + ":" + name, value if isinstance(value, str) else repr(value))
    return flat


def feature_kind(value: float | str) -> str:
    """How Redis tells numbers, `n`, from strings, `s`."""
    return "s" if isinstance(value, str) else "n"


def behaviour_field(name: str, at: str) -> str:
    """The field that makes a repeat of the behaviour a duplicate."""
    return f"b:{at}:{name}"


def click_of(click_id: str, flat: Sequence[bytes]) -> OpenClick:
    """The click whose fields and values these are; ValueError if they are none."""
    pairs = [(k.decode(), v.decode()) for k, v in zip(flat[::2], flat[1::2], strict=True)]
    plain = dict(pair for pair in pairs if ":" not in pair[0])
    if not plain.keys() >= {"campaign", "at"}:
        raise ValueError(f"campaign and at are needed, there are {sorted(plain)}")
    marked = [(k[:1], k[2:], v) for k, v in pairs if k[1:2] == ":"]
    return OpenClick(
        click_id,
        plain["campaign"],
        float(plain["at"]),
        {name: float(value) for name, value in _sorted(marked, "p")},
        {name: float(value) for name, value in _sorted(marked, "n")} | dict(_sorted(marked, "s")),
        _behaviours(marked),
    )


def _sorted(marked: Iterable[tuple[str, str, str]], mark: str) -> list[tuple[str, str]]:
    return sorted((name, value) for kind, name, value in marked if kind == mark)


def _behaviours(marked: Iterable[tuple[str, str, str]]) -> list[tuple[str, float, float]]:
    found = []
    for place, value in _sorted(marked, "b"):
        at, _, name = place.partition(":")
        found.append((name, float(at), float(value)))
    return sorted(found, key=lambda behaviour: (behaviour[1], behaviour[0]))
