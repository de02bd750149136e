"""A storage that fails in the middle of DELETE /v1/files/{id}, and what somebody else does meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from batchwright.gateway.files.deletion import delete_file
from batchwright.gateway.ids import new_batch_id
from batchwright.gateway.keeper.rounds import Rounds
from fixtures.batch_records import record
from fixtures.fault_proxy import Answer, Before, FaultProxy
from fixtures.files_service import LINE, FilesService, files_service
from fixtures.gateway import ALICE
from fixtures.s3 import S3Bucket

NAMESPACE = str(ALICE.namespace)
REFUSED, AWAY = Answer(403, "AccessDenied"), Answer(503, "SlowDown")
RECORD, BYTES = "PutObject", "DeleteObjects"
"""What a deletion asks for: first that the record is one of a file that has expired, then that the bytes go."""


@pytest.fixture
def proxied(s3_bucket: S3Bucket, s3_proxy: FaultProxy, tmp_path: Path) -> Iterator[FilesService]:
    with files_service(tmp_path, s3_bucket, s3_proxy.endpoint_url) as service:
        yield service


@pytest.fixture
def file_id(proxied: FilesService) -> str:
    return proxied.openai().files.create(file=("in.jsonl", LINE), purpose="batch").id


def delete(service: FilesService, file_id: str) -> httpx.Response:
    with service.http() as http:
        return http.delete(f"/v1/files/{file_id}")


def look(service: FilesService, file_id: str) -> int:
    with service.http() as http:
        return http.get(f"/v1/files/{file_id}/content").status_code


@pytest.mark.parametrize("fault", [REFUSED, AWAY], ids=["refused", "away"])
@pytest.mark.parametrize("step", [RECORD, BYTES])
def test_what_can_not_be_deleted_is_there_as_before_and_can_be_deleted_later(
    proxied: FilesService, s3_proxy: FaultProxy, file_id: str, step: str, fault: Answer
) -> None:
    before = proxied.stored()
    s3_proxy.inject(step, fault, times=None if step == BYTES else 20)
    answer = delete(proxied, file_id)
    told = (answer.status_code, answer.json()["error"]["code"], "retry-after" in answer.headers)
    assert told == ((503, "service_unavailable", True) if fault is AWAY else (500, "storage_error", False))
    s3_proxy.clear()
    assert (proxied.stored(), look(proxied, file_id)) == (before, 200)
    assert delete(proxied, file_id).status_code == 200
    assert proxied.stored() == []


def goes_away(proxy: FaultProxy) -> Callable[[], None]:
    """The storage answers nothing any more, beginning with this request."""

    def go() -> None:
        proxy.inject("*", AWAY)
        raise ConnectionAbortedError

    return go


def test_a_storage_that_goes_away_in_the_middle_leaves_a_file_that_nobody_finds_and_the_keeper_removes(
    proxied: FilesService, s3_proxy: FaultProxy, file_id: str
) -> None:
    s3_proxy.inject(BYTES, Before(goes_away(s3_proxy)), times=1)
    answer = delete(proxied, file_id)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    s3_proxy.clear()
    assert look(proxied, file_id) == 404
    assert proxied.openai().files.list().data == []
    assert len(proxied.stored()) == 2
    Rounds(proxied.gateway).make(lambda: None)
    assert proxied.stored() == []


def test_a_record_that_stays_without_its_bytes_is_no_failure_and_goes_later(
    proxied: FilesService, s3_proxy: FaultProxy, file_id: str
) -> None:
    refuse_the_next = Before(lambda: s3_proxy.inject(BYTES, REFUSED, times=1))
    s3_proxy.inject(BYTES, refuse_the_next, times=1)
    assert delete(proxied, file_id).status_code == 200
    assert (len(proxied.stored()), look(proxied, file_id)) == (1, 404)
    Rounds(proxied.gateway).make(lambda: None)
    assert proxied.stored() == []


def test_of_two_deletions_at_once_one_finds_no_file(proxied: FilesService, s3_proxy: FaultProxy, file_id: str) -> None:
    stored = proxied.gateway.files.get(NAMESPACE, file_id)
    assert stored is not None
    s3_proxy.inject(RECORD, Before(lambda: delete_file(proxied.gateway, stored)), times=1)
    assert delete(proxied, file_id).status_code == 404
    assert proxied.stored() == []


def test_a_batch_that_is_made_while_its_file_is_deleted_keeps_the_file(
    proxied: FilesService, s3_proxy: FaultProxy, file_id: str
) -> None:
    now = proxied.gateway.clock()
    batch = record(id=new_batch_id(now), namespace=NAMESPACE, created_at=now, input_file_id=file_id)
    make = Before(lambda: proxied.gateway.batches.create(NAMESPACE, batch.id, batch))
    s3_proxy.inject(RECORD, make, times=1)
    answer = delete(proxied, file_id)
    assert answer.status_code == 409
    assert batch.id in answer.json()["error"]["message"]
    assert look(proxied, file_id) == 200


def test_a_batch_whose_file_is_deleted_while_it_is_made_fails_and_says_so(
    proxied: FilesService, s3_proxy: FaultProxy, file_id: str
) -> None:
    stored = proxied.gateway.files.get(NAMESPACE, file_id)
    assert stored is not None
    s3_proxy.inject("PutObject", Before(lambda: delete_file(proxied.gateway, stored)), times=1)
    client = proxied.openai()
    made = client.batches.create(input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h")
    batch = client.batches.retrieve(made.id)
    assert batch.status == "failed"
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert [error.message for error in batch.errors.data] == [f"Cannot find file {file_id}."]
    assert proxied.api.under("/batchjobs") == []
