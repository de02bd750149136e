"""A Lease over HTTP calls: which ones, and what they name."""

from typing import Any

import pytest

from batchwright.kube import errors
from batchwright.kube.connection import Connection, RawObject
from batchwright.kube.leases import LeaseObject

PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases"


class ApiServer:
    """Notes the calls; raises or returns what the test put down."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> RawObject:
            self.calls.append((name, *arguments))
            if isinstance(self.answer, Exception):
                raise self.answer
            assert isinstance(self.answer, dict)
            return self.answer

        return call


def lease(server: ApiServer) -> LeaseObject:
    connection: Connection = server  # type: ignore[assignment]
    return LeaseObject(connection, "system", "operator")


def test_a_lease_that_is_not_there_is_none() -> None:
    assert lease(ApiServer(errors.NotFound("gone", status=404))).read() is None


def test_another_error_is_raised() -> None:
    with pytest.raises(errors.Unavailable):
        lease(ApiServer(errors.Unavailable("away"))).read()


def test_a_write_names_the_version_that_it_replaces_and_only_its_own_fields() -> None:
    server = ApiServer({})
    lease(server).replace("7", {"holderIdentity": None})
    body = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": None}}
    assert server.calls == [("patch", f"{PATH}/operator", body)]


def test_it_is_created_under_its_name() -> None:
    server = ApiServer({})
    lease(server).create({"holderIdentity": "me"})
    ((verb, path, body),) = server.calls
    assert (verb, path) == ("create", PATH)
    assert body["metadata"] == {"name": "operator", "namespace": "system"}
    assert body["spec"] == {"holderIdentity": "me"}


def test_it_is_called_by_namespace_and_name() -> None:
    assert str(lease(ApiServer({}))) == "system/operator"
