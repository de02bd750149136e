"""What the keeper removes of uploads that were killed, and what it leaves alone, in a bucket and on a volume."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from batchwright.gateway import ids
from batchwright.gateway.context import Gateway
from batchwright.gateway.keeper.remains import TIME_TO_PUBLISH
from batchwright.gateway.keeper.rounds import Rounds
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.kube import errors
from batchwright.storage.errors import StorageUnavailable
from fixtures.keeping import DAY, NAMESPACE, Keeping, keeping_on
from fixtures.s3 import S3Bucket

MINUTE = timedelta(minutes=1)


@pytest.fixture
def on_s3(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[Keeping]:
    with keeping_on(s3_bucket, tmp_path) as started:
        yield started


@pytest.fixture
def on_a_volume(tmp_path: Path) -> Iterator[Keeping]:
    with keeping_on(None, tmp_path) as started:
        yield started


@pytest.fixture(params=["on_s3", "on_a_volume"])
def keeping(request: pytest.FixtureRequest) -> Keeping:
    found: Keeping = request.getfixturevalue(request.param)
    return found


def unrecorded(keeping: Keeping, namespace: str = NAMESPACE) -> str:
    """Bytes of an upload that was killed before its record."""
    file_id = ids.new_file_id(keeping.gateway.clock())
    put(keeping.gateway, file_id, namespace)
    return file_id


def put(gateway: Gateway, name: str, namespace: str = NAMESPACE) -> None:
    folder = gateway.tenant(namespace)
    folder.store.write(folder.key(name), b"{}\n")


def test_bytes_without_a_record_go_once_nobody_can_write_it_any_more(keeping: Keeping) -> None:
    files = [keeping.upload() for _ in range(3)]
    killed = unrecorded(keeping)
    files += [keeping.upload() for _ in range(3)]
    keeping.pass_by(keeping.gateway.settings.upload_deadline + TIME_TO_PUBLISH - MINUTE)
    keeping.round()
    assert killed in keeping.left()
    keeping.pass_by(2 * MINUTE)
    keeping.new_holder().round()
    assert sorted(keeping.left()) == sorted(file.key for file in files)


def test_tenants_are_looked_after_of_whom_nothing_is_recorded(keeping: Keeping) -> None:
    for namespace in ("team-a", "team-a-b", "team-b"):
        unrecorded(keeping, namespace)
    keeping.pass_by(DAY)
    keeping.round()
    left = [list(keeping.gateway.tenant(name).store.list("")) for name in ("team-a", "team-a-b", "team-b")]
    assert left == [[], [], []]


def old_id(moment: datetime = datetime(2026, 3, 1, tzinfo=UTC)) -> str:
    return ids.new_file_id(moment)


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "file-report",
        f"{old_id()}.jsonl",
        f"{old_id()}/a",
        f"mine/{old_id()}",
        old_id().upper().replace("FILE", "file"),
        f"batch-{old_id().removeprefix('file-')}/results.jsonl",
        f"file-{'0' * 32}",
        f"file-{'f' * 32}",
        "file-d41d8cd98f00b204e9800998ecf8427e",
        old_id(datetime(2024, 12, 31, tzinfo=UTC)),
        old_id(datetime(2996, 3, 1, tzinfo=UTC)),
    ],
)
def test_nothing_else_of_a_tenant_is_ever_removed(keeping: Keeping, name: str) -> None:
    put(keeping.gateway, name)
    unrecorded(keeping)
    keeping.pass_by(10 * DAY)
    keeping.round()
    assert keeping.left() == [name]


def test_folders_in_a_bucket_that_are_no_tenants_are_left_alone(on_s3: Keeping, s3_bucket: S3Bucket) -> None:
    kept = [f"batches/{place}/{old_id()}" for place in ("Archive", "a_b", ".x")] + [
        f"batches/{old_id()}",
        f"z/{old_id()}",
    ]
    for key in kept:
        s3_bucket.put(key, b"{}\n")
    unrecorded(on_s3)
    on_s3.round_after(DAY)
    found = [entry["Key"] for entry in s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)["Contents"]]
    assert sorted(found) == sorted(kept)


def test_an_upload_whose_replica_was_killed_is_aborted_after_its_deadline(on_s3: Keeping, s3_bucket: S3Bucket) -> None:
    """Also a new tenant's first one."""
    names = [f"batches/{place}" for place in (f"team-a/{old_id()}", f"new/{old_id()}", "new/batch-1/results.jsonl")]
    for key in names:
        s3_bucket.client.create_multipart_upload(Bucket=s3_bucket.name, Key=key)
    on_s3.round()
    assert len(s3_bucket.unfinished_uploads()) == 3
    on_s3.round_after(2 * TIME_TO_PUBLISH)
    assert s3_bucket.unfinished_uploads() == [names[-1]]


@pytest.mark.parametrize("name", [f"file-{'0' * 32}", "file-x", f"file-{'f' * 32}"])
def test_an_upload_of_no_gateway_is_left_alone_and_keeps_no_other_from_being_aborted(
    on_s3: Keeping, s3_bucket: S3Bucket, name: str
) -> None:
    for key in (f"batches/a/{name}", f"batches/team-a/{old_id()}"):
        s3_bucket.client.create_multipart_upload(Bucket=s3_bucket.name, Key=key)
    on_s3.round_after(DAY)
    assert s3_bucket.unfinished_uploads() == [f"batches/a/{name}"]


def test_temporary_files_of_killed_uploads_go(on_a_volume: Keeping, tmp_path: Path) -> None:
    """Of tenants and of the gateway's own records."""
    old, young = (tmp_path / "batches" / place for place in ("new/.batchwright-tmp-1", "new/.batchwright-tmp-2"))
    of_record = tmp_path / "batches" / ".gateway" / "files" / "new" / ".batchwright-tmp-3"
    for file in (old, young, of_record):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"{}")
    for file in (old, of_record):
        os.utime(file, (0, 0))
    on_a_volume.round()
    assert (old.exists(), of_record.exists(), young.exists()) == (False, False, True)


def test_what_is_left_is_looked_for_once_an_hour(keeping: Keeping) -> None:
    keeping.round()
    put(keeping.gateway, old_id())
    keeping.round_after(50 * MINUTE)
    assert len(keeping.left()) == 1
    keeping.round_after(11 * MINUTE)
    assert keeping.left() == []


def test_a_tenant_whose_folder_can_not_be_read_keeps_no_other_from_its_turn(on_a_volume: Keeping) -> None:
    for namespace in ("team-a", "team-b"):
        put(on_a_volume.gateway, old_id(), namespace)
    away = {"team-a"}
    rounds = Rounds(replace(on_a_volume.gateway, tenant=without(on_a_volume.gateway.tenant, away)))
    rounds.make(lambda: None)
    assert (len(on_a_volume.left()), len(on_a_volume.left("team-b"))) == (1, 0)
    away.clear()
    rounds.make(lambda: None)
    assert on_a_volume.left() == []


class Unlisted:
    """A store that can't be listed for now."""

    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        if name == "list":
            raise StorageUnavailable("ListObjectsV2", "file:///data")
        return getattr(self._store, name)


def without(tenant: Callable[[str], TenantFolder], away: set[str]) -> Callable[[str], TenantFolder]:
    def found(namespace: str) -> TenantFolder:
        folder = tenant(namespace)
        return replace(folder, store=Unlisted(folder.store)) if namespace in away else folder  # type: ignore[arg-type]

    return found


def lost() -> None:
    """What a round is told before each change once another replica may have the Lease."""
    raise errors.Unavailable("the Lease is lost")


def test_nothing_is_removed_once_the_lease_is_lost(keeping: Keeping) -> None:
    killed = unrecorded(keeping)
    keeping.pass_by(DAY)
    with pytest.raises(errors.Unavailable):
        keeping.rounds.make(lost)
    assert keeping.left() == [killed]
    keeping.round()
    assert keeping.left() == []


def test_no_upload_is_aborted_once_the_lease_is_lost(on_s3: Keeping, s3_bucket: S3Bucket) -> None:
    key = f"batches/team-a/{old_id()}"
    s3_bucket.client.create_multipart_upload(Bucket=s3_bucket.name, Key=key)
    on_s3.pass_by(DAY)
    with pytest.raises(errors.Unavailable):
        on_s3.rounds.make(lost)
    assert s3_bucket.unfinished_uploads() == [key]
