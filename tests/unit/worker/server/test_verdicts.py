"""What the end of one try means. The first table is that of docs/failures.md."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage
from batchwright.worker.server.verdicts import (
    RETRY_AFTER_LIMIT_SECONDS,
    Answered,
    Failed,
    Kind,
    Retry,
    judge,
    record_tries,
    retry_after,
)
from batchwright.worker.transport.errors import (
    AnswerTimeout,
    AnswerTooLarge,
    ConnectFailed,
    ConnectionLost,
    TransportError,
)
from batchwright.worker.transport.protocol import Answer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DONE = b'{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'
REFUSAL = b'{"error":{"message":"no","code":400}}'


def judged(status: int, body: bytes = REFUSAL, **headers: str) -> Answered | Failed | Retry:
    return judge(Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body), "sent", NOW)


def finished_by(reason: str) -> bytes:
    return b'{"choices":[{"finish_reason":%s}]}' % reason.encode()


MODEL_GONE = b'{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}'
SHUTTING_DOWN = (
    b'{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError","param":null,'
    b'"code":500}}'
)
"""Of vLLM 0.32, while what it has in flight ends."""
FINAL = None
"""No other try."""


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        # the server is away or has no room: never charged
        (ConnectFailed("refused"), Kind.UNAVAILABLE),
        (Answer(503, {}, REFUSAL), Kind.UNAVAILABLE),
        (Answer(500, {}, SHUTTING_DOWN), Kind.UNAVAILABLE),
        # the connection broke, or the answer was cut short
        (ConnectionLost("broke"), Kind.BROKEN_OFF),
        (Answer(200, {}, finished_by('"abort"')), Kind.BROKEN_OFF),
        (Answer(200, {}, finished_by("null")), Kind.BROKEN_OFF),
        (Answer(200, {}, b'{"status":"cancelled"}'), Kind.BROKEN_OFF),
        # the server asks to be asked more slowly
        (Answer(429, {}, REFUSAL), Kind.PACED),
        (Answer(425, {}, REFUSAL), Kind.PACED),
        # it refuses the key, or this line
        (Answer(401, {}, REFUSAL), Kind.UNAUTHORIZED),
        (Answer(403, {}, REFUSAL), Kind.FORBIDDEN),
        # it doesn't serve the model
        (Answer(404, {}, MODEL_GONE), Kind.MODEL_MISSING),
        # it fails, or the line makes it fail: charged if other lines are answered meanwhile
        (AnswerTimeout("late"), Kind.CHARGED),
        (Answer(408, {}, REFUSAL), Kind.CHARGED),
        (Answer(500, {}, REFUSAL), Kind.CHARGED),
        (Answer(502, {}, b"<h1>Bad Gateway</h1>"), Kind.CHARGED),
        (Answer(504, {}, REFUSAL), Kind.CHARGED),
        (Answer(200, {}, b""), Kind.CHARGED),
        (Answer(200, {}, b"<h1>Hello</h1>"), Kind.CHARGED),
        (Answer(200, {}, DONE[:-5]), Kind.CHARGED),
        # the last word
        (Answer(200, {}, DONE), FINAL),
        (Answer(201, {}, DONE), FINAL),
        (AnswerTooLarge("70 MB"), FINAL),
        *((Answer(status, {}, REFUSAL), FINAL) for status in (300, 301, 307, 400, 402, 404, 405, 409, 410, 413, 418)),
        *((Answer(status, {}, REFUSAL), FINAL) for status in (422, 424, 431, 451, 501, 505)),
    ],
)
def test_what_the_end_of_a_try_means(result: Answer | TransportError, kind: Kind | None) -> None:
    verdict = judge(result, "sent", NOW)
    assert (verdict.kind if isinstance(verdict, Retry) else FINAL) is kind


@pytest.mark.parametrize(
    "body",
    [
        MODEL_GONE,
        b'{"error":{"message":"No such model","type":"invalid_request_error","code":"model_not_found"}}',
        b'{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","param":null,"code":404}',
    ],
)
def test_a_404_that_names_the_model_is_told_from_one_for_the_path(body: bytes) -> None:
    verdict = judged(404, body)
    assert isinstance(verdict, Retry)
    assert verdict.kind is Kind.MODEL_MISSING
    assert verdict.last == Answered(404, "sent", body, Reading(Usage(), ()))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"error":"Not Found"}', b'{"error":{"message":"Not Found","param":null}}', b'{"detail":"x"}']
)
def test_any_other_404_is_the_last_word(body: bytes) -> None:
    assert isinstance(judged(404, body), Answered)


@pytest.mark.parametrize(
    ("result", "overload"),
    [
        (Answer(429, {}, b""), True),
        (Answer(503, {}, b""), True),
        (Answer(504, {}, b""), True),
        (AnswerTimeout("late"), True),
        (Answer(500, {}, b""), False),
        (Answer(500, {}, SHUTTING_DOWN), False),
        (ConnectionLost("broke"), False),
    ],
)
def test_what_says_that_the_server_had_no_room(result: Answer | TransportError, overload: bool) -> None:
    verdict = judge(result, "sent", NOW)
    assert isinstance(verdict, Retry)
    assert verdict.overload == overload


@pytest.mark.parametrize("status", [200, 201, 299])
def test_a_2xx_answer_with_a_json_body_is_kept_byte_for_byte(status: int) -> None:
    assert judged(status, DONE) == Answered(
        status, "sent", DONE, Reading(Usage(input_tokens=3, output_tokens=2, total_tokens=5), ("stop",))
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the answer is empty"),
        (b" \r\n", "the answer is empty"),
        (DONE[:-5], "the answer is no whole JSON"),
        (b"<html>hello</html>", "the answer is no whole JSON"),
        (b"[]", "the answer is no JSON object"),
        (b'"text"', "the answer is no JSON object"),
        (b'{"a":"\xff"}', "the answer is not valid UTF-8"),
    ],
)
def test_a_200_that_is_no_whole_json_object_is_a_failed_try(body: bytes, why: str) -> None:
    failed = Failed("invalid_answer", f"The server answered 200, but {why}.")
    assert judged(200, body) == Retry(Kind.CHARGED, failed)


@pytest.mark.parametrize("reason", ['"abort"', "null"])
def test_a_200_that_was_cut_by_a_shutdown_is_a_failed_try(reason: str) -> None:
    verdict = judged(200, finished_by(reason))
    assert isinstance(verdict, Retry)
    assert isinstance(verdict.last, Failed)
    assert verdict.last.code == "connection_error"


def test_one_cut_choice_among_several_cuts_the_answer() -> None:
    body = b'{"choices":[{"finish_reason":"stop"},{"finish_reason":"abort"}]}'
    assert isinstance(judged(200, body), Retry)


@pytest.mark.parametrize("reason", ['"stop"', '"length"', '"tool_calls"', '"content_filter"'])
def test_any_other_finish_reason_is_an_answer(reason: str) -> None:
    assert isinstance(judged(200, finished_by(reason)), Answered)


@pytest.mark.parametrize(
    ("status", "kept"), [("completed", True), ("incomplete", True), ("failed", True), ("cancelled", False)]
)
def test_a_response_object_says_in_its_status_that_it_was_cut(status: str, kept: bool) -> None:
    assert isinstance(judged(200, b'{"status":"%s"}' % status.encode()), Answered) == kept


@pytest.mark.parametrize("body", [b'{"data":[]}', b'{"score":1}', b"{}", b'{"choices":"what?","usage":7}'])
def test_an_answer_without_finish_reasons_is_an_answer(body: bytes) -> None:
    assert isinstance(judged(200, body), Answered)


@pytest.mark.parametrize(
    ("headers", "expected"), [({"x_request_id": "theirs"}, "theirs"), ({}, "sent"), ({"x_request_id": ""}, "sent")]
)
@pytest.mark.parametrize("status", [200, 400])
def test_the_request_id_is_the_servers_else_the_one_sent(status: int, headers: dict[str, str], expected: str) -> None:
    verdict = judged(status, DONE, **headers)
    assert isinstance(verdict, Answered)
    assert verdict.server_request_id == expected


def test_a_page_that_is_no_json_is_kept_as_an_error_body() -> None:
    verdict = judged(413, b"<h1>Forbidden</h1>")
    assert isinstance(verdict, Answered)
    assert verdict.body == (
        b'{"error":{"message":"<h1>Forbidden</h1>","type":"invalid_response","param":null,"code":413}}'
    )


def test_half_a_surrogate_pair_does_not_spoil_an_answer() -> None:
    verdict = judged(200, rb'{"choices":[{"finish_reason":"stop","text":"cut \ud83d"}]}')
    assert isinstance(verdict, Answered)
    assert verdict.body == rb'{"choices":[{"finish_reason":"stop","text":"cut \ufffd"}]}'


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (AnswerTimeout("no whole answer within 3 s"), "request_timeout", "no whole answer within 3 s."),
        (ConnectFailed("refused"), "connection_error", "refused."),
        (ConnectionLost("broke"), "connection_error", "broke."),
        (AnswerTooLarge("70 MB"), "answer_too_large", "70 MB."),
    ],
)
def test_what_got_no_answer_has_a_code(error: TransportError, code: str, message: str) -> None:
    verdict = judge(error, "sent", NOW)
    assert (verdict.last if isinstance(verdict, Retry) else verdict) == Failed(code, message)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("100000", RETRY_AFTER_LIMIT_SECONDS),
        ("9" * 400, RETRY_AFTER_LIMIT_SECONDS),
        (format_datetime(NOW + timedelta(seconds=30)), 30.0),
        (format_datetime(NOW - timedelta(seconds=30)), 0.0),
        (format_datetime(NOW + timedelta(days=30)), RETRY_AFTER_LIMIT_SECONDS),
        ("Fri, 02 Jan 2026 03:04:15 GMT", 10.0),
        ("Fri, 02 Jan 2026 03:04:15 -0000", 10.0),
        ("soon", None),
        ("-7", None),
        ("1.5", None),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
        ("٣", None),
        ("Fri, 99 Jan 2026 03:04:15 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=60))
def test_no_retry_after_header_breaks_the_worker_or_makes_it_wait_for_long(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0.0 <= seconds <= RETRY_AFTER_LIMIT_SECONDS


def test_a_retry_after_header_comes_with_the_verdict() -> None:
    verdict = judged(429, retry_after="7")
    assert isinstance(verdict, Retry)
    assert verdict.after == 7.0


@pytest.mark.parametrize(
    ("tries", "charged", "told"),
    [
        (1, 1, "No answer."),
        (4, 4, "No answer. Tried 4 times."),
        (9, 4, "No answer. Tried 9 times, 5 of them at the expense of the server, which was away or busy."),
    ],
)
def test_a_failure_tells_how_often_it_was_tried(tries: int, charged: int, told: str) -> None:
    assert record_tries(Failed("request_timeout", "No answer."), tries, charged) == Failed("request_timeout", told)


def test_tries_that_broke_the_connection_are_told_apart() -> None:
    told = record_tries(Failed("connection_error", "It broke."), tries=12, charged=0, broke=10)
    assert told == Failed(
        "connection_error",
        "It broke. Tried 12 times, 2 of them at the expense of the server, which was away or busy."
        " 10 of them broke the connection though the server worked.",
    )


def test_an_answer_is_recorded_as_it_is() -> None:
    answered = Answered(500, "id", b"{}", Reading(Usage(), ()))
    assert record_tries(answered, 4, 4) == answered


def test_a_cause_is_told_without_the_answer_s_text() -> None:
    verdict = judged(500, b'{"error":{"message":"secret"}}')
    assert isinstance(verdict, Retry)
    assert verdict.cause == "The server answered 500."
