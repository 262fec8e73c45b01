"""Property tests here are bounded by examples, not by the clock of a busy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("pccem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pccem")
