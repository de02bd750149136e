"""Fixtures of the tests on a whole cluster: `make cluster-up images quickstart` comes before them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hack.quickstart import port_forward, quickstart_s3

from e2e.quickstart import NAMESPACE, Quickstart
from fixtures.cluster import Cluster

REMEDY = "these tests need the quickstart: run `make cluster-up images quickstart`"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def quickstart_bucket(cluster: Cluster) -> Iterator[Any]:
    """A client of the quickstart's S3 server."""
    if "model-server" not in cluster.kubectl("--namespace", NAMESPACE, "get", "services", check=False):
        pytest.fail(REMEDY, pytrace=False)
    with quickstart_s3() as s3:
        yield s3


@pytest.fixture
def quickstart(cluster: Cluster, quickstart_bucket: Any) -> Iterator[Quickstart]:
    """The quickstart with a model server that has counted nothing yet; BatchJobs of the test go with it."""
    # A tunnel for each test: it ends with the pod that it leads to, which a test may restart.
    with fresh_quickstart(cluster, quickstart_bucket) as view:
        yield view


@contextmanager
def fresh_quickstart(cluster: Cluster, bucket: Any) -> Iterator[Quickstart]:
    """What the fixture `quickstart` gives, for as long as the caller wants it."""
    with (
        port_forward("deployment/model-server", 8001) as control,
        httpx.Client(base_url=f"http://{control}", timeout=30) as stub,
    ):
        stub.post("/stub/reset").raise_for_status()
        view = Quickstart(cluster, bucket, stub)
        before = set(_names(view))
        yield view
        left = [name for name in _names(view) if name not in before]
        if left:
            view.kubectl("delete", "batchjob", *left, "--wait", "--timeout=60s")


def _names(quickstart: Quickstart) -> list[str]:
    listed = quickstart.kubectl("get", "batchjobs", "-o", "jsonpath={.items[*].metadata.name}")
    return listed.split()
