"""Record the results that a move of code must not change.

    python -m tests.recorded.record                        # write digests.json anew
    python -m tests.recorded.record --groups library       # of this group only
    python -m tests.recorded.record --dump before --keep   # full texts, digests.json left as it is

Dump before a change and after it, and `diff -r before after` shows what has changed.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.recorded.groups import DIGESTS, QUICK, SLOW, recorded, surroundings
from tests.recorded.texts import Items, digest, file_name


def main() -> None:
    """Record what was asked for."""
    asked = _arguments()
    every = {**QUICK, **SLOW}
    found = {}
    for group in asked.groups:
        with TemporaryDirectory(prefix="sirocco-recorded-") as folder:
            found[group] = every[group](Path(folder))
    if asked.dump is not None:
        _dump(asked.dump, found)
    if not asked.keep:
        _write(found)


def _arguments() -> argparse.Namespace:
    every = [*QUICK, *SLOW]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", nargs="+", choices=every, default=every)
    parser.add_argument("--dump", type=Path, help="a folder for the full texts")
    parser.add_argument("--keep", action="store_true", help="leave digests.json as it is")
    return parser.parse_args()


def _dump(folder: Path, found: Mapping[str, Items]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for items in found.values():
        for name, text in items.items():
            (folder / file_name(name)).write_text(text)


def _write(found: Mapping[str, Items]) -> None:
    groups = recorded()["groups"] if DIGESTS.exists() else {}
    for group, items in found.items():
        groups[group] = {name: digest(text) for name, text in sorted(items.items())}
    content = {"with": surroundings(), "groups": dict(sorted(groups.items()))}
    DIGESTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
