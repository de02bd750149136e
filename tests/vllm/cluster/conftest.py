"""Fixtures of the tests on a vLLM in the cluster: `make cluster-up images quickstart vllm-up` comes before them."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import fresh_quickstart, quickstart_bucket
from e2e.quickstart import Quickstart
from fixtures.cluster import Cluster
from vllm.cluster.model_server import NAMESPACE, ModelServer

__all__ = ["quickstart_bucket"]

REMEDY = "these tests need a vLLM in the cluster: run `make cluster-up images quickstart vllm-up`"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/vllm/cluster/" in str(item.path):
            item.add_marker(pytest.mark.vllm_cluster)
            # Most of it is the server's start, of which a test waits for one or two.
            item.add_marker(pytest.mark.timeout(900), append=False)


@pytest.fixture(scope="module")
def batches(cluster: Cluster, quickstart_bucket: Any) -> Iterator[Quickstart]:
    """The quickstart's namespace and bucket; BatchJobs of the module go with it."""
    with fresh_quickstart(cluster, quickstart_bucket) as view:
        yield view


@pytest.fixture(scope="session")
def deployed(cluster: Cluster) -> ModelServer:
    """The Deployment of vLLM, as it happens to be."""
    if "vllm" not in cluster.kubectl("--namespace", NAMESPACE, "get", "deployments", check=False).split():
        pytest.fail(REMEDY, pytrace=False)
    return ModelServer(cluster)


@pytest.fixture
def model_server(deployed: ModelServer) -> Iterator[ModelServer]:
    """The Deployment of vLLM with one replica, ready; a test may scale it."""
    deployed.wait_ready()
    replicas = deployed.spec()["replicas"]
    yield deployed
    deployed.scale(replicas)
