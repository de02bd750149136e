"""What one try of a request means: done, or try again and when. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from batchwright.batchfile.answer import Reading, read_answer
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.result_line import error_body, is_success, without_lone_surrogates
from batchwright.worker.transport.errors import AnswerTimeout, AnswerTooLarge, TransportError
from batchwright.worker.transport.protocol import Answer

REQUEST_TIMEOUT: Final = "request_timeout"
CONNECTION_ERROR: Final = "connection_error"
INVALID_ANSWER: Final = "invalid_answer"
ANSWER_TOO_LARGE: Final = "answer_too_large"

RETRIED_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Any other status that is not 2xx is the server's last word on the request."""

CUT_SHORT: Final = frozenset({"abort", "null", "cancelled"})
"""Finish reasons of an answer whose text is cut: vLLM sends it with 200 when it is shut down (vllm#57082). `cancelled`
is how /v1/responses says it."""

BACKOFF_BASE_SECONDS: Final = 0.5
BACKOFF_LIMIT_SECONDS: Final = 30.0
RETRY_AFTER_LIMIT_SECONDS: Final = 120.0
"""A server that asks for more patience is asked again earlier: a wrong date must not hold a line for hours."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The server's last word, of any status. `body` is a whole JSON text."""

    status: int
    server_request_id: str
    body: bytes
    reading: Reading


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer came that could be kept."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Worth another try. `last` is what is recorded when there is none left."""

    last: Answered | Failed
    after: float | None = None
    """Seconds that the server asked for, None where it said nothing."""


Outcome = Answered | Failed


def judge(result: Answer | TransportError, sent_request_id: str, now: datetime) -> Outcome | Retry:
    """What the end of a try means. `now` is aware of its zone; it is needed for a Retry-After that is a date."""
    if isinstance(result, TransportError):
        return _judge_error(result)
    server_request_id = result.headers.get("x-request-id") or sent_request_id
    if is_success(result.status):
        return _judge_success(result, server_request_id)
    answered = Answered(result.status, server_request_id, error_body(result.status, result.body), Reading(Usage(), ()))
    if result.status in RETRIED_STATUSES:
        return Retry(answered, retry_after(result.headers.get("retry-after"), now))
    return answered


def _judge_success(answer: Answer, server_request_id: str) -> Answered | Retry:
    body = without_lone_surrogates(answer.body)
    try:
        reading = read_answer(body)
    except ValueError as error:
        return Retry(Failed(INVALID_ANSWER, f"The server answered {answer.status}, but {error}."))
    cut = CUT_SHORT.intersection(reading.finish_reasons)
    if cut:
        message = f"The server answered {answer.status}, but stopped before the end ({', '.join(sorted(cut))})."
        return Retry(Failed(CONNECTION_ERROR, message))
    return Answered(answer.status, server_request_id, body, reading)


def _judge_error(error: TransportError) -> Failed | Retry:
    if isinstance(error, AnswerTooLarge):
        return Failed(ANSWER_TOO_LARGE, f"{error}.")
    code = REQUEST_TIMEOUT if isinstance(error, AnswerTimeout) else CONNECTION_ERROR
    return Retry(Failed(code, f"{error}."))


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header: seconds or a date (RFC 9110, 10.2.3); None where it holds neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        seconds = float(text)
    else:
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_LIMIT_SECONDS)


def backoff(tries: int, chance: float) -> float:
    """Seconds to wait after `tries` tries: full jitter, so that many that failed together don't come back together.

    `chance` is evenly distributed over [0, 1).
    """
    return chance * min(BACKOFF_LIMIT_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(tries - 1, 64))


def record_tries(outcome: Outcome, tries: int) -> Outcome:
    """Say in the error how often it was tried, where that was more than once."""
    if isinstance(outcome, Failed) and tries > 1:
        return Failed(outcome.code, f"{outcome.message} Tried {tries} times.")
    return outcome
