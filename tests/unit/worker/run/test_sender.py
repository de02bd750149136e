"""One request until it has an outcome: how often it is tried, what each try sends, how long is waited."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from batchwright.api.defaults import RequestPolicy
from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.attempts import Answered, Failed, Outcome
from batchwright.worker.run.sender import Sender
from batchwright.worker.run.stopping import Stopping, sleep_unless
from batchwright.worker.transport.errors import AnswerTimeout, ConnectionLost, TransportError
from batchwright.worker.transport.protocol import Answer

OK = Answer(200, {}, b'{"choices":[{"finish_reason":"stop"}]}')
BUSY = Answer(503, {}, b'{"error":{}}')


@dataclass
class Replies:
    """A transport that gives one reply after the other, and notes what was sent."""

    replies: Iterator[Answer | TransportError]
    sent: list[tuple[str, bytes, Mapping[str, str], float]] = field(default_factory=list)

    async def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109
        affinity: int | None = None,
    ) -> Answer:
        self.sent.append((path, body, headers, timeout))
        reply = next(self.replies)
        if isinstance(reply, TransportError):
            raise reply
        return reply

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        raise NotImplementedError

    async def get_each(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
    ) -> Sequence[Answer | TransportError]:
        raise NotImplementedError

    async def probe(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        raise NotImplementedError

    async def close(self) -> None:
        pass


async def send(
    *replies: Answer | TransportError, retries: int = 3, key: Path | None = None
) -> tuple[Outcome, Replies, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    transport = Replies(iter(replies))
    policy = RequestPolicy(timedelta(seconds=7), retries, 1, None)
    sender = Sender(transport, policy, ApiKey(key), chance=lambda: 0.5, sleep=sleep)
    return await sender.send("/v1/x", b"body", "line-7"), transport, pauses


async def test_a_good_answer_needs_one_try() -> None:
    outcome, transport, pauses = await send(OK)
    assert isinstance(outcome, Answered)
    assert [(path, body, timeout) for path, body, _, timeout in transport.sent] == [("/v1/x", b"body", 7.0)]
    assert pauses == []


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_there_are_as_many_tries_as_allowed_and_the_last_answer_is_kept(retries: int) -> None:
    outcome, transport, pauses = await send(*[BUSY] * 10, retries=retries)
    assert isinstance(outcome, Answered)
    assert outcome.status == 503
    assert len(transport.sent) == retries + 1
    assert len(pauses) == retries


async def test_a_later_try_may_succeed() -> None:
    outcome, transport, _ = await send(BUSY, ConnectionLost("broke"), OK)
    assert isinstance(outcome, Answered)
    assert outcome.status == 200
    assert len(transport.sent) == 3


async def test_the_last_failure_is_the_one_that_is_told_with_the_number_of_tries() -> None:
    outcome, _, _ = await send(BUSY, ConnectionLost("broke"), AnswerTimeout("late"), retries=2)
    assert outcome == Failed("request_timeout", "late. Tried 3 times.")


async def test_every_try_has_a_request_id_of_its_own_which_the_result_names() -> None:
    outcome, transport, _ = await send(BUSY, BUSY, OK)
    assert [headers["X-Request-Id"] for _, _, headers, _ in transport.sent] == ["line-7-1", "line-7-2", "line-7-3"]
    assert isinstance(outcome, Answered)
    assert outcome.server_request_id == "line-7-3"


async def test_pauses_grow_and_add_to_what_the_server_asks_for() -> None:
    patient = Answer(429, {"retry-after": "5"}, b"{}")
    _, _, pauses = await send(BUSY, BUSY, patient, OK)
    assert pauses == [0.25, 0.5, 6.0]


async def test_the_api_key_of_the_moment_goes_with_each_try(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1")
    _, transport, _ = await send(OK, key=tmp_path / "key")
    assert transport.sent[0][2]["Authorization"] == "Bearer sk-1"


async def test_a_pause_ends_as_soon_as_the_worker_leaves() -> None:
    stopping = asyncio.Event()
    sleep = sleep_unless(stopping)
    await sleep(0.0)
    sleeping = asyncio.ensure_future(sleep(3600.0))
    await asyncio.sleep(0)
    stopping.set()
    with pytest.raises(Stopping):
        await asyncio.wait_for(sleeping, 10)
    with pytest.raises(Stopping):
        await sleep(3600.0)
