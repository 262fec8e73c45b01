"""What users rely on is what it was when `digests.json` was recorded, to the last bit."""

from pathlib import Path

import pytest

from tests.recorded.groups import QUICK, SLOW, recorded, surroundings
from tests.recorded.texts import digest, file_name

HOW = (
    "to see what changed: python -m tests.recorded.record --keep --dump FOLDER, here and on the"
    " commit before, then diff -r; a change that is meant is recorded without --keep"
)

# A slow group is compared from the first time that it was recorded.
GROUPS = [
    *QUICK,
    *(
        pytest.param(group, marks=pytest.mark.slow)
        for group in SLOW
        if group in recorded()["groups"]
    ),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", GROUPS)
def test_nothing_recorded_has_changed(group: str, tmp_path: Path) -> None:
    """Every item of the group, none missing and none new."""
    work = tmp_path / "work"
    work.mkdir()
    items = {**QUICK, **SLOW}[group](work)
    known = recorded()["groups"][group]

    changed = {name for name, text in items.items() if known.get(name) != digest(text)}
    for name in changed:
        (tmp_path / file_name(name)).write_text(items[name])

    gone = known.keys() - items.keys()
    assert not changed | gone, _told(changed, gone, known.keys(), tmp_path)


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
