"""The command as users start it: the product's fixtures for what research has."""

from tests.command_line.conftest import called, environment, sirocco, started

__all__ = ["called", "environment", "sirocco", "started"]
