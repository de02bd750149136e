"""What happens without being asked, on a real S3 server."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from batchwright.api import names
from batchwright.gateway import ids
from batchwright.gateway.batches import idempotency
from batchwright.kube import errors
from fixtures.keeping import DAY, NAMESPACE, Keeping, keeping_on
from fixtures.kubernetes_http import Answer, Meanwhile
from fixtures.s3 import S3Bucket


@pytest.fixture
def keeping(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[Keeping]:
    with keeping_on(s3_bucket, tmp_path) as started:
        yield started


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


def test_nothing_of_what_a_batch_published_outlives_its_expiry(keeping: Keeping) -> None:
    file = keeping.upload()
    batch = keeping.batch(file)
    keeping.finish(batch, names.ERRORS_OBJECT, names.RETRY_OBJECT)
    keeping.round()
    assert len(keeping.left()) == 4
    keeping.pass_by(timedelta(hours=2))
    keeping.round()
    assert keeping.left() == [file.key]


def test_an_expired_file_stays_while_a_batch_is_to_read_it_whose_batchjob_is_not_created_yet(keeping: Keeping) -> None:
    keeping.api.fail("POST", "/batchjobs", Answer(503, "ServiceUnavailable"), times=3)
    file = keeping.upload(expires=timedelta(hours=1))
    batch = keeping.batch(file)
    keeping.pass_by(timedelta(hours=2))
    keeping.round()
    assert keeping.path(batch) not in keeping.api.objects
    assert keeping.has(file) == (True, True)


def test_an_api_server_that_is_away_keeps_expired_files_until_it_is_back(keeping: Keeping) -> None:
    file = keeping.upload(expires=timedelta(hours=1))
    keeping.pass_by(timedelta(hours=2))
    keeping.api.fail("GET", "/batchjobs", Answer(503, "ServiceUnavailable"))
    keeping.round()
    assert keeping.has(file) == (True, True)
    keeping.round()
    assert keeping.has(file) == (False, False)


def test_a_file_whose_deletion_was_taken_back_meanwhile_stays(keeping: Keeping) -> None:
    """Its record is one of an expired file while it is being deleted, and no longer when that has failed."""
    file = keeping.upload()
    files = keeping.gateway.files
    before = files.get(NAMESPACE, file.id)
    assert before is not None
    deleting = files.replace(NAMESPACE, file.id, before, structs.replace(file, expires_at=file.created_at))
    take_back = Meanwhile(lambda: files.replace(NAMESPACE, file.id, deleting, file))
    keeping.api.fail("GET", "/batchjobs", take_back)
    keeping.round()
    assert keeping.has(file) == (True, True)


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
    batch_id = ids.new_batch_id(keeping.gateway.clock())
    idempotency.claim(keeping.gateway, NAMESPACE, "nightly", "digest", batch_id)
    keeping.pass_by(DAY - timedelta(minutes=1))
    keeping.round()
    assert len(list(keeping.gateway.idempotency.entries())) == 1
    keeping.pass_by(timedelta(minutes=1))
    keeping.round()
    assert list(keeping.gateway.idempotency.entries()) == []


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
    successor = keeping.new_holder()
    keeping.pass_by(timedelta(hours=2))
    successor.round()
    assert keeping.has(file) == (False, False)
