"""Fixtures that tests of several kinds share. Each starts what it needs only when a test asks for it."""

pytest_plugins = ["fixtures.cluster", "fixtures.s3", "fixtures.stub"]
