"""A real browser for the tests that look at a report."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

# A test sees every request that the page makes, and none of the browser's own.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, once for a module."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    if binary is None:
        pytest.skip("no browser on PATH; install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=list(ARGUMENTS))
        yield chromium
        chromium.close()
