"""The end of a batch: its files, its errors, and that it needs no BatchJob any more."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from batchwright.batchfile.counts import Usage
from batchwright.batchfile.plan_record import PlannedInput, PlanRecord, encode_record
from batchwright.batchfile.shard_record import SummaryRecord, Totals
from batchwright.gateway import ids
from batchwright.gateway.batches.current import current
from batchwright.gateway.records.file_record import FileRecord
from batchwright.kube.errors import Unavailable
from fixtures.batch_records import at
from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world
from fixtures.fault_proxy import Answer as S3Answer
from fixtures.fault_proxy import FaultProxy
from fixtures.gateway import BOB
from fixtures.kubernetes_http import Answer
from fixtures.s3 import S3Bucket

RESULTS = b'{"custom_id": "a"}\n'
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = PlanRecord("f1", PlannedInput("s3://b/in", "e", 1), "/v1/chat/completions", "m", 10, 10, True, ())
NESTED = b'{"x": ' + b"[" * 9000 + b"\n"
FAILED = b'{"custom_id": "b"}\n{"custom_id": "c"}\n'


def file(world: BatchWorld, file_id: str) -> FileRecord:
    stored = world.gateway.files.get("team-a", file_id)
    assert stored is not None
    return stored.record


class TestFiles:
    def test_the_sdk_downloads_what_was_published(self, shared: BatchWorld) -> None:
        client = shared.openai()
        batch_id = shared.create()
        shared.finish(batch_id, results=RESULTS, errors=FAILED)
        batch = client.batches.retrieve(batch_id)

        assert batch.status == "completed"
        assert client.files.content(str(batch.output_file_id)).content == RESULTS
        assert client.files.content(str(batch.error_file_id)).content == FAILED

    @pytest.mark.parametrize("phase", ["completed", "cancelled", "expired", "failed"])
    @pytest.mark.parametrize(("results", "errors"), [(RESULTS, b""), (b"", FAILED), (RESULTS, FAILED), (b"", b"")])
    def test_a_file_is_null_where_nothing_was_published(
        self, shared: BatchWorld, phase: str, results: bytes, errors: bytes
    ) -> None:
        batch_id = shared.create()
        shared.finish(batch_id, phase, "RunFailed" if phase == "failed" else "", results=results, errors=errors)
        shown = shared.get(batch_id)

        assert shown["status"] == phase
        assert (shown["output_file_id"] is not None, shown["error_file_id"] is not None) == (
            bool(results),
            bool(errors),
        )

    def test_their_records_say_whose_they_are(self, shared: BatchWorld) -> None:
        batch_id = shared.create(output_expires_after={"anchor": "created_at", "seconds": 7200})
        shared.finish(batch_id, results=RESULTS, errors=FAILED, completedAt="2030-01-01T00:00:00Z")
        shown = shared.get(batch_id)
        output, failed = file(shared, shown["output_file_id"]), file(shared, shown["error_file_id"])

        assert (output.filename, failed.filename) == (f"{batch_id}_output.jsonl", f"{batch_id}_error.jsonl")
        assert (output.bytes, failed.bytes) == (len(RESULTS), len(FAILED))
        assert output.key == f"{ids.batchjob_name(batch_id)}/results.jsonl"
        assert {output.purpose, failed.purpose} == {"batch_output"}
        assert {output.batch_id, failed.batch_id} == {batch_id}
        assert output.created_at.isoformat() == "2030-01-01T00:00:00+00:00"
        assert output.expires_at is not None
        assert output.expires_at.isoformat() == "2030-01-01T02:00:00+00:00"

    def test_without_output_expires_after_they_stay(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        shared.finish(batch_id, results=RESULTS)

        assert file(shared, shared.get(batch_id)["output_file_id"]).expires_at is None

    def test_a_uri_that_a_tenant_wrote_into_the_status_leads_nowhere(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        elsewhere = {"uri": f"{shared.gateway.settings.batch_path}team-b/secret", "bytes": 10, "lines": 1}
        shared.finish(batch_id, output=elsewhere)

        assert shared.get(batch_id)["output_file_id"] is None


class TestErrors:
    def invalid(self, world: BatchWorld, batch_id: str, listed: int, count: int) -> None:
        errors = [{"code": "invalid_json_line", "line": line, "message": "no"} for line in range(1, count + 1)]
        data = "".join(json.dumps(error | {"param": None}) + "\n" for error in errors[:1000])
        world.publish(batch_id, ".batchwright/validation-errors.jsonl", data.encode())
        world.phase(batch_id, "failed", "InvalidInput", validationErrors=errors[:listed], validationErrorCount=count)

    def errors(self, world: BatchWorld, batch_id: str) -> list[dict[str, Any]]:
        shown = world.get(batch_id)
        assert shown["status"] == "failed"
        found: list[dict[str, Any]] = shown["errors"]["data"]
        return found

    def test_a_bad_input_lists_all_that_its_status_had_no_room_for(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        self.invalid(shared, batch_id, listed=3, count=50)

        assert [error["line"] for error in self.errors(shared, batch_id)] == list(range(1, 51))

    def test_of_very_many_the_first_hundred_and_a_count(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        self.invalid(shared, batch_id, listed=3, count=5000)
        errors = self.errors(shared, batch_id)

        assert [error["line"] for error in errors[:100]] == list(range(1, 101))
        assert [(error["line"], "5000 errors" in error["message"]) for error in errors[100:]] == [(None, True)]

    @pytest.mark.parametrize("written", [b"", b"nonsense\n", b'{"code": 1}\n', b"\xff\xfe\n", NESTED])
    def test_where_the_list_is_gone_or_none_the_status_has_the_first_ones(
        self, shared: BatchWorld, written: bytes
    ) -> None:
        batch_id = shared.create()
        self.invalid(shared, batch_id, listed=3, count=50)
        shared.publish(batch_id, ".batchwright/validation-errors.jsonl", written or b"\n")

        assert [error["line"] for error in self.errors(shared, batch_id)] == [1, 2, 3, None]

    def test_a_batch_that_failed_later_has_its_one_reason(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        shared.finish(batch_id, "failed", "TooManyFailures", message="11 failed.", results=RESULTS)

        assert self.errors(shared, batch_id) == [
            {"code": "too_many_failures", "message": "11 failed.", "param": None, "line": None}
        ]


class TestAfterTheEnd:
    def test_the_batch_is_the_same_when_its_batchjob_is_deleted(self, world: BatchWorld) -> None:
        batch_id = world.create(metadata={"team": "a"})
        world.finish(
            batch_id,
            results=RESULTS,
            model="m",
            inProgressAt=at(5),
            completedAt="2030-01-01T00:00:00Z",
            requestCounts={"total": 1, "completed": 1, "failed": 0},
            usage={"inputTokens": 3, "outputTokens": 4, "totalTokens": 7},
        )
        ended = world.get(batch_id)
        world.delete_batchjob(batch_id)

        assert world.get(batch_id) == ended
        assert world.request("GET", "/v1/batches").json()["data"] == [ended]
        assert (ended["model"], ended["usage"]["total_tokens"]) == ("m", 7)

    def test_reading_it_costs_one_read_of_storage_and_before_one_of_the_api(
        self, s3_bucket: S3Bucket, s3_proxy: FaultProxy, tmp_path: Path
    ) -> None:
        storage = {"endpointURL": s3_proxy.endpoint_url}
        with batch_world(s3_bucket, tmp_path, storage=storage) as world:
            batch_id = world.create()

            def cost() -> tuple[list[str], list[str]]:
                s3_proxy.requests.clear()
                world.api.requests.clear()
                world.get(batch_id)
                return s3_proxy.operations, [method for method, _ in world.api.requests]

            assert cost() == (["GetObject"], ["GET"])
            world.finish(batch_id, results=RESULTS)
            world.get(batch_id)
            assert cost() == (["GetObject"], [])

    def test_several_archivers_at_once_come_to_the_same_end(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        shared.finish(batch_id, results=RESULTS, errors=FAILED)
        answers: list[dict[str, Any]] = []
        threads = [threading.Thread(target=lambda: answers.append(shared.get(batch_id))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert answers == [answers[0]] * 6
        assert (
            len([stored for stored in shared.gateway.files.list("team-a") if stored.record.batch_id == batch_id]) == 2
        )


class TestStorageAway:
    def test_an_ended_batch_is_shown_as_finalizing_until_it_is_archived(
        self, s3_bucket: S3Bucket, s3_proxy: FaultProxy, tmp_path: Path
    ) -> None:
        storage = {"endpointURL": s3_proxy.endpoint_url}
        with batch_world(s3_bucket, tmp_path, storage=storage) as world:
            batch_id = world.create()
            world.finish(batch_id, results=RESULTS)
            s3_proxy.inject("PutObject", S3Answer(400, "AccountProblem"))
            shown = world.get(batch_id)

            assert (shown["status"], shown["output_file_id"], shown["completed_at"]) == ("finalizing", None, None)
            s3_proxy.clear()
            assert world.get(batch_id)["status"] == "completed"


class TestDeletions:
    def test_a_batchjob_that_a_person_deletes_fails_its_batch(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        shared.phase(batch_id, "in_progress")
        shared.delete_batchjob(batch_id)
        shown = shared.get(batch_id)

        assert (shown["status"], shown["errors"]["data"][0]["code"]) == ("failed", "batchjob_deleted")
        assert shared.get(batch_id) == shown
        assert shared.path_of(batch_id) not in shared.api.objects

    def test_what_it_had_published_before_is_kept(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        shared.finish(batch_id, results=RESULTS)
        shared.delete_batchjob(batch_id)

        assert file(shared, shared.get(batch_id)["output_file_id"]).bytes == len(RESULTS)

    @pytest.mark.parametrize(
        ("failed", "codes", "cancelled", "status"),
        [
            (1, {"400": 1}, False, "completed"),
            (1, {"400": 1}, True, "completed"),
            (3, {"batch_cancelled": 2, "400": 1}, True, "cancelled"),
            (3, {"batch_cancelled": 2, "400": 1}, False, "cancelled"),
            (3, {"batch_expired": 2, "400": 1}, False, "expired"),
            (3, {"batch_failed": 2, "400": 1}, False, "failed"),
        ],
    )
    def test_one_that_is_tidied_up_before_anybody_looked_has_ended_as_its_summary_says(
        self, shared: BatchWorld, failed: int, codes: dict[str, int], cancelled: bool, status: str
    ) -> None:
        batch_id = shared.create()
        if cancelled:
            shared.openai().batches.cancel(batch_id)
        summary = SummaryRecord("f1", 10, Totals(10 - failed, failed, Usage(3, 0, 4, 0, 7), {}, codes), {}, NOON, NOON)
        shared.publish(batch_id, ".batchwright/f1/summary.json", encode_record(summary))
        shared.publish(batch_id, ".batchwright/f1/plan.json", encode_record(PLAN))
        shared.finish(batch_id, results=RESULTS, errors=FAILED)
        shared.delete_batchjob(batch_id)
        shown = shared.get(batch_id)

        assert (shown["status"], shown["model"]) == (status, "m")
        assert shown["request_counts"] == {"total": 10, "completed": 10 - failed, "failed": 1}
        assert shown["usage"]["total_tokens"] == 7
        assert shown[f"{status}_at"] >= shown["created_at"]
        assert (shown["errors"] is not None) == (status == "failed")
        assert file(shared, shown["output_file_id"]).bytes == len(RESULTS)

    @pytest.mark.parametrize("summary", [b"", b"{", b'{"version": 99}'])
    def test_a_summary_that_cant_be_read_says_nothing(self, shared: BatchWorld, summary: bytes) -> None:
        batch_id = shared.create()
        shared.publish(batch_id, ".batchwright/f1/summary.json", summary or b"\n")
        shared.delete_batchjob(batch_id)

        assert shared.get(batch_id)["errors"]["data"][0]["code"] == "batchjob_deleted"

    @pytest.mark.parametrize("finished", [datetime(2026, 1, 1), datetime(9999, 12, 31, 23, tzinfo=UTC)])  # noqa: DTZ001
    def test_a_summary_of_a_tenants_own_making_does_no_harm(self, shared: BatchWorld, finished: datetime) -> None:
        batch_id = shared.create(output_expires_after={"anchor": "created_at", "seconds": 3600})
        summary = SummaryRecord("f1", 10, Totals(10), {}, finished)
        shared.publish(batch_id, ".batchwright/f1/summary.json", encode_record(summary))
        shared.publish(batch_id, ".batchwright/f1/plan.json", encode_record(PLAN))
        shared.finish(batch_id, results=RESULTS)
        shared.delete_batchjob(batch_id)

        assert shared.get(batch_id)["status"] in ("completed", "failed")

    def test_one_that_nobody_saw_created_is_created_again(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        stored = shared.gateway.batches.get("team-a", batch_id)
        assert stored is not None
        forgotten = msgspec.structs.replace(stored.record, batchjob_uid=None)
        shared.gateway.batches.replace("team-a", batch_id, stored, forgotten)
        shared.delete_batchjob(batch_id)

        assert shared.get(batch_id)["status"] == "validating"
        assert shared.batchjob(batch_id)["spec"]["endpoint"] == ENDPOINT

    def test_a_resource_that_isnt_installed_for_the_moment_is_no_deletion(self, shared: BatchWorld) -> None:
        batch_id = shared.create()
        missing = Answer(404, "NotFound", "the server could not find the requested resource")
        shared.api.fail("GET", "/batchjobs", missing)

        assert shared.request("GET", f"/v1/batches/{batch_id}").status_code == 503
        assert shared.get(batch_id)["status"] == "validating"

    def test_a_namespace_that_is_gone_takes_its_batches_with_it(self, world: BatchWorld) -> None:
        world.api.fail("POST", "/batchjobs", Answer(503, "ServiceUnavailable"))
        waiting = world.create()
        running = world.create()
        world.api.objects.clear()
        world.api.fail("POST", "/batchjobs", Answer(404, "NotFound", 'namespaces "team-a" not found'))

        assert world.get(running)["status"] == "failed"
        assert world.get(waiting)["status"] == "failed"

    def test_anothers_batchjob_of_the_same_name_is_none_of_ours(self, shared: BatchWorld) -> None:
        batch_id = shared.create(who=BOB)

        assert shared.request("GET", f"/v1/batches/{batch_id}").status_code == 404


def test_the_api_servers_absence_is_a_failure_and_no_end(shared: BatchWorld) -> None:
    batch_id = shared.create()
    stored = shared.gateway.batches.get("team-a", batch_id)
    assert stored is not None
    shared.api.fail("GET", "/batchjobs", Answer(500, "InternalError"))

    with pytest.raises(Unavailable):
        current(shared.gateway, stored)
    assert shared.gateway.batches.get("team-a", batch_id) == stored
