"""What users rely on is what it was when `digests.json` was recorded, to the last bit.

With another processor or another numpy, last bits of logarithms and sums differ, and with them all
that is computed. Then only what holds no computed number is compared, and the run's summary says
so.
"""

import re
from pathlib import Path

import pytest

from tests.recorded.groups import QUICK, SLOW, recorded, surroundings
from tests.recorded.texts import digest, file_name

HOW = (
    "to see what changed: python -m tests.recorded.record --keep --dump FOLDER, here and on the"
    " commit before, then diff -r; a change that is meant is recorded without --keep"
)
ELSEWHERE = "digests.json is of another processor or other packages: record it anew on the base"

PORTABLE = re.compile(
    r"public/|options/|command/refused|service/(openapi|metrics|settings)|columns/(asked|events)$"
    r"|http/(atlas of an|calibrate o|job that|overrides|retrain)"
)
GROUPS = [
    "library",
    *(pytest.param(group, marks=pytest.mark.slow) for group in ("service", "commands", *SLOW)),
]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", GROUPS)
def test_nothing_recorded_has_changed(group, tmp_path, record_property):
    """Every item of the group, none missing and none new."""
    work = tmp_path / "work"
    work.mkdir()
    items = {**QUICK, **SLOW}[group](work)
    known = recorded()["groups"][group]
    if recorded()["with"] != surroundings():
        record_property("note", f"recorded {group}: compared without computed numbers; {ELSEWHERE}")
        items, known = _portable(items), _portable(known)

    changed = {name for name, text in items.items() if known.get(name) != digest(text)}
    for name in changed:
        (tmp_path / file_name(name)).write_text(items[name])

    gone = known.keys() - items.keys()
    assert not changed | gone, _told(changed, gone, known.keys(), tmp_path)


def _portable(items: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in items.items() if PORTABLE.match(name)}


def _told(changed: set[str], gone: set[str], known: set[str], folder: Path) -> str:
    before, now = recorded()["with"], surroundings()
    other = [f"{key}: {before[key]} -> {now[key]}" for key in now if before.get(key) != now[key]]
    return "\n".join(
        [
            *(f"{'changed' if name in known else 'new'}: {name}" for name in sorted(changed)),
            *(f"gone: {name}" for name in sorted(gone)),
            f"the texts of now are in {folder}; {HOW}",
            *(f"recorded with another {line}" for line in other),
        ]
    )
