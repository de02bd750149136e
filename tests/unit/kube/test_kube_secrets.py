"""Single entries of a Secret over HTTP calls: nobody else's are touched."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from batchwright.kube import errors
from batchwright.kube.secrets import SecretObject
from fixtures.kubernetes_http import Answer, HttpApi, Meanwhile

PATH = "/api/v1/namespaces/system/secrets/gateway-keys"
LABELS = {"app.kubernetes.io/managed-by": "batchwright"}


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        yield server


def secret_of(api: HttpApi) -> SecretObject:
    return SecretObject(api.connection(), "system", "gateway-keys")


def manifest(**data: bytes) -> dict[str, Any]:
    return {
        "metadata": {"name": "gateway-keys"},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def test_a_secret_that_is_not_there_is_none(api: HttpApi) -> None:
    assert secret_of(api).read() is None


def test_entries_are_decoded_and_one_that_is_no_base64_is_empty(api: HttpApi) -> None:
    api.put(PATH, manifest(a=b"\x00\xff") | {"data": {"a": "AP8=", "b": "%"}})
    assert secret_of(api).read() == {"a": b"\x00\xff", "b": b""}


def test_a_secret_without_entries_is_empty(api: HttpApi) -> None:
    api.put(PATH, {"metadata": {"name": "gateway-keys"}})
    assert secret_of(api).read() == {}


def test_a_missing_secret_is_made(api: HttpApi) -> None:
    secret_of(api).write({"a": b"1", "gone": None}, LABELS)
    assert secret_of(api).read() == {"a": b"1"}
    assert api.objects[PATH]["metadata"]["labels"] == LABELS
    assert api.objects[PATH]["type"] == "Opaque"


def test_other_entries_stay(api: HttpApi) -> None:
    api.put(PATH, manifest(a=b"1", b=b"2"))
    secret_of(api).write({"c": b"3", "b": None}, LABELS)
    assert secret_of(api).read() == {"a": b"1", "c": b"3"}


def test_of_two_who_make_it_at_once_both_entries_survive(api: HttpApi) -> None:
    api.fail("POST", "/secrets", Meanwhile(lambda: api.put(PATH, manifest(theirs=b"1"))))
    secret_of(api).write({"ours": b"2"}, LABELS)
    assert secret_of(api).read() == {"theirs": b"1", "ours": b"2"}


def test_without_the_right_nothing_is_made(api: HttpApi) -> None:
    api.fail("PATCH", "/secrets", Answer(403, "Forbidden"))
    with pytest.raises(errors.Refused):
        secret_of(api).write({"a": b"1"}, LABELS)
    assert not api.called("POST", "/secrets")


def test_a_namespace_that_is_missing_is_said(api: HttpApi) -> None:
    api.fail("POST", "/secrets", Answer(404, "NotFound"))
    with pytest.raises(errors.NotFound):
        secret_of(api).write({"a": b"1"}, LABELS)


def test_a_secret_that_comes_and_goes_is_given_up(api: HttpApi) -> None:
    api.fail("POST", "/secrets", Answer(409, "AlreadyExists"), times=10)
    with pytest.raises(errors.Conflict):
        secret_of(api).write({"a": b"1"}, LABELS)
