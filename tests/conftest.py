"""What all tests share."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: examples have no time limit of their own.
settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")
