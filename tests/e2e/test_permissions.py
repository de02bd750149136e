"""What the storage account may not do is found before the first request, and the condition names it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hack.quickstart import quickstart_s3_keys

from e2e.quickstart import BUCKET, Quickstart, chat_line, condition
from fixtures.s3 import Account, S3Bucket, S3Server

NEEDED = ("s3:GetObject", "s3:ListBucket", "s3:PutObject")


@pytest.fixture
def secret_allowing(quickstart: Quickstart, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Make a Secret with an account that may do these actions in the bucket, and no others; gives its name."""
    root = Account(*quickstart_s3_keys(), tmp_path)
    bucket = S3Bucket(S3Server(quickstart.s3.meta.endpoint_url, root, tmp_path), BUCKET, quickstart.s3)
    names: list[str] = []

    def make(*actions: str) -> str:
        account = Account.create(tmp_path / "account", quickstart.name("user"))
        bucket.server.create_user(account)
        allowing.allow(account, *actions)
        names.append(quickstart.name("limited"))
        quickstart.kubectl("create", "secret", "generic", names[-1], f"--from-file={account.credentials_dir}")
        return names[-1]

    with bucket.policy_kept() as allowing:
        yield make
    for name in names:
        quickstart.kubectl("delete", "secret", name)


@pytest.mark.parametrize("refused", NEEDED)
def test_a_refused_permission_is_named_before_any_request(
    quickstart: Quickstart, secret_allowing: Callable[..., str], refused: str
) -> None:
    name, secret = quickstart.name("refused"), secret_allowing(*(action for action in NEEDED if action != refused))
    uri = quickstart.put(f"in/{name}.jsonl", [chat_line("a")])
    quickstart.apply(name, uri, storage=_storage(secret))
    failed = condition(quickstart.wait(name, "failed"), "Failed")
    assert failed["reason"] == "StorageAccessDenied"
    assert refused in failed["message"]
    assert f"s3://{BUCKET}/" in failed["message"]
    assert quickstart.arrivals() == {}


def test_these_three_are_enough_and_a_refused_delete_is_told(
    quickstart: Quickstart, secret_allowing: Callable[..., str]
) -> None:
    name, secret = quickstart.name("enough"), secret_allowing(*NEEDED)
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", [chat_line("a")]), storage=_storage(secret))
    status = quickstart.wait(name, "completed")["status"]
    assert status["requestCounts"] == {"total": 1, "completed": 1, "failed": 0}
    assert "s3:DeleteObject" in status["message"]


def _storage(secret: str) -> dict[str, object]:
    return {"endpointURL": "http://s3:7070", "credentialsSecretRef": {"name": secret}}
