"""docs/quick-start.md: each block, run by a shell beside a whole service, prints what it shows."""

import re
import shutil
import subprocess
from itertools import zip_longest
from pathlib import Path

import pytest

from research.faults.service import Service
from tests.command_line.test_up import is_ready, wait_until
from tests.docs.pages import code_blocks, text_of
from tests.reserved_ports import reserved_port

PAGE = text_of("docs/quick-start.md")
SHOWN_URL = "http://127.0.0.1:8080"
_DIGEST = re.compile(r"(?<=\d{6}-)[0-9a-f]{8}")
_NUMBER = re.compile(r"(\d+\.\d+)")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_block_prints_what_it_shows(tmp_path):
    """Digits may differ by a hundredth of the value: processors round in their own ways."""
    if shutil.which("curl") is None:
        pytest.skip("no curl on PATH; install curl")
    commands, outputs = code_blocks(PAGE, "sh"), code_blocks(PAGE, "text")
    service = Service(tmp_path, reserved_port(), {})
    service.start()
    try:
        wait_until(lambda: is_ready(service.url), "ready")
        printed = [_run(command.replace(SHOWN_URL, service.url), tmp_path) for command in commands]
    finally:
        service.stop()

    assert len(commands) == len(outputs) == 8
    for command, said, shown in zip(commands, printed, outputs, strict=True):
        assert SHOWN_URL in command
        assert _alike(said, shown), f"{command}\nprints\n{said}"


def _run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout


def _alike(printed: str, shown: str) -> bool:
    pieces = [_NUMBER.split(_DIGEST.sub("", text.strip())) for text in (printed, shown)]
    pairs = zip_longest(*pieces, fillvalue="")
    return all(
        one == other if place % 2 == 0 else float(one) == pytest.approx(float(other), rel=0.01)
        for place, (one, other) in enumerate(pairs)
    )


def test_other_output_is_noticed():
    """Another digest or last digit is not; a word or another number is."""
    shown = '{"p":[0.0100],"version":"000001-4f5680e7"}'

    assert _alike('{"p":[0.01001],"version":"000001-00000000"}\n', shown)
    assert not _alike(shown.replace("0.0100", "0.0102"), shown)
    assert not _alike(shown.replace("p", "q"), shown)
    assert not _alike(shown.replace("000001", "000002"), shown)
    assert not _alike("", shown)
