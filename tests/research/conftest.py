"""The command as users start it, and a browser: the product's fixtures for what research has."""

from tests.command_line.conftest import called, environment, sirocco, started
from tests.reports.conftest import browser

__all__ = ["browser", "called", "environment", "sirocco", "started"]
