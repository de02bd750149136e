"""POST /v1/batches, and what the batch is that it makes."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from batchwright.api.batchjob import BatchJob
from batchwright.gateway.batches import schema
from batchwright.gateway.catalogue import Catalogue
from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world
from fixtures.gateway import ADMIN, ALICE, BOB
from fixtures.s3 import S3Bucket

NO_FILE = BatchWorld.missing_file(1)


def refused(answer: httpx.Response, status: int = 400) -> dict[str, Any]:
    """The error of an answer, which has all its keys."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"]
    return error


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchWorld]:
    """A gateway with a catalogue of two models."""
    models = [
        {"model": "m", "cluster": "c", "server": {"url": "http://m:8000"}, "endpoints": [ENDPOINT]},
        {"model": "interactive", "cluster": "c", "server": {"url": "http://i:8000"}, "batch": False},
    ]
    catalogue = Catalogue.model_validate({"models": models})
    with batch_world(None, tmp_path_factory.mktemp("models"), catalogue=lambda: catalogue) as world:
        yield world


class TestTheBatch:
    def test_with_the_sdk(self, shared: BatchWorld) -> None:
        batch = shared.openai().batches.create(
            input_file_id=shared.upload(), endpoint=ENDPOINT, completion_window="24h", metadata={"team": "a"}
        )

        assert (batch.status, batch.object, batch.endpoint, batch.completion_window) == (
            "validating",
            "batch",
            ENDPOINT,
            "24h",
        )
        assert batch.metadata == {"team": "a"}
        assert batch.expires_at == batch.created_at + 86_400
        assert shared.openai().batches.retrieve(batch.id) == batch

    def test_its_batchjob_has_everything(self, shared: BatchWorld) -> None:
        file_id = shared.upload()
        batch_id = shared.create(file_id, metadata={"team": "a"})

        job = shared.batchjob(batch_id)
        BatchJob.model_validate(job)
        assert job["metadata"]["labels"] == {"batchwright.dev/gateway": "openai"}
        assert job["metadata"]["annotations"]["batchwright.dev/gateway-user"] == "alice"
        assert job["spec"]["endpoint"] == ENDPOINT
        assert job["spec"]["input"] == {
            "uri": f"{shared.gateway.settings.batch_path}team-a/{file_id}",
            "limits": {"lines": 50_000, "bytes": 200_000_000},
        }
        assert job["spec"]["output"] == {"uri": f"{shared.gateway.settings.batch_path}team-a/"}
        assert job["spec"]["metadata"] == {"team": "a"}
        assert job["spec"]["completionWindow"] == "24h"

    def test_every_key_is_there_from_the_beginning(self, shared: BatchWorld) -> None:
        shown = shared.get(shared.create())

        schema.Batch.model_validate(shown, strict=True)
        assert set(shown) == set(schema.Batch.model_fields)
        assert shown["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
        assert (shown["output_file_id"], shown["error_file_id"], shown["errors"]) == (None, None, None)

    def test_the_audit_log_has_the_id_and_nothing_of_the_request(self, shared: BatchWorld) -> None:
        batch_id = shared.create(metadata={"secret": "plan"})

        [told] = [line for line in shared.audited.lines if line["id"] == batch_id]
        assert (told["method"], told["user"], told["route"], told["status"]) == ("POST", "alice", "/v1/batches", 200)
        assert "plan" not in str(told)

    def test_whatever_content_type_curl_names(self, shared: BatchWorld) -> None:
        body = f'{{"input_file_id": "{shared.upload()}", "endpoint": "{ENDPOINT}"}}'
        headers = {"content-type": "application/x-www-form-urlencoded"}

        assert shared.request("POST", "/v1/batches", content=body, headers=headers).status_code == 200


class TestFields:
    @pytest.mark.parametrize("missing", ["input_file_id", "endpoint"])
    def test_a_missing_field_is_named(self, shared: BatchWorld, missing: str) -> None:
        fields = {"input_file_id": NO_FILE, "endpoint": ENDPOINT}
        del fields[missing]
        error = refused(shared.post(**fields))

        assert error == {
            "message": f"Missing required parameter: '{missing}'.",
            "type": "invalid_request_error",
            "param": missing,
            "code": "missing_required_parameter",
        }

    @pytest.mark.parametrize("window", [None, "absent"])
    def test_a_missing_completion_window_means_24h(self, shared: BatchWorld, window: str | None) -> None:
        fields = {} if window == "absent" else {"completion_window": window}

        assert shared.get(shared.create(**fields))["completion_window"] == "24h"

    @pytest.mark.parametrize("window", ["48h", "", "24H", "1d"])
    def test_another_completion_window_is_refused_by_its_name(self, shared: BatchWorld, window: str) -> None:
        error = refused(shared.post(input_file_id=NO_FILE, endpoint=ENDPOINT, completion_window=window))

        assert "completion_window" in error["message"]
        assert "'24h'" in error["message"]
        assert (error["param"], error["code"]) == ("completion_window", "invalid_value")

    def test_a_deployment_may_allow_more_windows(self, tmp_path: Path) -> None:
        with batch_world(None, tmp_path, completionWindows=["1h", "48h"]) as world:
            assert world.get(world.create())["completion_window"] == "1h"
            batch_id = world.create(completion_window="48h")

            assert world.batchjob(batch_id)["spec"]["completionWindow"] == "48h"
            shown = world.get(batch_id)
            assert shown["expires_at"] - shown["created_at"] == 48 * 3600

    @pytest.mark.parametrize("endpoint", ["v1/chat/completions", "/v1/moderations", "", "/v1/chat/completions/"])
    def test_an_endpoint_that_is_none_is_refused_with_those_that_are(self, shared: BatchWorld, endpoint: str) -> None:
        error = refused(shared.post(input_file_id=NO_FILE, endpoint=endpoint))

        assert (error["param"], error["code"]) == ("endpoint", "invalid_value")
        for supported in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/score"):
            assert f"'{supported}'" in error["message"]

    @pytest.mark.parametrize(
        ("metadata", "code", "param"),
        [
            ({"count": 1}, "invalid_type", "metadata.count"),
            ({"nothing": None}, "invalid_type", "metadata.nothing"),
            ({"nested": {}}, "invalid_type", "metadata.nested"),
            (["a"], "invalid_type", "metadata"),
            ("text", "invalid_type", "metadata"),
            ({f"k{number}": "v" for number in range(17)}, "invalid_value", "metadata"),
            ({"k" * 65: "v"}, "invalid_value", "metadata"),
            ({"k": "v" * 513}, "invalid_value", "metadata.k"),
        ],
    )
    def test_metadata_that_is_no_map_of_16_short_strings_is_refused(
        self, shared: BatchWorld, metadata: Any, code: str, param: str
    ) -> None:
        error = refused(shared.post(input_file_id=NO_FILE, endpoint=ENDPOINT, metadata=metadata))

        assert (error["code"], error["param"]) == (code, param)
        assert len(error["message"]) < 300

    def test_metadata_of_the_largest_size_is_kept_as_it_is(self, shared: BatchWorld) -> None:
        metadata = {f"{number:064}": "é" * 512 for number in range(16)}

        assert shared.get(shared.create(metadata=metadata))["metadata"] == metadata

    @pytest.mark.parametrize(
        ("value", "param"),
        [
            ({"anchor": "created_at", "seconds": 3599}, "output_expires_after.seconds"),
            ({"anchor": "created_at", "seconds": 2_592_001}, "output_expires_after.seconds"),
            ({"anchor": "created_at", "seconds": "3600"}, "output_expires_after.seconds"),
            ({"anchor": "created_at"}, "output_expires_after.seconds"),
            ({"anchor": "now", "seconds": 3600}, "output_expires_after.anchor"),
            (3600, "output_expires_after"),
        ],
    )
    def test_output_expires_after_has_an_anchor_and_seconds(self, shared: BatchWorld, value: Any, param: str) -> None:
        error = refused(shared.post(input_file_id=NO_FILE, endpoint=ENDPOINT, output_expires_after=value))

        assert error["param"] == param

    def test_an_unknown_field_is_refused_by_its_name_as_openai_does(self, shared: BatchWorld) -> None:
        error = refused(shared.post(input_file_id=NO_FILE, endpoint=ENDPOINT, completion_windw="24h"))

        assert (error["code"], error["param"]) == ("unknown_parameter", "completion_windw")
        assert error["message"] == "Unknown parameter: 'completion_windw'."

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'"text"',
            b'{"input_file_id": 7}',
            b'{"input_file_id": "\\ud800", "endpoint": "x"}',
            b'{"a": NaN}',
            b"[" * 10_000,
            b"\xff\xfe",
        ],
    )
    def test_a_body_that_is_no_request_is_a_400(self, shared: BatchWorld, body: bytes) -> None:
        refused(shared.request("POST", "/v1/batches", content=body))

    def test_a_body_without_end_is_a_413(self, shared: BatchWorld) -> None:
        error = refused(shared.request("POST", "/v1/batches", content=b" " * (1 << 20) + b"{}"), 413)

        assert str(1 << 20) in error["message"]

    def test_nobody_reads_the_body_of_a_stranger(self, shared: BatchWorld) -> None:
        headers = {"authorization": "Bearer stranger"}

        refused(shared.request("POST", "/v1/batches", content=b"{", headers=headers), 401)

    def test_an_administrator_names_the_namespace(self, shared: BatchWorld) -> None:
        fields = {"input_file_id": shared.upload(ALICE), "endpoint": ENDPOINT}

        assert "OpenAI-Project" in refused(shared.post(ADMIN, **fields))["message"]
        answer = shared.request("POST", "/v1/batches", ADMIN, json=fields, headers={"OpenAI-Project": "team-a"})
        assert shared.get(answer.json()["id"], ALICE)["status"] == "validating"


class TestInputsThatCantBe:
    """200 and `validating`, as OpenAI answers; then `failed`, with no BatchJob."""

    def fails(self, shared: BatchWorld, file_id: str, who: Any = ALICE) -> list[dict[str, Any]]:
        answer = shared.post(who, input_file_id=file_id, endpoint=ENDPOINT)
        assert (answer.status_code, answer.json()["status"]) == (200, "validating")
        shown = shared.get(answer.json()["id"], who)
        assert (shown["status"], shown["input_file_id"]) == ("failed", file_id)
        assert shown["failed_at"] >= shown["created_at"]
        assert shared.path_of(shown["id"], who) not in shared.api.objects
        errors: list[dict[str, Any]] = shown["errors"]["data"]
        return errors

    @pytest.mark.parametrize("file_id", [NO_FILE, "file-none", "batch_x", "../team-b/file", "", "x" * 500])
    def test_an_unknown_file(self, shared: BatchWorld, file_id: str) -> None:
        [error] = self.fails(shared, file_id)

        assert (error["code"], error["param"], error["line"]) == ("invalid_request", "file_id", None)
        assert error["message"].startswith("Cannot find file ")

    def test_a_file_of_another_tenant_is_as_unknown_as_any(self, shared: BatchWorld) -> None:
        file_id = shared.upload(ALICE)

        [error] = self.fails(shared, file_id, BOB)
        assert error["message"] == f"Cannot find file {file_id}."

    def test_a_file_that_has_expired(self, shared: BatchWorld) -> None:
        file_id = shared.upload(expires_at=shared.gateway.clock() - timedelta(seconds=1))

        assert self.fails(shared, file_id)[0]["message"] == f"Cannot find file {file_id}."

    def test_a_file_of_another_purpose(self, shared: BatchWorld) -> None:
        [error] = self.fails(shared, shared.upload(purpose="batch_output"))

        assert (error["code"], error["param"]) == ("invalid_request", "file_id")
        assert "batch_output" in error["message"]

    def test_the_sdks_user_sees_why(self, shared: BatchWorld) -> None:
        client = shared.openai()
        batch = client.batches.create(input_file_id=NO_FILE, endpoint=ENDPOINT, completion_window="24h")
        errors = client.batches.retrieve(batch.id).errors

        assert errors is not None
        assert errors.data is not None
        assert errors.data[0].code == "invalid_request"


class TestModels:
    def test_a_batch_goes_to_the_server_of_its_model(self, catalogue: BatchWorld) -> None:
        batch_id = catalogue.create(catalogue.upload(model="m"))

        assert catalogue.batchjob(batch_id)["spec"]["server"] == {"url": "http://m:8000"}

    def test_a_model_that_takes_no_batches_is_refused_with_those_that_do(self, catalogue: BatchWorld) -> None:
        file_id = catalogue.upload(model="interactive")
        before = len(catalogue.batchjobs())
        error = refused(catalogue.post(input_file_id=file_id, endpoint=ENDPOINT))

        assert "'m'" in error["message"]
        assert len(catalogue.batchjobs()) == before

    def test_an_endpoint_that_its_server_lacks_is_refused_with_those_it_has(self, catalogue: BatchWorld) -> None:
        file_id = catalogue.upload(model="m")
        error = refused(catalogue.post(input_file_id=file_id, endpoint="/v1/embeddings"))

        assert error["param"] == "endpoint"
        assert ENDPOINT in error["message"]

    def test_an_unknown_model_fails_the_batch_at_its_first_line(self, catalogue: BatchWorld) -> None:
        shown = catalogue.get(catalogue.create(catalogue.upload(model="nobody")))

        [error] = shown["errors"]["data"]
        assert shown["status"] == "failed"
        assert (error["code"], error["param"], error["line"]) == ("model_not_found", "body.model", 1)
        assert "'nobody'" in error["message"]
        assert "'m'" in error["message"]

    def test_a_first_line_without_a_model_is_for_the_validation(self, catalogue: BatchWorld) -> None:
        batch_id = catalogue.create(catalogue.upload(model=None))

        assert catalogue.get(batch_id)["status"] == "validating"

    def test_without_a_catalogue_the_default_server_takes_everything(self, s3_bucket: S3Bucket, tmp_path: Path) -> None:
        with batch_world(s3_bucket, tmp_path, defaultServer={"url": "http://vllm:8000"}) as world:
            assert world.batchjob(world.create())["spec"]["server"] == {"url": "http://vllm:8000"}


class TestLimits:
    def test_one_batch_too_many_is_a_429_until_one_has_ended(self, s3_bucket: S3Bucket, tmp_path: Path) -> None:
        with batch_world(s3_bucket, tmp_path, limits={"tenant": {"activeBatches": 2}}) as world:
            file_id = world.upload()
            first, _ = world.create(file_id), world.create(file_id)
            answer = world.post(input_file_id=file_id, endpoint=ENDPOINT)

            error = refused(answer, 429)
            assert (error["code"], error["type"]) == ("too_many_active_batches", "rate_limit_error")
            assert int(answer.headers["retry-after"]) > 0
            assert len(world.batchjobs()) == 2
            assert world.create(world.upload(BOB), BOB), "another tenant's have nothing to do with it"

            world.finish(first)
            world.create(file_id)

    def test_what_failed_at_its_creation_is_not_active(self, s3_bucket: S3Bucket, tmp_path: Path) -> None:
        with batch_world(s3_bucket, tmp_path, limits={"tenant": {"activeBatches": 1}}) as world:
            for number in range(3):
                world.create(world.missing_file(number))
            world.create()

    def test_a_tenants_own_limit_of_lines_goes_to_the_worker(self, s3_bucket: S3Bucket, tmp_path: Path) -> None:
        tenants = {"team-a": {"limits": {"openai": {"lines": 150_000}}}}
        with batch_world(s3_bucket, tmp_path, tenants=tenants) as world:
            assert world.batchjob(world.create())["spec"]["input"]["limits"]["lines"] == 150_000
