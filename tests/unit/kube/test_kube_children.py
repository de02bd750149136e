"""The rules for names that are taken and objects that are gone, against an API server in memory."""

from typing import Any

import pytest

from batchwright.kube import errors
from batchwright.kube.children import Children
from batchwright.kube.connection import Connection, RawObject

OWNER = "owner-uid"
JOB = {"kind": "Job", "metadata": {"name": "plan", "namespace": "demo"}}
PATH = "/apis/batch/v1/namespaces/demo/jobs"


class ApiServer:
    """As much of an API server as these rules need: it refuses names that are taken and UIDs that are others."""

    def __init__(self, **objects: RawObject) -> None:
        self.objects = {f"{PATH}/{name}": value for name, value in objects.items()}
        self.vanishing = False

    def create(self, path: str, body: RawObject) -> RawObject:
        key = f"{path}/{body['metadata']['name']}"
        if key in self.objects:
            raise errors.AlreadyExists("taken", status=409)
        self.objects[key] = body
        return body

    def get(self, path: str, query: dict[str, str] | None = None) -> RawObject:
        if self.vanishing or path not in self.objects:
            raise errors.NotFound("gone", status=404)
        return self.objects[path]

    def patch(self, path: str, body: RawObject, content_type: str = "") -> RawObject:
        self._check(path.removesuffix("/status"), body["metadata"]["uid"])
        return body

    def delete(self, path: str, *, uid: str | None = None) -> None:
        self._check(path, uid)
        del self.objects[path]

    def _check(self, path: str, uid: str | None) -> None:
        stored = self.get(path)["metadata"]["uid"]
        if uid not in (None, stored):
            raise errors.Conflict("another UID", status=409)


def job(owner: str = OWNER, **metadata: Any) -> RawObject:
    owners = [{"uid": owner, "controller": True}]
    return {"metadata": {"name": "plan", "uid": "job-uid", "ownerReferences": owners, **metadata}}


def children(server: ApiServer) -> Children:
    connection: Connection = server  # type: ignore[assignment]
    return Children(connection)


def test_a_child_is_created() -> None:
    server = ApiServer()
    children(server).create_job("demo", OWNER, JOB)
    assert list(server.objects) == [f"{PATH}/plan"]


def test_our_own_child_of_that_name_is_a_success() -> None:
    server = ApiServer(plan=job())
    children(server).create_job("demo", OWNER, JOB)
    assert server.objects[f"{PATH}/plan"] == job()


def test_a_child_that_is_being_deleted_is_awaited() -> None:
    with pytest.raises(errors.BeingDeleted):
        children(ApiServer(plan=job(deletionTimestamp="2026-01-01T00:00:00Z"))).create_job("demo", OWNER, JOB)


def test_a_child_that_vanishes_meanwhile_is_awaited() -> None:
    server = ApiServer(plan=job())
    server.vanishing = True
    with pytest.raises(errors.BeingDeleted):
        children(server).create_job("demo", OWNER, JOB)


@pytest.mark.parametrize("existing", [job(owner="somebody"), {"metadata": {"name": "plan", "uid": "x"}}])
def test_a_name_that_somebody_else_has_is_a_refusal(existing: RawObject) -> None:
    with pytest.raises(errors.Refused, match="belongs to somebody else"):
        children(ApiServer(plan=existing)).create_job("demo", OWNER, JOB)


def test_only_the_very_job_is_deleted() -> None:
    server = ApiServer(plan=job())
    children(server).delete_job("demo", "plan", "an older one")
    assert server.objects
    children(server).delete_job("demo", "plan", "job-uid")
    assert not server.objects
    children(server).delete_job("demo", "plan", "job-uid")


def test_only_the_very_pod_is_deleted() -> None:
    server = ApiServer()
    server.objects["/api/v1/namespaces/demo/pods/worker"] = {"metadata": {"uid": "pod-uid"}}
    children(server).delete_pod("demo", "worker", "an older one")
    assert server.objects
    children(server).delete_pod("demo", "worker", "pod-uid")
    assert not server.objects
    children(server).delete_pod("demo", "worker", "pod-uid")


def test_a_config_map_that_is_not_there_is_none() -> None:
    assert children(ApiServer()).config_map("demo", "x") is None


@pytest.mark.parametrize(
    ("namespace", "terminating"),
    [
        ({"metadata": {}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
        (None, True),
    ],
)
def test_whether_a_namespace_is_to_go(namespace: RawObject | None, terminating: bool) -> None:
    server = ApiServer()
    if namespace is not None:
        server.objects["/api/v1/namespaces/demo"] = namespace
    assert children(server).namespace_is_terminating("demo") is terminating
