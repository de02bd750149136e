"""What is read of a server's answer: whether it is whole JSON, its usage and why it finished. Nothing else is decoded.

Usage has two spellings: prompt_tokens and completion_tokens (chat/completions, completions, embeddings), and
input_tokens and output_tokens (responses).
"""

from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert
from msgspec.json import Decoder

from batchwright.batchfile.counts import Usage
from batchwright.batchfile.undecodable import UNDECODABLE

S = TypeVar("S", bound=Struct)

MAX_COUNT: Final = 2**53
"""Tokens of one answer. No answer has more, and every reader of JSON has whole numbers up to here (RFC 8259, 6)."""


class _PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    input_tokens_details: _PromptDetails | None = None
    output_tokens_details: _CompletionDetails | None = None


class _Choice(Struct, gc=False):
    finish_reason: str | UnsetType | None = UNSET


class _IncompleteDetails(Struct, gc=False):
    reason: str | None = None


class _Answer(Struct, gc=False):
    usage: _Usage | None = None
    choices: list[_Choice] | None = None
    status: str | None = None
    incomplete_details: _IncompleteDetails | None = None


class Reading(Struct, frozen=True, gc=False):
    """What an answer says of itself."""

    usage: Usage
    finish_reasons: tuple[str, ...]
    """One for each choice that has one; a null becomes the word `null`. Empty where the endpoint has none."""


_typed = Decoder(_Answer)
_anything = Decoder()


def read_answer(body: bytes) -> Reading:
    """Read a 2xx answer.

    Raises:
        ValueError: the body is empty, cut, or no JSON object.
    """
    if not body.isascii():
        _check_utf8(body)
    try:
        answer = _typed.decode(body)
    except UNDECODABLE:
        return _read_unusual(body)
    return Reading(_usage(answer.usage), _finish_reasons(answer))


def _read_unusual(body: bytes) -> Reading:
    """A JSON object with parts that are not as expected is still an answer: those parts are unknown, the others count.

    Above all a finish_reason must not get lost over an odd usage: it tells an answer that was cut.
    """
    try:
        value: Any = _anything.decode(body)
    except UNDECODABLE as error:
        raise ValueError("the answer is empty" if not body.strip() else "the answer is no whole JSON") from error
    if not isinstance(value, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004 (one error for every bad answer)
    choices = value.get("choices")
    status = value.get("status")
    answer = _Answer(
        usage=_part(value.get("usage"), _Usage),
        choices=[_part(choice, _Choice) or _Choice() for choice in choices] if isinstance(choices, list) else None,
        status=status if isinstance(status, str) else None,
        incomplete_details=_part(value.get("incomplete_details"), _IncompleteDetails),
    )
    return Reading(_usage(answer.usage), _finish_reasons(answer))


def _part(value: object, kind: type[S]) -> S | None:
    try:
        return convert(value, kind)
    except ValidationError:
        return None


def _check_utf8(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise ValueError("the answer is not valid UTF-8") from error


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return Usage()
    prompt = usage.prompt_tokens_details or usage.input_tokens_details
    completion = usage.completion_tokens_details or usage.output_tokens_details
    return Usage(
        input_tokens=_count(usage.prompt_tokens, usage.input_tokens),
        cached_tokens=_count(prompt.cached_tokens) if prompt else None,
        output_tokens=_count(usage.completion_tokens, usage.output_tokens),
        reasoning_tokens=_count(completion.reasoning_tokens) if completion else None,
        total_tokens=_count(usage.total_tokens),
    )


def _count(count: int | None, other: int | None = None) -> int | None:
    """The first one that can be a count; what a server says beyond that is as good as nothing."""
    if count is not None and 0 <= count <= MAX_COUNT:
        return count
    return None if other is None else _count(other)


def _finish_reasons(answer: _Answer) -> tuple[str, ...]:
    if answer.choices:
        # A list is quicker than a generator, which counts for each answer.
        reasons = [choice.finish_reason for choice in answer.choices]
        return tuple([reason or "null" for reason in reasons if reason is not UNSET])
    if answer.incomplete_details is not None and answer.incomplete_details.reason:
        return (answer.incomplete_details.reason,)
    return (answer.status,) if answer.status else ()
