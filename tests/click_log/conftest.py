"""What the tests of the click log share."""

from pathlib import Path

import pytest

from app.click_log.log import ClickLog


@pytest.fixture
def root(tmp_path) -> Path:
    """Where the log of the test is kept; not there yet."""
    return tmp_path / "click-log"


@pytest.fixture
def log(root) -> ClickLog:
    """An empty log on this machine."""
    return ClickLog.open(str(root))


def files(root: Path) -> list[str]:
    """The files below a folder, by path."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
