"""POST /v1/batches/{id}/cancel."""

import threading
from datetime import datetime

import httpx
import pytest
from openai import ConflictError

from fixtures.batch_world import BatchWorld
from fixtures.kubernetes_http import Answer, Meanwhile


def cancel(world: BatchWorld, batch_id: str, **options: object) -> httpx.Response:
    return world.request("POST", f"/v1/batches/{batch_id}/cancel", **options)


@pytest.mark.parametrize("phase", [None, "pending", "validating", "in_progress", "finalizing", "cancelling"])
def test_what_lives_is_cancelling_then(shared: BatchWorld, phase: str | None) -> None:
    batch_id = shared.create()
    if phase:
        shared.phase(batch_id, phase)
    batch = shared.openai().batches.cancel(batch_id)

    assert batch.status == "cancelling"
    assert batch.cancelling_at is not None or phase == "cancelling"
    assert shared.get(batch_id)["status"] == "cancelling"
    if phase != "cancelling":
        job = shared.batchjob(batch_id)
        told = datetime.fromisoformat(job["metadata"]["annotations"]["batchwright.dev/cancelling-at"])
        assert (job["spec"]["cancel"], int(told.timestamp())) == (True, batch.cancelling_at)


def test_a_second_time_nothing_changes(shared: BatchWorld) -> None:
    batch_id = shared.create()
    first = cancel(shared, batch_id).json()
    version = shared.batchjob(batch_id)["metadata"]["resourceVersion"]

    assert cancel(shared, batch_id).json() == first
    assert shared.batchjob(batch_id)["metadata"]["resourceVersion"] == version


def test_a_cancelled_batch_stays_as_it_is(shared: BatchWorld) -> None:
    batch_id = shared.create()
    cancel(shared, batch_id)
    shared.finish(batch_id, "cancelled")
    ended = shared.get(batch_id)

    answer = cancel(shared, batch_id)
    assert (answer.status_code, answer.json()) == (200, ended)
    assert ended["status"] == "cancelled"


@pytest.mark.parametrize("phase", ["completed", "failed", "expired"])
@pytest.mark.parametrize("seen", [True, False])
def test_what_has_ended_otherwise_is_a_409_that_the_sdk_doesnt_repeat(
    shared: BatchWorld, phase: str, seen: bool
) -> None:
    batch_id = shared.create()
    shared.finish(batch_id, phase)
    if seen:
        shared.get(batch_id)
    with pytest.raises(ConflictError) as refused:
        shared.openai(max_retries=5).batches.cancel(batch_id)

    assert refused.value.response.headers["x-should-retry"] == "false"
    assert refused.value.body == {
        "message": f"Cannot cancel a batch with status '{phase}'.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    assert len([told for told in shared.audited.lines if told["id"] == batch_id and told["method"] == "POST"]) == 2, (
        "created, and once refused"
    )
    assert shared.get(batch_id)["status"] == phase


@pytest.mark.parametrize("body", [b"", b"{", b'{"reason": "late"}', b"\xff" * 2000])
def test_whatever_body_there_is_nobody_reads_it(shared: BatchWorld, body: bytes) -> None:
    headers = {"content-type": "application/json"}

    assert cancel(shared, shared.create(), content=body, headers=headers).json()["status"] == "cancelling"


def test_it_wins_over_a_finish_that_is_not_published_with_true_counts(shared: BatchWorld) -> None:
    batch_id = shared.create()
    shared.phase(batch_id, "finalizing", requestCounts={"total": 10, "completed": 7, "failed": 1})
    cancel(shared, batch_id)
    shared.finish(
        batch_id,
        "cancelled",
        results=b"{}\n",
        errors=b"{}\n",
        requestCounts={"total": 10, "completed": 7, "failed": 3},
        errorCodes={"batch_cancelled": 2, "400": 1},
    )
    shown = shared.get(batch_id)

    assert shown["status"] == "cancelled"
    assert shown["request_counts"] == {"total": 10, "completed": 7, "failed": 1}
    assert shown["output_file_id"] is not None
    assert shown["error_file_id"] is not None
    assert shown["cancelling_at"] <= shown["cancelled_at"]


def test_a_batch_that_ends_at_the_very_moment_is_a_409(shared: BatchWorld) -> None:
    batch_id = shared.create()
    shared.api.fail("PATCH", "/batchjobs", Meanwhile(lambda: shared.finish(batch_id, "completed", results=b"{}\n")))
    # The request holds the API server's lock while the batch is finished, as that server stores one thing at a time.
    answer = cancel(shared, batch_id)

    assert answer.status_code == 409
    assert shared.get(batch_id)["status"] == "completed"


def test_a_cancel_whose_batchjob_cant_be_told_holds_all_the_same(shared: BatchWorld) -> None:
    batch_id = shared.create()
    shared.api.fail("PATCH", "/batchjobs", Answer(503, "ServiceUnavailable"))

    assert cancel(shared, batch_id).status_code == 503
    assert shared.get(batch_id)["status"] == "cancelling"
    assert shared.batchjob(batch_id)["spec"]["cancel"] is True


def test_a_batch_whose_batchjob_is_not_there_yet_is_made_a_cancelled_one(shared: BatchWorld) -> None:
    shared.api.fail("POST", "/batchjobs", Answer(503, "ServiceUnavailable"), times=2)
    batch_id = shared.create()

    assert cancel(shared, batch_id).json()["status"] == "cancelling"
    assert shared.get(batch_id)["status"] == "cancelling"
    assert shared.batchjob(batch_id)["spec"]["cancel"] is True


def test_a_batchjob_that_is_deleted_while_it_is_cancelled_leaves_a_cancelled_batch(shared: BatchWorld) -> None:
    batch_id = shared.create()
    cancel(shared, batch_id)
    shared.delete_batchjob(batch_id)
    shown = shared.get(batch_id)

    assert (shown["status"], shown["errors"]) == ("cancelled", None)
    assert shown["cancelled_at"] >= shown["cancelling_at"]


def test_several_at_once_are_one(shared: BatchWorld) -> None:
    batch_id = shared.create()
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(cancel(shared, batch_id))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["cancelling_at"] for answer in answers}) == 1


@pytest.mark.parametrize("batch_id", ["batch_" + "0" * 32, "batch_x", "x", "batch_" + "A" * 32])
def test_what_isnt_there_is_a_404(shared: BatchWorld, batch_id: str) -> None:
    answer = cancel(shared, batch_id)

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"No batch found with id '{batch_id}'."
