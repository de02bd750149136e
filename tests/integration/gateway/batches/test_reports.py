"""What people reported of other gateways' batches, each with a test of its name.

| Report                                            | Test here                                                    |
|---------------------------------------------------|--------------------------------------------------------------|
| `after` parsed as a number                        | test_after_parsed_as_a_number                                |
| `after` ignored (endless loop)                    | test_after_ignored_makes_an_endless_loop                     |
| empty page with has_more                          | test_empty_page_with_has_more                                |
| missing field answered 500                        | test_missing_field_answered_500                              |
| null output_file_id                               | test_null_output_file_id                                     |
| metadata null                                     | test_metadata_null                                           |
| stream:true forwarded to the model                | test_bad_inputs_fail_the_batch[stream]                       |
| duplicate ids hang the batch                      | test_bad_inputs_fail_the_batch[duplicate ids]                |
| purpose unchecked                                 | test_purpose_unchecked                                       |
| cancelled lines lost or in two files              | test_cancelled_lines_lost_or_counted_as_failed               |
| a JSON line that is no object crashes the server  | test_bad_inputs_fail_the_batch[no object]                    |
| CRLF, BOM, U+2028; no final newline               | test_good_inputs_pass                                        |
| unknown model answered 500                        | test_unknown_model_answered_500                              |
| file unreadable just after upload                 | test_a_batch_right_after_its_upload                          |
| extra status names                                | test_extra_status_names                                      |
| "completed" with the input echoed as output       | test_completed_with_the_input_echoed_as_output               |
| NaN from pandas                                   | test_bad_inputs_fail_the_batch[NaN]                          |
| overlong custom_id                                | test_bad_inputs_fail_the_batch[overlong custom_id]           |
| endpoint without its leading slash                | test_endpoint_without_its_leading_slash                      |
| client retry makes two batches                    | test_client_retry_makes_two_batches                          |

The rest is not of batches' routes:

| Report                                  | Test elsewhere                                                          |
|-----------------------------------------|-------------------------------------------------------------------------|
| purpose unchecked, at the upload        | unit/gateway/files/test_form.py, test_another_purpose_is_…              |
| overlong filename                       | unit/gateway/files/test_form.py, test_overlong_names_…                  |
| file unreadable just after upload       | integration/gateway/files/test_uploads.py, test_the_official_client_…   |
| whole file in memory                    | integration/gateway/files/test_processes.py, test_a_file_of_two_…       |
| `GET /v1/files/` 405                    | integration/gateway/files/test_listing.py, test_a_trailing_slash_…      |
| file listing limited to 20              | integration/gateway/files/test_listing.py, test_where_nobody_says_…     |
| 200 with empty body                     | unit/worker/server/test_verdicts.py, test_a_200_that_is_no_whole_…      |
| cancelled lines lost or in two files    | property/test_closing.py, test_each_request_ends_once_…                 |
"""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from openai import BadRequestError, OpenAI

from batchwright.api.conditions import Phase
from batchwright.batchfile.lines import split_lines
from batchwright.batchfile.validation import Validator, find_duplicates
from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.records.batch_record import TERMINAL, Status
from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world, line
from fixtures.kubernetes_http import Answer

BODY_BYTES = 10 << 20


def validate(world: BatchWorld, batch_id: str) -> None:
    """What the worker and the operator do first: the input is checked, and what is found goes into the status."""
    folder = world.gateway.tenant("team-a")
    data = folder.store.read(folder.key(world.get(batch_id)["input_file_id"]))
    lines = list(split_lines([data.removeprefix(b"\xef\xbb\xbf")], BODY_BYTES))
    validator = Validator(endpoint=ENDPOINT, model=None, max_body_bytes=BODY_BYTES)
    for some in lines:
        validator.take(some)
    validator.errors.add(find_duplicates(lines, validator.suspects()))
    if validator.errors.count:
        found = [
            {"code": error.code, "message": error.message, "line": error.line, "param": error.param}
            for error in validator.errors.listed
        ]
        errors = [{name: value for name, value in error.items() if value is not None} for error in found]
        world.phase(
            batch_id, "failed", "InvalidInput", validationErrors=errors, validationErrorCount=validator.errors.count
        )
    else:
        world.phase(batch_id, "in_progress", requestCounts={"total": validator.requests})


def sdk_upload(client: OpenAI, data: bytes) -> str:
    return client.files.create(file=data, purpose="batch").id


def test_after_parsed_as_a_number(world: BatchWorld) -> None:
    first, second = world.ended(2)

    assert [batch.id for batch in world.openai().batches.list(after=first).data] == [second]


def test_after_ignored_makes_an_endless_loop(world: BatchWorld) -> None:
    made = world.ended(3)

    assert [batch.id for batch in world.openai().batches.list(limit=1)] == made


def test_empty_page_with_has_more(world: BatchWorld) -> None:
    made = world.ended(2)
    page = world.openai().batches.list(limit=2)
    last = world.openai().batches.list(limit=2, after=made[-1])

    assert (len(page.data), page.has_more) == (2, False)
    assert (last.data, last.has_more) == ([], False)


@pytest.mark.parametrize("missing", ["input_file_id", "endpoint"])
def test_missing_field_answered_500(shared: BatchWorld, missing: str) -> None:
    fields = {"input_file_id": shared.missing_file(1), "endpoint": ENDPOINT, "completion_window": "24h"}
    del fields[missing]
    answer = shared.post(**fields)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == missing


def test_null_output_file_id(shared: BatchWorld) -> None:
    """All requests failed: completed, with an error file and no output file; none failed: the other way around."""
    all_failed, none_failed = shared.create(), shared.create()
    shared.finish(all_failed, errors=b"{}\n", requestCounts={"total": 1, "failed": 1}, errorCodes={"400": 1})
    shared.finish(none_failed, results=b"{}\n", requestCounts={"total": 1, "completed": 1})
    failed, succeeded = (shared.openai().batches.retrieve(batch) for batch in (all_failed, none_failed))

    assert (failed.status, failed.output_file_id) == ("completed", None)
    assert (succeeded.status, succeeded.error_file_id) == ("completed", None)
    assert shared.openai().files.content(str(failed.error_file_id)).content == b"{}\n"
    assert shared.openai().files.content(str(succeeded.output_file_id)).content == b"{}\n"


def test_metadata_null(shared: BatchWorld) -> None:
    answer = shared.post(input_file_id=shared.upload(), endpoint=ENDPOINT, metadata=None)

    assert answer.status_code == 200
    assert answer.json()["metadata"] is None
    assert "metadata" not in shared.batchjob(answer.json()["id"])["spec"]


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        pytest.param(
            line("a", body={"model": "m", "messages": [], "stream": True}),
            [("streaming_unsupported", "body.stream", 1)],
            id="stream",
        ),
        pytest.param(line("a") + line("b") + line("a"), [("duplicate_custom_id", "custom_id", 3)], id="duplicate ids"),
        pytest.param(
            line("a") + b"[1]\n7\nnull\n", [("invalid_json_line", None, n) for n in (2, 3, 4)], id="no object"
        ),
        pytest.param(line("a") + line("b").replace(b'"hi"', b"NaN"), [("invalid_json_line", None, 2)], id="NaN"),
        pytest.param(line("x" * 513), [("invalid_request", "custom_id", 1)], id="overlong custom_id"),
        pytest.param(line("a", url="/v1/chat"), [("invalid_url", "url", 1)], id="another url"),
        pytest.param(line("a") + line("b", "n"), [("mismatched_model", "body.model", 2)], id="two models"),
    ],
)
def test_bad_inputs_fail_the_batch(
    shared: BatchWorld, data: bytes, errors: list[tuple[str, str | None, int | None]]
) -> None:
    batch_id = shared.create(shared.upload(data=data))
    validate(shared, batch_id)
    batch = shared.openai().batches.retrieve(batch_id)

    assert batch.status == "failed"
    assert batch.errors is not None
    assert [(error.code, error.param, error.line) for error in batch.errors.data or []] == errors
    assert batch.request_counts is not None
    assert batch.request_counts.total == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(line("a").replace(b"\n", b"\r\n") + line("b"), id="CRLF"),
        pytest.param(b"\xef\xbb\xbf" + line("a") + line("b"), id="BOM"),
        pytest.param(line("a").replace(b"hi", "\u2028\u2029\x85".encode()) + line("b"), id="U+2028"),
        pytest.param(line("a") + line("b").rstrip(b"\n"), id="no final newline"),
        pytest.param(b"\n" + line("a") + b"  \n" + line("b"), id="blank lines"),
    ],
)
def test_good_inputs_pass(shared: BatchWorld, data: bytes) -> None:
    client = shared.openai()
    batch = client.batches.create(input_file_id=sdk_upload(client, data), endpoint=ENDPOINT, completion_window="24h")
    validate(shared, batch.id)
    batch = client.batches.retrieve(batch.id)

    assert batch.status == "in_progress"
    assert batch.request_counts is not None
    assert batch.request_counts.total == 2


def test_purpose_unchecked(shared: BatchWorld) -> None:
    """What a batch published is no input, and its bytes can't be made one by naming them."""
    first = shared.create()
    shared.finish(first, results=b"{}\n")
    second = shared.create(shared.get(first)["output_file_id"])

    assert shared.get(second)["status"] == "failed"


def test_cancelled_lines_lost_or_counted_as_failed(shared: BatchWorld) -> None:
    batch_id = shared.create()
    shared.openai().batches.cancel(batch_id)
    shared.finish(
        batch_id,
        "cancelled",
        results=b"{}\n" * 4,
        errors=b"{}\n" * 6,
        requestCounts={"total": 10, "completed": 4, "failed": 6},
        errorCodes={"batch_cancelled": 5, "400": 1},
    )
    batch = shared.openai().batches.retrieve(batch_id)

    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 10, "completed": 4, "failed": 1}
    files = (shared.openai().files.content(str(name)) for name in (batch.output_file_id, batch.error_file_id))
    assert sum(file.content.count(b"\n") for file in files) == 10


def test_unknown_model_answered_500(tmp_path: Path) -> None:
    catalogue = Catalogue.model_validate({"models": [{"model": "m", "cluster": "c", "server": {"url": "http://m"}}]})
    with batch_world(None, tmp_path, catalogue=lambda: catalogue) as world:
        client = world.openai()
        batch = client.batches.create(
            input_file_id=sdk_upload(client, line("a", "gpt-none")), endpoint=ENDPOINT, completion_window="24h"
        )
        errors = client.batches.retrieve(batch.id).errors

        assert errors is not None
        assert [(error.code, error.line) for error in errors.data or []] == [("model_not_found", 1)]


def test_a_batch_right_after_its_upload(shared: BatchWorld) -> None:
    client = shared.openai()
    file_id = sdk_upload(client, line())
    client.files.wait_for_processing(file_id, poll_interval=0.01, max_wait_seconds=5)
    batch = client.batches.create(input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h")
    validate(shared, batch.id)

    assert client.batches.retrieve(batch.id).status == "in_progress"


def test_extra_status_names(shared: BatchWorld) -> None:
    """A script that loops until it sees a terminal name ends, whatever the BatchJob goes through."""
    batch_id = shared.create()
    seen = [shared.get(batch_id)["status"]]
    for phase in Phase:
        shared.phase(batch_id, phase)
        seen.append(shared.get(batch_id)["status"])
        if phase in TERMINAL:
            break

    assert seen[-1] in TERMINAL
    assert set(seen) <= set(get_args(Status))


def test_completed_with_the_input_echoed_as_output(shared: BatchWorld) -> None:
    """Without results there is no output file; with them it is what the BatchJob published."""
    data = line()
    batch_id = shared.create(shared.upload(data=data))
    answered = json.dumps({"custom_id": "a", "response": {"status_code": 200}}).encode() + b"\n"
    shared.finish(batch_id, results=answered)
    batch = shared.openai().batches.retrieve(batch_id)

    assert batch.output_file_id != batch.input_file_id
    assert shared.openai().files.content(str(batch.output_file_id)).content == answered != data


def test_endpoint_without_its_leading_slash(shared: BatchWorld) -> None:
    with pytest.raises(BadRequestError, match="'/v1/chat/completions'") as refused:
        shared.openai().batches.create(
            input_file_id=shared.upload(),
            endpoint="v1/chat/completions",  # type: ignore[arg-type]
            completion_window="24h",
        )

    assert refused.value.code == "invalid_value"


@pytest.fixture
def lossy(world: BatchWorld) -> BatchWorld:
    """The API server is away for a moment, just when a batch is made."""
    world.api.fail("POST", "/batchjobs", Answer(503, "ServiceUnavailable"))
    return world


def test_client_retry_makes_two_batches(lossy: BatchWorld) -> None:
    """The SDK sends no key, and would repeat a 503: so a batch whose record is written is a success."""
    client = lossy.openai(max_retries=2)
    file_id = lossy.upload()
    batch = client.batches.create(input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h")

    assert [found.id for found in client.batches.list()] == [batch.id]
    assert len(lossy.batchjobs()) == 1


def test_a_script_of_grep_and_cut_finds_id_and_status_once(shared: BatchWorld) -> None:
    """Even of a batch with errors, and with metadata that looks like a batch."""
    batch_id = shared.create(metadata={"note": '"id": "batch_0", "status": "completed"'})
    shared.finish(batch_id, "failed", "RunFailed", message='"status": "completed"')
    text = shared.request("GET", f"/v1/batches/{batch_id}").text

    assert re.findall(r'"id": *"[^"]*"', text) == [f'"id": "{batch_id}"']
    assert [found.split('"')[3] for found in text.splitlines() if '"status":' in found] == ["failed"]
