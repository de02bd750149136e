"""The quickstart's storage users, on a real server that was prepared as in their pod.

The gateway reaches its own prefix, a tenant its own part of that, and neither anything else.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fixtures.quickstart_storage import BUCKET, GATEWAY_USER, quickstart_storage, secret, tenant_user
from fixtures.s3 import Account, S3Server

TENANT = "gateway/batchwright-demo"
KEYS = {
    "upload": f"{TENANT}/file-1",
    "result": f"{TENANT}/batch-1/results.jsonl",
    "another tenant's": "gateway/other/file-1",
    "a tenant's with a longer name": f"{TENANT}-2/file-1",
    "record": "gateway/.gateway/files/batchwright-demo/file-1.json",
    "outside": "in/input.jsonl",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with an object of each key."""
    with quickstart_storage(tmp_path_factory.mktemp("quickstart")) as running:
        for key in KEYS.values():
            running.client().put_object(Bucket=BUCKET, Key=key, Body=b"x")
        yield running


def client_of(server: S3Server, user: str) -> Any:
    keys = {"gateway": GATEWAY_USER, "tenant": tenant_user()}[user]
    return server.client(Account(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], server.folder))


def allowed(request: Callable[[], object]) -> bool:
    try:
        request()
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.FORBIDDEN:
            raise
        return False
    return True


REACHED = [
    ("gateway", {"upload", "result", "another tenant's", "a tenant's with a longer name", "record"}),
    ("tenant", {"upload", "result"}),
]


@pytest.mark.parametrize(("user", "reached"), REACHED)
def test_what_a_user_may_read_write_and_delete(server: S3Server, user: str, reached: set[str]) -> None:
    client = client_of(server, user)
    for name, key in KEYS.items():
        place = {"Bucket": BUCKET, "Key": key}
        requests: list[Callable[[], object]] = [
            lambda place=place: client.get_object(**place),
            lambda place=place: client.put_object(**place, Body=b"y"),
            lambda place=place: client.abort_multipart_upload(
                **place, UploadId=client.create_multipart_upload(**place)["UploadId"]
            ),
            lambda place=place: client.delete_object(Bucket=BUCKET, Key=f"{place['Key']}-gone"),
        ]
        assert [allowed(request) for request in requests] == [name in reached] * len(requests), name


@pytest.mark.parametrize("user", ["gateway", "tenant"])
@pytest.mark.parametrize(
    ("prefix", "users"),
    [
        (f"{TENANT}/", {"gateway", "tenant"}),
        (f"{TENANT}/batch-1/", {"gateway", "tenant"}),
        ("gateway/.gateway/files/", {"gateway"}),
        (TENANT, {"gateway"}),
        ("gateway/", {"gateway"}),
        ("", set()),
    ],
)
def test_what_a_user_may_list(server: S3Server, user: str, prefix: str, users: set[str]) -> None:
    client = client_of(server, user)
    assert allowed(lambda: client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)) == (user in users)


def test_a_tenant_copies_nothing_out_of_reach(server: S3Server) -> None:
    root, client = server.client(), client_of(server, "tenant")
    for source, target in ((KEYS["another tenant's"], KEYS["upload"]), (KEYS["upload"], KEYS["another tenant's"])):
        root.put_object(Bucket=BUCKET, Key=source, Body=b"source")
        root.put_object(Bucket=BUCKET, Key=target, Body=b"target")
        with pytest.raises(ClientError):
            client.copy_object(Bucket=BUCKET, Key=target, CopySource={"Bucket": BUCKET, "Key": source})
        assert root.get_object(Bucket=BUCKET, Key=target)["Body"].read() == b"target"


def test_dots_lead_nowhere(server: S3Server) -> None:
    with pytest.raises(ClientError):
        client_of(server, "tenant").get_object(Bucket=BUCKET, Key=f"{TENANT}/../other/file-1")


def test_the_server_takes_the_policy_as_one_that_is_put(server: S3Server) -> None:
    """The init container writes it where the server keeps it, unchecked."""
    policy = secret("s3-users")["policy.json"]
    assert server.client().get_bucket_policy(Bucket=BUCKET)["Policy"] == policy
    server.client().put_bucket_policy(Bucket=BUCKET, Policy=policy)


def test_the_first_user_may_do_everything_all_the_same(server: S3Server) -> None:
    assert all(
        allowed(lambda key=key: server.client().head_object(Bucket=BUCKET, Key=key))
        for key in (KEYS["upload"], KEYS["outside"], KEYS["record"])
    )


def test_a_secret_that_is_changed_behind_the_server_holds_at_once(server: S3Server) -> None:
    """It keeps no secrets of its own, which it might mix up with what other requests bring."""
    account = server.create_account()
    changed = replace(account, secret_key=account.secret_key[::-1])
    before, after = server.client(account), server.client(changed)
    assert outcome_of(before) == "AccessDenied", "known, but no policy lets it do anything"
    users = server.folder / "iam" / "users.json"
    users.write_text(users.read_text().replace(account.secret_key, changed.secret_key))
    assert outcome_of(before) == "SignatureDoesNotMatch"
    assert outcome_of(after) == "AccessDenied"


def outcome_of(client: Any) -> str:
    """Of a read that no policy allows."""
    with pytest.raises(ClientError) as failed:
        client.get_object(Bucket=BUCKET, Key=KEYS["outside"])
    return str(failed.value.response["Error"]["Code"])
