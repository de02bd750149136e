"""One inference request from its arrival to its answer, or to whatever the switches make of it."""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Any

from aiohttp import web

from stub import errors, generation, pooling, requests, responses, wire
from stub.answers import Answer, Counts
from stub.arrivals import Arrival
from stub.capacity import QueueFullError
from stub.chance import unit_draw
from stub.delays import Fixed
from stub.errors import ApiError
from stub.state import State
from stub.switches import Step, Switches
from stub.wire import Payload

MAX_BODY = 256 * 1024 * 1024

Answerer = Callable[[Mapping[str, Any], str, str, Step], Answer]

ENDPOINTS: Mapping[str, Answerer] = {
    "/v1/chat/completions": generation.chat_completion,
    "/v1/completions": generation.completion,
    "/v1/responses": responses.response,
    "/v1/embeddings": pooling.embeddings,
    "/v1/score": pooling.score,
    "/v1/rerank": pooling.rerank,
}
_POOLING = frozenset({"/v1/embeddings", "/v1/score", "/v1/rerank"})
_ABORT = Step(finish="abort")
_BROKEN_FINISH = frozenset({"abort", "null"})


async def infer(state: State, request: web.BaseRequest, endpoint: str) -> web.StreamResponse:
    """Handle a POST to one of ENDPOINTS, counted from its first to its last moment."""
    state.stats.enter()
    try:
        return await _infer(state, request, endpoint)
    except asyncio.CancelledError:
        state.stats.disconnected += 1
        raise
    finally:
        state.stats.leave()


def middleware_headers(state: State, request: web.BaseRequest) -> dict[str, str]:
    """Return what vLLM's middleware adds: Vary, and X-Request-Id, which is the client's or a new one."""
    headers = {"Vary": "Origin"}
    if state.settings.request_id_headers:
        headers["X-Request-Id"] = request.headers.get("X-Request-Id") or uuid.uuid4().hex
    return headers


def refusal(state: State, error: ApiError, headers: dict[str, str]) -> web.Response:
    """Turn an error into its answer, and count it."""
    state.stats.by_status[error.status] += 1
    headers.update(error.headers)
    return wire.respond(wire.encode_error(error.status, error.body), headers)


async def _infer(state: State, request: web.BaseRequest, endpoint: str) -> web.StreamResponse:
    if _is_reset_unread(state):
        state.stats.by_fault["reset=before_read"] += 1
        return wire.reset(request)
    headers = middleware_headers(state, request)
    try:
        authorize(state, request)
        if request.content_type != wire.JSON_TYPE:
            raise errors.unsupported_media_type()
        raw = await _read(request)
        return await _Exchange(state, request, endpoint, headers).run(raw)
    except ApiError as error:
        return refusal(state, error, headers)


def authorize(state: State, request: web.BaseRequest) -> None:
    """Check the bearer token where keys are set. Raises ApiError (401)."""
    if not state.settings.api_keys:
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    accepted = [compare_digest(token.encode(), key.encode()) for key in state.settings.api_keys]
    if scheme.lower() != "bearer" or not any(accepted):
        raise errors.unauthorized()


def _is_reset_unread(state: State) -> bool:
    switches = state.requests
    if not switches.steps or switches.steps[0].reset != "before_read":
        return False
    attempt, state.unread = state.unread, state.unread + 1
    return switches.step_for(attempt, "*").reset == "before_read"


async def _read(request: web.BaseRequest) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            raise errors.too_large(MAX_BODY)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _check_length(body: Mapping[str, Any], counts: Counts, longest: int) -> None:
    """Refuse what the model can't hold. Raises ApiError (400)."""
    if counts.prompt > longest:
        raise errors.too_long(longest)
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        limit = requests.whole(body, name)
        if limit is not None and limit > longest:
            message = (
                f"{name}={limit} cannot be greater than max_model_len={longest}. Please request fewer output tokens."
            )
            raise errors.bad_request(message, param=name, value=limit)


class _Exchange:
    """The part of a request's life after its body was read."""

    def __init__(self, state: State, request: web.BaseRequest, endpoint: str, headers: dict[str, str]) -> None:
        self._state = state
        self._request = request
        self._endpoint = endpoint
        self._headers = headers
        self._request_id = request.headers.get("X-Request-Id")

    async def run(self, raw: bytes) -> web.StreamResponse:
        state = self._state
        call = requests.read_call(raw)
        switches = state.requests if call.switches is None else call.switches
        priority = requests.priority_of(self._request.headers.get("X-Vllm-Priority"), call.body)
        attempt = self._arrive(call.key, priority)
        step = switches.step_for(attempt, call.key)
        requests.refuse_stream(call.body)
        pooling_endpoint = self._endpoint in _POOLING
        model = requests.check_model(call.body, state.settings.models, pooling=pooling_endpoint)
        # Made before the wait, so that a body at fault is refused at once, as by vLLM.
        answer = self._answer(call.body, model, step)
        _check_length(call.body, answer.counts, state.settings.max_model_len)
        if state.settings.drain:
            state.log.turn_away(call.key)
            if state.settings.drain_error:
                raise errors.shutting_down()
            return self._aborted(call.body, model)
        came = time.monotonic()
        try:
            await state.capacity.take(priority)
        except QueueFullError:
            raise errors.queue_full(state.settings.queue_status, state.settings.queue_retry_after) from None
        began = time.monotonic()
        try:
            if step.hang:
                return await self._hang()
            outcome = await state.flight.wait(self._delay(switches, step, call.key, attempt))
            if outcome == "aborted":
                return self._aborted(call.body, model)
            response = await self._finish(step, answer, call.key)
            state.stats.left_slot(queued=began - came, total=time.monotonic() - came)
            return response
        finally:
            state.capacity.give_back()

    def _arrive(self, key: str, priority: int) -> int:
        log = self._state.log
        attempt = log.attempts(key)
        in_flight = self._state.stats.in_flight
        log.arrive(Arrival(time.time(), key, self._request_id, self._endpoint, priority, attempt, in_flight))
        return attempt

    def _answer(self, body: Mapping[str, Any], model: str, step: Step) -> Answer:
        request_id = self._request_id or self._headers.get("X-Request-Id") or uuid.uuid4().hex
        return ENDPOINTS[self._endpoint](body, model, request_id, step)

    def _delay(self, switches: Switches, step: Step, key: str, attempt: int) -> float:
        delay = self._state.delay if step.delay is None else step.delay
        if isinstance(delay, Fixed):
            return delay.seconds
        return delay.seconds_at(unit_draw(switches.seed, key, attempt, "delay"))

    async def _hang(self) -> web.StreamResponse:
        self._state.stats.by_fault["hang"] += 1
        await self._state.flight.hang()
        return wire.reset(self._request)

    def _aborted(self, body: Mapping[str, Any], model: str) -> web.StreamResponse:
        if self._endpoint in _POOLING:
            raise ApiError(503, errors.error_body(503, "Server shutting down"))
        return self._send(self._answer(body, model, _ABORT), _ABORT)

    async def _finish(self, step: Step, answer: Answer, key: str) -> web.StreamResponse:
        stats = self._state.stats
        if step.retry_after is not None:
            self._headers["Retry-After"] = step.retry_after
        if step.reset == "after_read":
            stats.by_fault["reset=after_read"] += 1
            return wire.reset(self._request)
        instead = wire.replacement(step)
        if step.reset == "mid_body" or step.body == "truncated":
            payload = instead or Payload(200, wire.encode_answer(answer.body, step))
            return await self._break_off(step, payload)
        if instead is not None:
            if step.body is not None:
                stats.by_fault[f"body={step.body}"] += 1
            stats.by_status[instead.status] += 1
            return wire.respond(instead, self._headers)
        if step.finish not in _BROKEN_FINISH:
            self._state.log.answer(key)
        return self._send(answer, step)

    def _send(self, answer: Answer, step: Step) -> web.Response:
        stats = self._state.stats
        if step.finish in _BROKEN_FINISH:
            stats.by_fault[f"finish={step.finish}"] += 1
        stats.by_status[200] += 1
        stats.answered(answer.counts, answer.finish)
        return wire.respond(Payload(200, wire.encode_answer(answer.body, step)), self._headers)

    async def _break_off(self, step: Step, payload: Payload) -> web.StreamResponse:
        self._state.stats.by_fault["reset=mid_body" if step.reset else "body=truncated"] += 1
        await wire.send_half(self._request, payload, self._headers)
        return wire.reset(self._request) if step.reset else wire.close(self._request)
