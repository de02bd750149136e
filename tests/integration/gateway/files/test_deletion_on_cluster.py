"""What a real API server says of who reads a file: DELETE /v1/files/{id} with the BatchJobs of a cluster.

The BatchJobs are of a queue that nobody admits, so that an operator that is running in the cluster starts none of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from batchwright.gateway import ids
from batchwright.gateway.context import Gateway
from batchwright.gateway.principal import Principal
from batchwright.kube.connection import Connection
from fixtures.batch_world import ENDPOINT
from fixtures.cluster import Cluster, eventually
from fixtures.files_service import FORM, LINE, upload_form
from fixtures.gateway import KnownUsers, bearer, gateway_on, running_gateway
from fixtures.s3 import S3Bucket

pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class Tenant:
    """A gateway with the cluster's API server, and its one user."""

    gateway: Gateway
    cluster: Cluster
    namespace: str
    client: httpx.Client

    def upload(self) -> str:
        answer = self.client.post("/v1/files", content=upload_form(), headers=FORM)
        return str(answer.raise_for_status().json()["id"])

    def batch_by_id(self, file_id: str) -> str:
        answer = self.client.post("/v1/batches", json={"input_file_id": file_id, "endpoint": ENDPOINT})
        return str(answer.raise_for_status().json()["id"])

    def batch_by_path(self, file_id: str) -> str:
        uri = f"{self.gateway.tenant(self.namespace).uri}{file_id}"
        asked = {"model": "llama", "input_file": uri}
        answer = self.client.post("/resource_server/local/vllm/v1/batches", json=asked)
        return str(answer.raise_for_status().json()["batch_id"])

    def delete(self, file_id: str) -> httpx.Response:
        return self.client.delete(f"/v1/files/{file_id}")


@dataclass(frozen=True)
class RealApi:
    """As `gateway_on` takes it."""

    cluster: Cluster

    def connection(self) -> Connection:
        return Connection(self.cluster.api_client)


@pytest.fixture
def tenant(crd: Cluster, namespace: str, s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[Tenant]:
    user = Principal("alice", namespace)
    gateway = gateway_on(
        f"s3://{s3_bucket.name}/batches/",
        RealApi(crd),
        tmp_path,
        credentials=s3_bucket.server.root.credentials_dir,
        users=KnownUsers(user),
        storage={"endpointURL": s3_bucket.server.endpoint_url},
        defaultServer={"url": "http://127.0.0.1:9"},
        batchJobs={"queueName": "nobody-admits"},
    )
    with running_gateway(gateway) as url, httpx.Client(base_url=url, headers=bearer(user), timeout=60) as client:
        yield Tenant(gateway, crd, namespace, client)


@pytest.mark.parametrize("make", [Tenant.batch_by_id, Tenant.batch_by_path])
@pytest.mark.parametrize("record", ["kept", "lost"])
def test_a_file_stays_while_a_batch_reads_it(tenant: Tenant, make: Callable[[Tenant, str], str], record: str) -> None:
    """Without the batch's record only the BatchJob tells, which a label selector finds."""
    file_id, other = tenant.upload(), tenant.upload()
    batch_id = make(tenant, file_id)
    if record == "lost":
        tenant.gateway.batches.delete(tenant.namespace, batch_id)
    answer = tenant.delete(file_id)
    assert answer.status_code == 409
    assert batch_id in answer.json()["error"]["message"]
    assert tenant.client.get(f"/v1/files/{file_id}/content").content == LINE
    assert tenant.delete(other).status_code == 200

    tenant.cluster.kubectl("delete", "batchjob", ids.batchjob_name(batch_id), "--namespace", tenant.namespace)

    def deleted() -> None:
        assert tenant.delete(file_id).status_code == 200

    eventually(deleted)
