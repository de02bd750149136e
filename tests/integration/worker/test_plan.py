"""The plan against real stores and a real server: what is wrong is named, and no request is sent for it."""

import itertools
import json
from typing import Any

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport
from batchwright.api.worker_job import MAX_BODY_BYTES
from batchwright.worker.failures import StageFailed
from fixtures.worker import CHAT, MODEL, JobUnderTest, chat_line, chat_lines, jsonl, parsed
from stub.harness import StubProcess

GOOD = json.dumps(chat_line("good")).encode()


_numbers = itertools.count(1)


def changed(**fields: Any) -> bytes:
    """A good line with fields changed; None removes one."""
    line = chat_line(f"changed-{next(_numbers)}") | fields
    return json.dumps({name: value for name, value in line.items() if value is not None}).encode()


def body_changed(**fields: Any) -> bytes:
    body = chat_line("x")["body"] | fields
    return changed(body={name: value for name, value in body.items() if value is not None})


BAD_LINES: list[tuple[bytes, list[tuple[str, str | None]]]] = [
    (b"{", [("invalid_json_line", None)]),
    (b"[]", [("invalid_json_line", None)]),
    (b'"text"', [("invalid_json_line", None)]),
    (GOOD.replace(b"Say", b"\xff"), [("invalid_json_line", None)]),
    (GOOD.replace(b'"Say good."', b"NaN"), [("invalid_json_line", None)]),
    (GOOD.replace(b'"Say good."', b"1e400"), [("invalid_json_line", None)]),
    (GOOD.replace(b"Say", rb"\ud83d"), [("invalid_json_line", None)]),
    (b"[" * 100_000, [("invalid_json_line", None)]),
    (changed(custom_id=None), [("missing_required_parameter", "custom_id")]),
    (changed(method=None), [("missing_required_parameter", "method")]),
    (changed(url=None), [("missing_required_parameter", "url")]),
    (changed(body=None), [("missing_required_parameter", "body")]),
    (b"{}", [("missing_required_parameter", name) for name in ("custom_id", "method", "url", "body")]),
    (GOOD, [("duplicate_custom_id", "custom_id")]),
    (changed(url="/v1/embeddings", body=chat_line("x", input="text")["body"]), [("invalid_url", "url")]),
    (changed(url=7), [("invalid_url", "url")]),
    (changed(method="GET"), [("invalid_method", "method")]),
    (changed(custom_id=7), [("invalid_request", "custom_id")]),
    (changed(custom_id=""), [("invalid_request", "custom_id")]),
    (changed(custom_id="x" * 513), [("invalid_request", "custom_id")]),
    (body_changed(model="other"), [("mismatched_model", "body.model")]),
    (body_changed(stream=True), [("streaming_unsupported", "body.stream")]),
    (body_changed(model=None), [("invalid_request", "body.model")]),
    (body_changed(messages=None), [("invalid_request", "body.messages")]),
    (changed(body=[]), [("invalid_request", "body")]),
    (body_changed(filler="x" * MAX_BODY_BYTES), [("invalid_request", "body")]),
]
"""Each kind of error that a line can have, in a file whose first line is good."""


def failed(job: JobUnderTest) -> FailureReport:
    with pytest.raises(StageFailed) as failure:
        job.plan()
    if failure.value.report.validation_errors:
        assert failure.value.code == ExitCode.INPUT_INVALID
    return failure.value.report


def test_every_kind_of_error_is_found_with_its_line_and_no_request_is_sent(
    job: JobUnderTest, stub: StubProcess
) -> None:
    # A blank line between, since it counts in line numbers.
    lines = [GOOD, b""] + [line for line, _ in BAD_LINES]
    job.input(b"\n".join(lines))
    process = job.start("plan")
    assert process.wait() == ExitCode.INPUT_INVALID
    report = process.report(FailureReport)
    expected = [(number, code, param) for number, (_, found) in enumerate(BAD_LINES, start=3) for code, param in found]
    uri = f"{job.place.output_uri}job/.batchwright/validation-errors.jsonl"
    listed = [(error["line"], error["code"], error["param"]) for error in parsed(job.place.get(uri))]
    assert sorted(listed) == sorted(expected)
    assert report.reason is Reason.INVALID_INPUT
    assert report.validation_error_count == len(expected)
    assert report.validation_errors_uri == uri
    assert report.message.startswith(f"{job.place.input_uri} is invalid: invalid_json_line in line 3: ")
    assert "No request was sent." in report.message
    assert stub.arrivals().total == 0


def test_a_duplicate_names_both_lines(job: JobUnderTest) -> None:
    report = failed(job.input([chat_line("a"), chat_line("twice"), chat_line("b"), chat_line("twice")]))
    (error,) = report.validation_errors
    assert (error.code, error.line) == ("duplicate_custom_id", 4)
    assert "'twice'" in error.message
    assert "line 2" in error.message


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n", b"\xef\xbb\xbf"], ids=["nothing", "blank", "a mark alone"])
def test_an_empty_file(job: JobUnderTest, content: bytes) -> None:
    (error,) = failed(job.input(content)).validation_errors
    assert (error.code, error.line) == ("empty_file", None)


def test_more_lines_than_the_operator_allows(job: JobUnderTest) -> None:
    report = failed(job.input(chat_lines(6)).with_settings(limits={"maxLines": 5}))
    (error,) = report.validation_errors
    assert error.code == "too_many_tasks"
    assert "6" in error.message
    assert "5" in error.message
    assert job.with_settings(limits={"maxLines": 6}).plan().lines == 6


def test_more_bytes_than_the_operator_allows(job: JobUnderTest) -> None:
    content = jsonl(chat_lines(3))
    report = failed(job.input(content).with_settings(limits={"maxFileBytes": len(content) - 1}))
    assert [error.code for error in report.validation_errors] == ["file_too_large"]
    assert job.with_settings(limits={"maxFileBytes": len(content)}).plan().lines == 3


class TestLimitsOfTheSpec:
    """The smaller one of the spec's and the operator's counts, and the message has limit and count."""

    @pytest.mark.parametrize(("own", "operators"), [(5, None), (5, 100), (100, 5)])
    def test_lines(self, job: JobUnderTest, stub: StubProcess, own: int, operators: int | None) -> None:
        job = job.input(chat_lines(6)).with_settings(limits={"maxLines": operators})
        report = failed(job.with_input(limits={"lines": own}))
        assert [error.code for error in report.validation_errors] == ["too_many_tasks"]
        assert report.validation_errors[0].message == "The input file has 6 requests; the limit is 5."
        assert report.reason is Reason.INVALID_INPUT
        assert stub.arrivals().total == 0

    @pytest.mark.parametrize(("own", "operators"), [(-1, None), (-1, 100), (100, -1)])
    def test_bytes(self, job: JobUnderTest, own: int, operators: int | None) -> None:
        content = jsonl(chat_lines(3))
        limits = {"maxFileBytes": None if operators is None else len(content) + operators}
        job = job.input(content).with_settings(limits=limits)
        report = failed(job.with_input(limits={"bytes": len(content) + own}))
        assert [error.code for error in report.validation_errors] == ["file_too_large"]
        found = f"The input file has {len(content)} bytes; the limit is {len(content) - 1}."
        assert report.validation_errors[0].message == found

    def test_endpoints(self, job: JobUnderTest, stub: StubProcess) -> None:
        other = {**chat_line("e-1"), "url": "/v1/embeddings", "body": {"model": MODEL, "input": "x"}}
        job = job.input([other, *chat_lines(2)]).with_input(limits={"endpoints": [CHAT, "/v1/completions"]})
        report = failed(job)
        (error,) = report.validation_errors
        assert (error.code, error.line, error.param) == ("invalid_url", 1, "url")
        assert "It is '/v1/embeddings', supported are /v1/chat/completions, /v1/completions." in error.message
        assert stub.arrivals().total == 0
        assert job.input(chat_lines(2)).plan().endpoint == CHAT

    def test_an_input_that_just_keeps_them(self, job: JobUnderTest) -> None:
        content = jsonl(chat_lines(3))
        within = job.input(content).with_input(limits={"lines": 3, "bytes": len(content)})
        assert within.plan().lines == 3


def test_a_file_that_is_not_there(job: JobUnderTest) -> None:
    job.input([])
    job.place.put(job.place.input_uri.replace("input", "other"), b"")
    missing = job.with_spec(input={"uri": job.place.input_uri.replace("input", "missing")})
    report = failed(missing)
    assert report.reason is Reason.INPUT_NOT_FOUND
    assert [(error.code, error.param) for error in report.validation_errors] == [("invalid_request", "file_id")]
    assert "missing.jsonl" in report.message
    assert "correct spec.input.uri" in report.message


class TestBodySize:
    """A body of exactly 10 MiB is accepted, one more byte is not; the envelope doesn't count."""

    @staticmethod
    def line_with_body_of(size: int) -> bytes:
        body = json.dumps(chat_line("big")["body"] | {"filler": ""}).encode()
        body = body[:-2] + b"x" * (size - len(body)) + body[-2:]
        assert len(body) == size
        return b'{"custom_id":"big","method":"POST","url":"%s","body":%s}' % (CHAT.encode(), body)

    def test_the_limit_itself_is_accepted_and_sent(self, job: JobUnderTest, stub: StubProcess) -> None:
        report = job.input(self.line_with_body_of(MAX_BODY_BYTES)).complete()
        assert report.request_counts.completed == 1
        assert stub.arrivals().arrived == {"big": 1}

    def test_one_more_byte_is_refused_with_both_numbers(self, job: JobUnderTest) -> None:
        report = failed(job.input(self.line_with_body_of(MAX_BODY_BYTES + 1)))
        (error,) = report.validation_errors
        assert (error.code, error.param) == ("invalid_request", "body")
        assert str(MAX_BODY_BYTES) in error.message
        assert str(MAX_BODY_BYTES + 1) in error.message


class TestModelAndEndpoint:
    """Both are optional in the spec: else what all lines name."""

    def test_they_are_found_in_the_lines(self, job: JobUnderTest) -> None:
        planned = job.input(chat_lines(2)).plan()
        assert (planned.endpoint, planned.model) == (CHAT, "stub-model")

    def test_a_model_that_is_not_served_is_named_with_those_that_are(
        self, job: JobUnderTest, stub: StubProcess
    ) -> None:
        stub.switch(models=["one", "two"])
        report = failed(job.input(chat_lines(2)))
        assert report.reason is Reason.MODEL_NOT_FOUND
        for name in ("'stub-model'", "'one'", "'two'"):
            assert name in report.message
        assert [(error.code, error.line) for error in report.validation_errors] == [("model_not_found", 1)]
        assert stub.arrivals().total == 0

    def test_lines_must_name_the_specs_model(self, job: JobUnderTest) -> None:
        report = failed(job.input(chat_lines(1)).with_spec(model="another"))
        assert {error.code for error in report.validation_errors} == {"mismatched_model", "model_not_found"}

    def test_lines_must_name_the_specs_endpoint(self, job: JobUnderTest) -> None:
        report = failed(job.input(chat_lines(1)).with_spec(endpoint="/v1/completions"))
        (error,) = report.validation_errors
        assert error.code == "invalid_url"
        assert CHAT in error.message
        assert "/v1/completions" in error.message

    @pytest.mark.parametrize("field", ["url", "model"])
    def test_two_different_ones_are_both_named(self, job: JobUnderTest, field: str) -> None:
        other = chat_line("b") | {"url": "/v1/completions"} if field == "url" else chat_line("b", model="second")
        (error, *_) = failed(job.input([chat_line("a"), other])).validation_errors
        assert error.line == 2
        for name in (CHAT, "/v1/completions") if field == "url" else ("'stub-model'", "'second'"):
            assert name in error.message


class TestAgain:
    """Planning again finds the plan that is there."""

    def test_it_says_the_same(self, job: JobUnderTest) -> None:
        job.input(chat_lines(30))
        assert job.plan() == job.plan()

    def test_the_first_plan_counts_whatever_the_parallelism_is_by_then(self, job: JobUnderTest) -> None:
        first = job.input(chat_lines(3000)).with_spec(sharding={"parallelism": 2}).plan()
        second = job.with_spec(sharding={"parallelism": 5}).plan()
        assert second == first
        assert first.shards == 4

    def test_another_input_is_another_work(self, job: JobUnderTest) -> None:
        first = job.input(chat_lines(3)).plan()
        second = job.input(chat_lines(4)).plan()
        assert first.fingerprint != second.fingerprint
