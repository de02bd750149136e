"""Permissions and credentials of the S3 store, on a real server with accounts and policies."""

import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchwright.storage.errors import (
    AccessDenied,
    BucketMissing,
    CredentialsRevoked,
    InvalidCredentials,
    Misconfigured,
    MissingCredentials,
    NotFound,
)
from batchwright.storage.join_plan import MIB
from batchwright.storage.probe import probe_conditional_put, probe_readable, probe_writable
from batchwright.storage.protocol import Literal, ObjectRange
from batchwright.storage.s3 import S3Store
from batchwright.storage.s3_client import S3Clients
from fixtures.cluster import ROOT
from fixtures.s3 import Account, MountedSecret, S3Bucket, S3Server

MINIMAL = ("s3:GetObject", "s3:ListBucket", "s3:PutObject")
"""What the documentation promises to be enough for a whole run."""

CALLS: dict[str, Callable[[S3Store], object]] = {
    "head": lambda store: store.head("object"),
    "read": lambda store: store.read("object"),
    "stream": lambda store: list(store.stream("object", start=1)),
    "list": lambda store: list(store.list("prefix/")),
    "write": lambda store: store.write("new", b""),
    "write if absent": lambda store: store.write("new", b"", if_none_match=True),
    "join": lambda store: store.join("new", [Literal(bytes(17 * MIB))]),
    "probe": lambda store: probe_conditional_put(store, "out/"),
}


@pytest.fixture(scope="session")
def account(s3_server: S3Server) -> Account:
    return s3_server.create_account()


@pytest.fixture
def restricted(s3_bucket: S3Bucket, account: Account) -> Callable[..., S3Store]:
    """A store whose account may do only what is named."""

    def open_(*actions: str) -> S3Store:
        s3_bucket.put("object", b"content")
        s3_bucket.allow(account, *actions)
        return s3_bucket.store(credentials_dir=account.credentials_dir)

    return open_


@pytest.mark.parametrize(
    ("refused", "calls", "key"),
    [
        ("s3:GetObject", ["head", "read", "stream"], "object"),
        ("s3:ListBucket", ["list"], "prefix/"),
        ("s3:PutObject", ["write", "write if absent", "join"], "new"),
    ],
)
def test_a_refusal_names_the_permission_and_the_uri(
    restricted: Callable[..., S3Store], refused: str, calls: list[str], key: str
) -> None:
    store = restricted(*(action for action in MINIMAL if action != refused))
    for call in calls:
        with pytest.raises(AccessDenied) as caught:
            CALLS[call](store)
        assert caught.value.permission == refused
        assert caught.value.uri == store.uri(key)
        assert refused in str(caught.value)
        assert store.uri(key) in str(caught.value)
        assert f"Grant {refused}" in caught.value.remedy


def test_three_permissions_are_enough(restricted: Callable[..., S3Store], s3_bucket: S3Bucket) -> None:
    store = restricted(*MINIMAL)
    s3_bucket.put("piece", bytes(17 * MIB))
    for call in CALLS.values():
        call(store) if call is not CALLS["write if absent"] else None
    store.write("claim", b"", if_none_match=True)
    joined = store.join("joined", [ObjectRange("piece", 0, 17 * MIB), Literal(b"end")])
    assert joined.size == 17 * MIB + 3


def test_a_refused_delete_is_reported_with_its_permission(restricted: Callable[..., S3Store]) -> None:
    store = restricted(*MINIMAL)
    (failure,) = store.delete(["object"])
    assert (failure.key, failure.permission) == ("object", "s3:DeleteObject")
    assert store.uri("object") in failure.reason
    assert store.read("object") == b"content"


def test_a_probe_says_when_deletes_are_refused(restricted: Callable[..., S3Store]) -> None:
    (failure,) = probe_writable(restricted(*MINIMAL), "out/")
    assert failure.permission == "s3:DeleteObject"


def test_a_refused_read_says_that_the_object_may_not_exist(restricted: Callable[..., S3Store]) -> None:
    with pytest.raises(AccessDenied, match="does not exist, unless s3:ListBucket"):
        restricted("s3:PutObject").head("missing")


@pytest.mark.parametrize("call", ["head", "read", "list", "write", "join"])
def test_a_missing_bucket_is_named(s3_server: S3Server, s3_bucket: S3Bucket, call: str) -> None:
    store = S3Store("no-such-bucket", S3Clients(s3_bucket.settings, s3_server.root.credentials_dir))
    with pytest.raises(BucketMissing, match="s3://no-such-bucket/"):
        CALLS[call](store)


def test_a_missing_object_is_not_a_missing_bucket(s3_bucket: S3Bucket) -> None:
    with pytest.raises(NotFound, match="taken literally"):
        s3_bucket.store().head("missing")


class TestTenant:
    """The policy of the installation guide for a tenant of the gateway, word for word."""

    FOLDER, OTHER, GATEWAYS = "gateway/team-a", "gateway/team-b", "gateway/.gateway/files/team-a"

    @pytest.fixture
    def tenant(self, s3_bucket: S3Bucket, account: Account) -> S3Store:
        for folder in (self.FOLDER, self.OTHER, self.GATEWAYS, f"{self.FOLDER}-2"):
            s3_bucket.put(f"{folder}/object", b"content")
        policy = documented_policy(s3_bucket.name, "A tenant of the gateway")
        for statement in policy["Statement"]:
            statement["Principal"] = {"AWS": [account.access_key]}
        s3_bucket.client.put_bucket_policy(Bucket=s3_bucket.name, Policy=json.dumps(policy))
        return s3_bucket.store(credentials_dir=account.credentials_dir)

    def test_a_worker_can_do_all_its_work_in_the_tenants_folder(
        self, tenant: S3Store, s3_bucket: S3Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        large = bytes(17 * MIB)
        s3_bucket.put(f"{self.FOLDER}/large", large)
        job = f"{self.FOLDER}/batch-1/"
        probe_readable(tenant, f"{self.FOLDER}/object")
        assert probe_writable(tenant, job) == ()
        assert probe_conditional_put(tenant, job)
        owner = tenant.write(f"{job}owner.json", b"first", if_none_match=True)
        tenant.write(f"{job}owner.json", b"second", if_match=owner.etag)
        (tmp_path / "segment").write_bytes(large)
        tenant.write_file(f"{job}segment", tmp_path / "segment")
        pieces = [ObjectRange(f"{self.FOLDER}/large", 0, len(large)), Literal(b"end")]
        results = tenant.join(f"{job}results.jsonl", pieces)
        assert tenant.head(results.key) == results
        upload, given_up = (tenant.open_upload(f"{job}{name}", spool=tmp_path) for name in ("upload", "given-up"))
        for written in (upload, given_up):
            written.add(large)
        upload.commit()
        given_up.abort()
        assert b"".join(tenant.stream(f"{job}upload", start=MIB)) == large[MIB:]
        keys = [info.key for info in tenant.list(job)]
        assert keys == [f"{job}{name}" for name in ("owner.json", "results.jsonl", "segment", "upload")]
        assert tenant.delete(keys) == ()
        assert s3_bucket.unfinished_uploads() == []
        with caplog.at_level(logging.INFO):
            tenant.abort_uploads(job, lambda key: True)
        assert "s3:ListBucketMultipartUploads" in caplog.text, "what is refused is only told"

    @pytest.mark.parametrize("folder", [OTHER, GATEWAYS, f"{FOLDER}-2"])
    def test_nothing_else_can_be_read_or_changed(
        self, tenant: S3Store, s3_bucket: S3Bucket, tmp_path: Path, folder: str
    ) -> None:
        key = f"{folder}/object"

        def upload(size: int) -> None:
            opened = tenant.open_upload(key, spool=tmp_path)
            opened.add(bytes(size))
            opened.commit()

        calls: list[Callable[[], object]] = [
            lambda: tenant.head(key),
            lambda: tenant.read(key),
            lambda: list(tenant.stream(key, end=1)),
            lambda: list(tenant.list(f"{folder}/")),
            lambda: list(tenant.list(key)),
            lambda: tenant.write(key, b"mine"),
            lambda: tenant.write(f"{folder}/new", b"mine", if_none_match=True),
            lambda: tenant.join(key, [Literal(b"mine")]),
            lambda: tenant.join(f"{self.FOLDER}/stolen", [ObjectRange(key, 0, 7)]),
            lambda: tenant.join(f"{self.FOLDER}/stolen", [Literal(bytes(17 * MIB)), ObjectRange(key, 0, 7)]),
            lambda: upload(1),
            lambda: upload(9 * MIB),
        ]
        for call in calls:
            with pytest.raises(AccessDenied):
                call()
        assert [failure.permission for failure in tenant.delete([key])] == ["s3:DeleteObject"]
        assert s3_bucket.store().read(key) == b"content"
        keys = [info.key for info in s3_bucket.store().list("")]
        assert not [found for found in keys if found.endswith(("new", "stolen"))]

    @pytest.mark.parametrize("prefix", ["", "gateway/", "gateway/team-", "gateway/team-a", "gateway/.gateway/"])
    def test_nothing_above_the_folder_can_be_listed(self, tenant: S3Store, prefix: str) -> None:
        with pytest.raises(AccessDenied):
            list(tenant.list(prefix))


class TestCredentials:
    @pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
    def test_wrong_keys_are_told_apart_from_missing_permissions(
        self, s3_bucket: S3Bucket, tmp_path: Path, name: str
    ) -> None:
        account = Account.create(tmp_path / "secret", s3_bucket.server.root.access_key)
        (account.credentials_dir / name).write_text("wrong")
        with pytest.raises(InvalidCredentials, match="Secret") as caught:
            s3_bucket.store(credentials_dir=account.credentials_dir).head("object")
        assert not caught.value.retryable, "they have never worked"

    def test_a_folder_without_keys_is_named_at_once(self, s3_bucket: S3Bucket, tmp_path: Path) -> None:
        with pytest.raises(MissingCredentials, match=f"{tmp_path}.*AWS_ACCESS_KEY_ID"):
            s3_bucket.store(credentials_dir=tmp_path)

    def test_a_rotated_secret_reaches_a_running_store(
        self, s3_bucket: S3Bucket, account: Account, tmp_path: Path
    ) -> None:
        s3_bucket.put("object", b"content")
        s3_bucket.allow(account, "s3:PutObject")
        mount = MountedSecret(tmp_path / "mount", account)
        store = s3_bucket.store(credentials_dir=mount.folder)
        with pytest.raises(AccessDenied):
            store.read("object")
        mount.swap(s3_bucket.server.root)
        assert store.read("object") == b"content"

    def test_a_refusal_may_pass_where_the_keys_worked_before_until_the_new_ones_have_had_their_time(
        self, s3_server: S3Server, s3_bucket: S3Bucket, tmp_path: Path
    ) -> None:
        s3_bucket.put("object", b"content")
        account = s3_server.create_account()
        s3_bucket.allow(account, "s3:GetObject")
        mount = MountedSecret(tmp_path / "mount", account)
        store, impatient = (
            s3_bucket.store(replace(s3_bucket.settings, rotation_seconds=seconds), credentials_dir=mount.folder)
            for seconds in (60.0, 0.0)
        )
        assert store.read("object") == impatient.read("object") == b"content"
        rotated = s3_server.rotate(account)
        for call in ("head", "read"):
            with pytest.raises(CredentialsRevoked, match=r"no longer accepted \(SignatureDoesNotMatch"):
                CALLS[call](store)
        with pytest.raises(InvalidCredentials) as caught:
            impatient.read("object")
        assert not caught.value.retryable
        mount.swap(rotated)
        assert store.read("object") == b"content", "what is mounted counts at once"
        s3_server.delete_user(rotated)
        with pytest.raises(CredentialsRevoked, match="InvalidAccessKeyId"):
            store.read("object")

    def test_a_secret_that_vanishes_does_not_stop_a_run(self, s3_bucket: S3Bucket, tmp_path: Path) -> None:
        s3_bucket.put("object", b"content")
        mount = MountedSecret(tmp_path / "mount", s3_bucket.server.root)
        store = s3_bucket.store(credentials_dir=mount.folder)
        store.read("object")
        (mount.folder / "..data").unlink()
        assert store.read("object") == b"content"

    def test_without_a_folder_the_sdks_chain_is_used(
        self, s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        s3_bucket.put("object", b"content")
        _without_identity(monkeypatch, tmp_path)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_bucket.server.root.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_bucket.server.root.secret_key)
        assert S3Store(s3_bucket.name, S3Clients(s3_bucket.settings)).read("object") == b"content"

    def test_a_given_folder_wins_over_the_environment(
        self, s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        s3_bucket.put("object", b"content")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        folder = s3_bucket.server.root.credentials_dir
        store = S3Store(s3_bucket.name, S3Clients(s3_bucket.settings, folder))
        assert store.read("object") == b"content"

    def test_no_credentials_at_all_are_told_with_the_remedy(
        self, s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        _without_identity(monkeypatch, tmp_path)
        with pytest.raises(MissingCredentials, match="credentialsSecretRef"):
            S3Store(s3_bucket.name, S3Clients(s3_bucket.settings)).head("object")


@pytest.mark.parametrize("text", [None, "not a certificate"])
def test_an_unusable_ca_bundle_is_named_at_once(s3_bucket: S3Bucket, tmp_path: Path, text: str | None) -> None:
    bundle = tmp_path / "ca.crt"
    if text is not None:
        bundle.write_text(text)
    with pytest.raises(Misconfigured, match=str(bundle)):
        s3_bucket.store(ca_bundle=bundle)


def documented_policy(bucket: str, section: str) -> dict[str, Any]:
    """The policy in a section of the installation guide, for a bucket that isn't named `batches`."""
    text = (ROOT / "docs" / "install.md").read_text().partition(f"### {section}\n")[2]
    (policy, *_) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    policy = policy.replace("arn:aws:s3:::batches", f"arn:aws:s3:::{bucket}")
    return dict(json.loads(policy))


def _without_identity(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
