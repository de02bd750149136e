"""Fixtures that tests of several kinds share. Each starts what it needs only when a test asks for it."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["fixtures.cluster", "fixtures.s3", "fixtures.stub"]

# On a busy machine an example takes as long as it takes. All else is Hypothesis's choice: where CI is set, the same
# examples each time; elsewhere other ones each time, and those that failed again.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")
