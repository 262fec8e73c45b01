"""The image's steps replayed, and what they make run as deployments run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY

if sys.platform != "linux" or os.geteuid() != 0:
    pytest.skip("needs root on Linux, for chroot and namespaces", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_the_dockerfile_makes_serves_and_drains(redis_binary):
    parts = Path(sys.prefix) / "image"
    if not parts.exists():
        pytest.skip("no parts of the image: python deploy/replay_image.py --fetch .venv/image")
    command = [sys.executable, DEPLOY / "replay_image.py", parts, "--redis-server", redis_binary]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    said = run.stdout.splitlines()
    assert "ok: /readyz answers 200" in said
    assert "ok: it drains on SIGTERM" in said
    assert said[-1] == "the image serves"
