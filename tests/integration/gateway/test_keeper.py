"""What happens without being asked, on a real S3 server."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batchwright.api import names
from batchwright.gateway import ids
from batchwright.gateway.batches import idempotency
from batchwright.gateway.batches.batchjob import spec_of
from batchwright.gateway.batches.making import make_batch
from batchwright.gateway.context import Gateway
from batchwright.gateway.keeper.rounds import Rounds
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.file_record import FileRecord
from batchwright.kube import errors
from fixtures.gateway import ALICE, Moments, gateway_on
from fixtures.kubernetes_http import Answer, HttpApi
from fixtures.s3 import S3Bucket

DAY = timedelta(days=1)
NAMESPACE = str(ALICE.namespace)


class Keeping:
    """A gateway, and a clock that the test moves."""

    def __init__(self, gateway: Gateway, api: HttpApi, clock: Moments) -> None:
        self.gateway = gateway
        self.api = api
        self.clock = clock
        self.rounds = Rounds(gateway)

    def round(self) -> None:
        self.rounds.make(lambda: None)

    def pass_by(self, time: timedelta) -> None:
        self.clock.offset += time.total_seconds()

    def upload(self, expires: timedelta | None = None) -> FileRecord:
        now, folder = self.gateway.clock(), self.gateway.tenant(NAMESPACE)
        identity = ids.new_file_id(now)
        info = folder.store.write(folder.key(identity), b"{}\n")
        record = FileRecord(
            identity, NAMESPACE, identity, info.size, now, "in.jsonl", "batch", expires_at=expires and now + expires
        )
        self.gateway.files.create(NAMESPACE, identity, record)
        return record

    def batch(self, file: FileRecord) -> BatchRecord:
        gateway, now = self.gateway, self.gateway.clock()
        folder = gateway.tenant(NAMESPACE)
        spec = spec_of(
            gateway.settings,
            NAMESPACE,
            face="openai",
            endpoint="/v1/chat/completions",
            input_uri=f"{folder.uri}{file.key}",
            output_uri=folder.uri,
            server=None,
            completion_window="24h",
        )
        record = BatchRecord(
            ids.new_batch_id(now),
            NAMESPACE,
            "alice",
            "openai",
            now,
            now + DAY,
            "24h",
            "/v1/chat/completions",
            spec,
            input_file_id=file.id,
            output_expires_after=3600,
        )
        return make_batch(gateway, record)

    def finish(self, batch: BatchRecord) -> None:
        """What the operator and its workers do."""
        folder, name = self.gateway.tenant(NAMESPACE), ids.batchjob_name(batch.id)
        folder.store.write(folder.key(f"{name}/results.jsonl"), b'{"custom_id": "a"}\n')
        self.api.change(self.path(batch), status=self.ended_status())

    def ended_status(self) -> dict[str, Any]:
        moment = self.gateway.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Complete", "status": "True", "reason": "Completed", "message": ""}
        return {
            "phase": "completed",
            "requestCounts": {"total": 1, "completed": 1, "failed": 0},
            "completedAt": moment,
            "conditions": [{**condition, "observedGeneration": 1, "lastTransitionTime": moment}],
        }

    def path(self, batch: BatchRecord) -> str:
        return f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/batchjobs/{ids.batchjob_name(batch.id)}"

    def stored(self, batch: BatchRecord) -> BatchRecord:
        found = self.gateway.batches.get(NAMESPACE, batch.id)
        assert found is not None
        return found.record

    def has(self, file: FileRecord) -> tuple[bool, bool]:
        """Whether a file's record and its bytes are there."""
        folder = self.gateway.tenant(NAMESPACE)
        keys = [info.key for info in folder.store.list(folder.prefix)]
        return self.gateway.files.get(NAMESPACE, file.id) is not None, folder.key(file.key) in keys


@pytest.fixture
def keeping(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[Keeping]:
    with HttpApi() as api:
        clock = Moments()
        storage = {"endpointURL": s3_bucket.server.endpoint_url}
        gateway = gateway_on(
            f"s3://{s3_bucket.name}/gateway/",
            api,
            tmp_path,
            credentials=s3_bucket.server.root.credentials_dir,
            clock=clock,
            storage=storage,
            keepBatches="72h",
        )
        yield Keeping(gateway, api, clock)


def test_an_expired_file_goes_with_its_bytes(keeping: Keeping) -> None:
    expiring, other = keeping.upload(expires=DAY), keeping.upload()
    keeping.round()
    assert keeping.has(expiring) == (True, True)
    keeping.pass_by(DAY)
    keeping.round()
    assert (keeping.has(expiring), keeping.has(other)) == ((False, False), (True, True))


def test_an_expired_file_stays_while_a_live_batch_reads_it(keeping: Keeping) -> None:
    file = keeping.upload(expires=timedelta(hours=1))
    batch = keeping.batch(file)
    keeping.pass_by(timedelta(hours=2))
    keeping.round()
    assert keeping.has(file) == (True, True)
    keeping.finish(batch)
    keeping.round()
    assert keeping.has(file) == (False, False)


def test_a_batch_is_archived_though_nobody_asks_for_it(keeping: Keeping) -> None:
    batch = keeping.batch(keeping.upload())
    keeping.round()
    assert keeping.stored(batch).ending is None
    keeping.finish(batch)
    keeping.round()
    ending = keeping.stored(batch).ending
    assert ending is not None
    assert ending.state.status == "completed"
    assert ending.output_file_id is not None


def test_output_files_expire_by_what_the_batch_was_asked_for(keeping: Keeping) -> None:
    batch = keeping.batch(keeping.upload())
    keeping.finish(batch)
    keeping.round()
    ending = keeping.stored(batch).ending
    assert ending is not None
    output = keeping.gateway.files.get(NAMESPACE, str(ending.output_file_id))
    assert output is not None
    keeping.pass_by(timedelta(hours=2))
    keeping.round()
    assert keeping.has(output.record) == (False, False)


def test_a_batch_without_its_batchjob_gets_one(keeping: Keeping) -> None:
    keeping.api.fail("POST", "/batchjobs", Answer(503, "ServiceUnavailable"))
    batch = keeping.batch(keeping.upload())
    assert keeping.path(batch) not in keeping.api.objects
    keeping.round()
    assert keeping.path(batch) in keeping.api.objects


def test_an_ended_batch_is_forgotten_after_it_was_kept(keeping: Keeping) -> None:
    batch = keeping.batch(keeping.upload())
    keeping.finish(batch)
    keeping.round()
    keeping.pass_by(timedelta(hours=71))
    keeping.round()
    assert keeping.stored(batch)
    keeping.pass_by(timedelta(hours=2))
    keeping.round()
    assert keeping.gateway.batches.get(NAMESPACE, batch.id) is None


def test_a_key_of_a_repeated_request_is_forgotten_after_a_day(keeping: Keeping) -> None:
    idempotency.claim(keeping.gateway, NAMESPACE, "nightly", "digest", "batch_1")
    keeping.pass_by(DAY - timedelta(minutes=1))
    keeping.round()
    assert len(list(keeping.gateway.idempotency.entries())) == 1
    keeping.pass_by(timedelta(minutes=1))
    keeping.round()
    assert list(keeping.gateway.idempotency.entries()) == []


def test_an_upload_whose_replica_was_killed_is_aborted_after_its_deadline(
    keeping: Keeping, s3_bucket: S3Bucket
) -> None:
    keeping.upload()
    folder = keeping.gateway.tenant(NAMESPACE)
    key = folder.key(ids.new_file_id(keeping.gateway.clock()))
    s3_bucket.client.create_multipart_upload(Bucket=s3_bucket.name, Key=key)
    s3_bucket.client.create_multipart_upload(Bucket=s3_bucket.name, Key=folder.key("batch-1/results.jsonl"))
    keeping.round()
    assert len(s3_bucket.unfinished_uploads()) == 2
    keeping.pass_by(timedelta(hours=2))
    keeping.round()
    assert s3_bucket.unfinished_uploads() == [folder.key("batch-1/results.jsonl")]


def test_one_batch_that_can_not_be_read_does_not_keep_the_files_from_expiring(keeping: Keeping) -> None:
    file = keeping.upload(expires=timedelta(hours=1))
    keeping.batch(keeping.upload())
    keeping.pass_by(timedelta(hours=2))
    keeping.api.fail("GET", "/batchjobs/", Answer(500, "InternalError"))
    keeping.round()
    assert keeping.has(file) == (False, False)


def test_what_nobody_foresaw_of_one_batch_does_not_keep_the_files_from_expiring(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = keeping.upload(expires=timedelta(hours=1))
    keeping.batch(keeping.upload())
    keeping.pass_by(timedelta(hours=2))

    def fails(*_: object) -> None:
        raise TypeError("can't compare offset-naive and offset-aware datetimes")

    monkeypatch.setattr("batchwright.gateway.keeper.rounds.current_of_many", fails)
    keeping.round()
    assert keeping.has(file) == (False, False)


def test_nothing_is_changed_once_the_lease_is_lost(keeping: Keeping) -> None:
    file = keeping.upload(expires=timedelta(hours=1))
    keeping.pass_by(timedelta(hours=2))

    def lost() -> None:
        raise errors.Unavailable("the Lease is lost")

    with pytest.raises(errors.Unavailable):
        keeping.rounds.make(lost)
    assert keeping.has(file) == (True, True)


def test_a_new_holder_of_the_lease_goes_on_from_what_is_stored(keeping: Keeping) -> None:
    file = keeping.upload(expires=timedelta(hours=1))
    keeping.round()
    successor = Keeping(replace(keeping.gateway), keeping.api, keeping.clock)
    keeping.pass_by(timedelta(hours=2))
    successor.round()
    assert keeping.has(file) == (False, False)
