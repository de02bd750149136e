"""Fixtures of the tests against a real API server."""

from fixtures.cluster import cluster, namespace

__all__ = ["cluster", "namespace"]
