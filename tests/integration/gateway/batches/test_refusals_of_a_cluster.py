"""What a real API server says when it doesn't create a BatchJob, and what the gateway makes of it."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from batchwright.api import names
from batchwright.gateway.batches.batchjob import manifest_of
from batchwright.gateway.batches.current import current
from batchwright.gateway.batches.making import make_batch
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.ids import new_batch_id
from batchwright.gateway.records.batch_record import BatchRecord, BatchState
from batchwright.kube.batchjobs import BatchJobs
from batchwright.kube.connection import Connection
from batchwright.kube.errors import KubernetesError, Unavailable
from builders import spec_of
from fixtures.batch_records import record
from fixtures.cluster import Cluster, eventually
from fixtures.gateway import gateway_on
from fixtures.kubernetes_http import HttpApi

pytestmark = pytest.mark.cluster
POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": [names.GROUP],
                "apiVersions": ["*"],
                "operations": ["CREATE"],
                "resources": [names.PLURAL],
            }
        ]
    },
    "validations": [{"expression": "has(object.metadata.labels.team)", "message": "batches need the label team"}],
}


@dataclass(frozen=True)
class Surroundings:
    """A gateway whose tenant is a namespace of the cluster."""

    cluster: Cluster
    gateway: Gateway
    namespace: str

    def batch(self, **spec: Any) -> BatchRecord:
        """A batch that nobody would run; with something wrong in its spec, perhaps."""
        now = self.gateway.clock()
        wanted = spec_of() | {"suspend": True} | spec
        return record(id=new_batch_id(now), created_at=now, namespace=self.namespace, spec=wanted, input_file_id=None)

    def as_account(self, name: str) -> "Surroundings":
        """The same with the rights of a service account, which has none."""
        self.cluster.kubectl("create", "serviceaccount", name, "--namespace", self.namespace)
        token = self.cluster.kubectl("create", "token", name, "--namespace", self.namespace).strip()
        own = self.cluster.api_client.configuration
        configuration = client.Configuration(host=own.host)
        configuration.ssl_ca_cert = own.ssl_ca_cert
        configuration.api_key = {"authorization": f"Bearer {token}"}
        batchjobs = BatchJobs(Connection(client.ApiClient(configuration)))
        return replace(self, gateway=replace(self.gateway, batchjobs=batchjobs))

    def wait_refused(self, words: str) -> None:
        """Until what makes the cluster refuse is known to its API server."""
        manifest, create = json.dumps(manifest_of(self.batch())), ("create", "--dry-run=server", "-f", "-")

        def refused() -> None:
            assert words in self.cluster.kubectl(*create, stdin=manifest, check=False)

        eventually(refused)

    def refusal(self, batch: BatchRecord | None = None) -> ApiError:
        """What the client of a new batch hears. Nothing of it is left."""
        before = self.ids()
        with pytest.raises(ApiError) as error:
            make_batch(self.gateway, batch or self.batch())
        assert self.ids() == before
        return error.value

    def ids(self) -> list[str]:
        """Of all batches."""
        return [stored.record.id for stored in self.gateway.batches.list(self.namespace)]

    def pending(self, batch: BatchRecord | None = None) -> str:
        """The id of a batch that was taken while the API server was away."""
        batch = batch or self.batch()
        self.gateway.batches.create(batch.namespace, batch.id, batch)
        return batch.id

    def look(self, batch_id: str) -> BatchState:
        stored = self.gateway.batches.get(self.namespace, batch_id)
        assert stored is not None
        return current(self.gateway, stored)[1]


@pytest.fixture
def here(crd: Cluster, tmp_path: Path) -> Iterator[Surroundings]:
    namespace = crd.make_namespace("test-refusals")
    with HttpApi() as unused:
        gateway = gateway_on(f"file://{tmp_path}/batches/", unused, tmp_path)
        yield Surroundings(crd, replace(gateway, batchjobs=BatchJobs(Connection(crd.api_client))), namespace)
    crd.delete_namespace(namespace)


@contextmanager
def policy(here: Surroundings) -> Iterator[None]:
    """A ValidatingAdmissionPolicy for the namespace."""
    name = f"batchwright-{uuid.uuid4().hex[:8]}"
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    place = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": here.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": place}
    for manifest in (
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": POLICY},
        {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ):
        here.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    try:
        yield
    finally:
        both = "validatingadmissionpolicy,validatingadmissionpolicybinding"
        here.cluster.kubectl("delete", both, name, "--ignore-not-found")


def use_up_quota(here: Surroundings) -> None:
    hard = f"--hard=count/{names.PLURAL}.{names.GROUP}=0"
    here.cluster.kubectl("create", "quota", "small", hard, "--namespace", here.namespace)
    here.wait_refused("exceeded quota")


class TestTheBatchIsRefused:
    def test_by_a_quota(self, here: Surroundings) -> None:
        use_up_quota(here)

        error = here.refusal()
        assert (error.status, error.code) == (400, "cluster_refused")
        assert "exceeded quota: small" in error.message
        assert here.look(here.pending()).status == "failed"

    def test_by_a_policy(self, here: Surroundings) -> None:
        with policy(here):
            here.wait_refused("batches need the label team")
            error = here.refusal()
            state = here.look(here.pending())

        assert (error.status, error.code) == (400, "cluster_refused")
        assert "batches need the label team" in error.message
        assert (state.status, state.errors[0].code) == ("failed", "cluster_refused")

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({"completionWindow": "1y"}, id="schema"),
            pytest.param({"input": {"uri": "gs://bucket/key"}}, id="rule"),
        ],
    )
    def test_by_the_resource_itself(self, here: Surroundings, spec: dict[str, Any]) -> None:
        error = here.refusal(here.batch(**spec))

        assert (error.status, error.code) == (400, "cluster_refused")
        assert f"spec.{next(iter(spec))}" in error.message
        assert here.look(here.pending(here.batch(**spec))).status == "failed"

    def test_since_there_is_no_such_namespace(self, here: Surroundings) -> None:
        nowhere = replace(here, namespace="test-nowhere")

        assert "test-nowhere" in nowhere.refusal().message
        assert nowhere.look(nowhere.pending()).status == "failed"


class TestTheGatewayIsNotSetUp:
    def test_without_its_rights_a_batch_waits(self, here: Surroundings, caplog: pytest.LogCaptureFixture) -> None:
        powerless = here.as_account("gateway")
        waiting = here.pending()

        error = powerless.refusal()
        assert (error.status, error.headers["retry-after"]) == (503, "30")
        assert "cannot create resource" in caplog.text
        grant(here, "gateway", "get,list")
        eventually(lambda: assert_waits(powerless, waiting))
        grant(here, "gateway", "create")
        eventually(lambda: assert_begins(powerless, waiting))

    def test_without_the_kind_a_batch_waits(self, here: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
        waiting = here.pending()
        with monkeypatch.context() as missing:
            missing.setattr(names, "API_VERSION", f"missing.{names.API_VERSION}")

            error = here.refusal()
            assert (error.status, error.headers["retry-after"]) == (503, "30")
            with pytest.raises(Unavailable):
                here.look(waiting)

        assert_begins(here, waiting)


def grant(here: Surroundings, account: str, verbs: str) -> None:
    """A right more."""
    name, where = verbs.replace(",", "-"), ("--namespace", here.namespace)
    resource = f"--resource={names.PLURAL}.{names.GROUP}"
    here.cluster.kubectl("create", "role", name, f"--verb={verbs}", resource, *where)
    subject = f"--serviceaccount={here.namespace}:{account}"
    here.cluster.kubectl("create", "rolebinding", name, f"--role={name}", subject, *where)


def assert_waits(here: Surroundings, batch_id: str) -> None:
    try:
        assert here.look(batch_id).status == "validating"
    except KubernetesError as error:  # the right isn't known everywhere yet
        raise AssertionError from error


def assert_begins(here: Surroundings, batch_id: str) -> None:
    assert here.look(batch_id).status == "validating"
    stored = here.gateway.batches.get(here.namespace, batch_id)
    assert stored is not None
    assert stored.record.batchjob_uid
