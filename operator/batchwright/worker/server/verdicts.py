"""What the end of one try means: done, or to be tried again, and at whose expense. Pure.

The table of it is in docs/failures.md.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import Struct

from batchwright.batchfile.answer import Reading, read_answer
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.result_line import error_body, is_success, without_lone_surrogates
from batchwright.batchfile.undecodable import UNDECODABLE
from batchwright.worker.transport.errors import (
    AnswerTimeout,
    AnswerTooLarge,
    ConnectFailed,
    TransportError,
)
from batchwright.worker.transport.protocol import Answer

REQUEST_TIMEOUT: Final = "request_timeout"
CONNECTION_ERROR: Final = "connection_error"
INVALID_ANSWER: Final = "invalid_answer"
ANSWER_TOO_LARGE: Final = "answer_too_large"

CUT_SHORT: Final = frozenset({"abort", "null", "cancelled"})
"""Finish reasons of an answer whose text is cut: vLLM sends it with 200 when it is shut down (vllm#57082). `cancelled`
is how /v1/responses says it."""

RETRY_AFTER_LIMIT_SECONDS: Final = 120.0
"""A server that asks for more patience is asked again earlier: a wrong date must not hold a line for hours."""


class Kind(Enum):
    """Why a try is worth another one, and at whose expense."""

    UNAVAILABLE = auto()
    """The server is away or has no room. Never charged."""
    BROKEN_OFF = auto()
    """The connection broke, or the answer was cut short. Never charged, but a line that breaks the server is found."""
    PACED = auto()
    """The server asks to be asked more slowly. Never charged."""
    UNAUTHORIZED = auto()
    """The server refuses the key. Never charged."""
    FORBIDDEN = auto()
    """The server refuses the key, or this line: what becomes of the other lines tells which."""
    MODEL_MISSING = auto()
    """The server doesn't serve the model. Final only where it says that it does."""
    CHARGED = auto()
    """The server fails, or the line makes it fail. One of the line's tries, unless nothing else succeeds either."""


_RETRIED: Final = {
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    408: Kind.CHARGED,
    425: Kind.PACED,
    429: Kind.PACED,
    500: Kind.CHARGED,
    502: Kind.CHARGED,
    503: Kind.UNAVAILABLE,
    504: Kind.CHARGED,
}
"""Any other status that is not 2xx is the server's last word on the request, but for a 404 for the model."""

_OVERLOAD: Final = frozenset({408, 429, 503, 504})
_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500
_SHUTTING_DOWN: Final = "cannot schedule new futures after"
"""How the error begins that vLLM (seen in 0.32) answers to all that comes while it shuts down and lets what it has end.
The words are those of Python's thread pool, which vLLM ends first. What it had is answered meanwhile."""


class Answered(Struct, frozen=True):
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

    kind: Kind
    last: Answered | Failed
    after: float | None = None
    """Seconds that the server asked for, None where it said nothing."""
    overload: bool = False
    """Whether it says that the server had no room for the request."""

    @property
    def heard(self) -> bool:
        """Whether the server said anything at all."""
        return isinstance(self.last, Answered) or self.last.code == INVALID_ANSWER

    @property
    def cause(self) -> str:
        """What happened, for people; never anything of the answer's body."""
        if isinstance(self.last, Failed):
            return self.last.message
        return f"The server answered {self.last.status}."


Outcome = Answered | Failed


def judge(result: Answer | TransportError, sent_request_id: str, now: datetime) -> Outcome | Retry:
    """What the end of a try means. `now` is aware of its zone; it is needed for a Retry-After that is a date."""
    if isinstance(result, TransportError):
        return _judge_error(result)
    server_request_id = result.headers.get("x-request-id") or sent_request_id
    if is_success(result.status):
        return _judge_success(result, server_request_id)
    return _judge_refusal(result, server_request_id, now)


def _judge_success(answer: Answer, server_request_id: str) -> Answered | Retry:
    body = without_lone_surrogates(answer.body)
    try:
        reading = read_answer(body)
    except ValueError as error:
        message = f"The server answered {answer.status}, but {error}."
        return Retry(Kind.CHARGED, Failed(INVALID_ANSWER, message))
    if not CUT_SHORT.isdisjoint(reading.finish_reasons):
        cut = ", ".join(sorted(CUT_SHORT.intersection(reading.finish_reasons)))
        message = f"The server answered {answer.status}, but stopped before the end ({cut})."
        return Retry(Kind.BROKEN_OFF, Failed(CONNECTION_ERROR, message))
    return Answered(answer.status, server_request_id, body, reading)


def _judge_refusal(answer: Answer, server_request_id: str, now: datetime) -> Answered | Retry:
    body = error_body(answer.status, answer.body)
    answered = Answered(answer.status, server_request_id, body, Reading(Usage(), ()))
    if answer.status == _NOT_FOUND and _names_the_model(body):
        return Retry(Kind.MODEL_MISSING, answered)
    if answer.status == _SERVER_ERROR and _is_shutting_down(body):
        return Retry(Kind.UNAVAILABLE, answered)
    kind = _RETRIED.get(answer.status)
    if kind is None:
        return answered
    after = retry_after(answer.headers.get("retry-after"), now)
    return Retry(kind, answered, after, overload=answer.status in _OVERLOAD)


def _judge_error(error: TransportError) -> Failed | Retry:
    message = f"{error}."
    if isinstance(error, AnswerTooLarge):
        return Failed(ANSWER_TOO_LARGE, message)
    if isinstance(error, AnswerTimeout):
        return Retry(Kind.CHARGED, Failed(REQUEST_TIMEOUT, message), overload=True)
    kind = Kind.UNAVAILABLE if isinstance(error, ConnectFailed) else Kind.BROKEN_OFF
    return Retry(kind, Failed(CONNECTION_ERROR, message))


class _Told(Struct):
    param: object = None
    code: object = None
    type: object = None
    message: object = None

    @property
    def text(self) -> str:
        return self.message if isinstance(self.message, str) else ""


class _Envelope(_Told):
    error: _Told | None = None


def _names_the_model(body: bytes) -> bool:
    """Whether the body of a 404 says that the model, and not the path, isn't there.

    vLLM names the parameter, OpenAI has a code; older vLLMs have an error without an envelope, and no parameter.
    """
    error = _read_error(body)
    if error.param == "model" or error.code == "model_not_found":
        return True
    return error.type == "NotFoundError" and error.text.startswith("The model ") and "does not exist" in error.text


def _is_shutting_down(body: bytes) -> bool:
    """Whether the body of a 500 says that the server takes no more requests, whatever is in them."""
    return _read_error(body).text.startswith(_SHUTTING_DOWN)


def _read_error(body: bytes) -> _Told:
    """What a body tells of an error; nothing where it is none."""
    try:
        read = msgspec.json.decode(body, type=_Envelope)
    except UNDECODABLE:
        return _Told()
    return read.error or read


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


def record_tries(outcome: Outcome, tries: int, charged: int, broke: int = 0) -> Outcome:
    """Say in an error how often it was tried, where that was more than once, and how many of these tries count.

    `broke`: tries that are held against the line since they broke the connection while the server worked.
    """
    if isinstance(outcome, Answered) or tries <= 1:
        return outcome
    spared = tries - charged - broke
    counted = f", {spared} of them at the expense of the server, which was away or busy" if spared else ""
    breaking = f" {broke} of them broke the connection though the server worked." if broke else ""
    return Failed(outcome.code, f"{outcome.message} Tried {tries} times{counted}.{breaking}")
