"""A real service for the documented examples: uvicorn in a thread, on real Redis."""

from tests.api.conftest import service, settings

__all__ = ["service", "settings"]
