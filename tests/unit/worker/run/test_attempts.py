"""What the end of one try means, as tables."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage
from batchwright.worker.run.attempts import (
    BACKOFF_LIMIT_SECONDS,
    RETRY_AFTER_LIMIT_SECONDS,
    Answered,
    Failed,
    Retry,
    backoff,
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


@pytest.mark.parametrize("status", [200, 201, 299])
def test_a_2xx_answer_with_a_json_body_is_kept_byte_for_byte(status: int) -> None:
    assert judged(status, DONE) == Answered(
        status, "sent", DONE, Reading(Usage(input_tokens=3, output_tokens=2, total_tokens=5), ("stop",))
    )


@pytest.mark.parametrize("status", [300, 301, 400, 401, 402, 403, 404, 405, 409, 410, 413, 418, 422, 451, 501, 505])
def test_any_other_status_is_the_last_word(status: int) -> None:
    assert judged(status) == Answered(status, "sent", REFUSAL, Reading(Usage(), ()))


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_status_that_may_pass_is_tried_again_and_kept_for_the_end(status: int) -> None:
    assert judged(status) == Retry(Answered(status, "sent", REFUSAL, Reading(Usage(), ())))


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
    assert judged(200, body) == Retry(Failed("invalid_answer", f"The server answered 200, but {why}."))


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
    verdict = judged(403, b"<h1>Forbidden</h1>")
    assert isinstance(verdict, Answered)
    assert verdict.body == (
        b'{"error":{"message":"<h1>Forbidden</h1>","type":"invalid_response","param":null,"code":403}}'
    )


def test_half_a_surrogate_pair_does_not_spoil_an_answer() -> None:
    verdict = judged(200, rb'{"choices":[{"finish_reason":"stop","text":"cut \ud83d"}]}')
    assert isinstance(verdict, Answered)
    assert verdict.body == rb'{"choices":[{"finish_reason":"stop","text":"cut \ufffd"}]}'


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AnswerTimeout("no whole answer within 3 s"), Retry(Failed("request_timeout", "no whole answer within 3 s."))),
        (ConnectFailed("refused"), Retry(Failed("connection_error", "refused."))),
        (ConnectionLost("broke"), Retry(Failed("connection_error", "broke."))),
        (AnswerTooLarge("70 MB"), Failed("answer_too_large", "70 MB.")),
    ],
)
def test_what_got_no_answer_has_a_code(error: TransportError, expected: Failed | Retry) -> None:
    assert judge(error, "sent", NOW) == expected


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


@pytest.mark.parametrize(("tries", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (2000, 30.0)])
def test_backoff_doubles_up_to_a_limit(tries: int, longest: float) -> None:
    assert backoff(tries, 0.0) == 0.0
    assert backoff(tries, 0.5) == longest / 2


@given(tries=st.integers(1, 5000), chance=st.floats(0, 1, exclude_max=True))
def test_backoff_has_full_jitter_within_its_bounds(tries: int, chance: float) -> None:
    assert 0.0 <= backoff(tries, chance) <= BACKOFF_LIMIT_SECONDS
    assert backoff(tries, chance) <= backoff(tries + 1, chance)


def test_the_number_of_tries_is_recorded_where_there_were_several() -> None:
    failed = Failed("request_timeout", "No answer.")
    assert record_tries(failed, 1) == failed
    assert record_tries(failed, 4) == Failed("request_timeout", "No answer. Tried 4 times.")


def test_an_answer_is_recorded_as_it_is() -> None:
    answered = Answered(500, "id", b"{}", Reading(Usage(), ()))
    assert record_tries(answered, 4) == answered
