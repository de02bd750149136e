"""Answers that share a budget, from a real server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from batchwright.worker.transport import Answer, AnswerTimeout, ConnectionLost, TransportSettings
from batchwright.worker.transport.aiohttp_transport import AiohttpTransport
from batchwright.worker.transport.answer_body import AnswerBodies
from batchwright.worker.transport.answer_budget import AnswerBudget
from integration.worker.transport.scripted_server import Reply, answer, chunked, reply, scripted_server

KIBIBYTE, MEBIBYTE = 1024, 1024 * 1024
MAX_BYTES = 32 * MEBIBYTE


def in_chunks(body: bytes) -> Reply:
    size = 100 * KIBIBYTE
    return chunked(*(body[start : start + size] for start in range(0, len(body), size)))


SHAPES = [pytest.param(answer, id="with a length"), pytest.param(in_chunks, id="in chunks")]
Shape = Callable[[bytes], Reply]


@asynccontextmanager
async def transport_with(budget: AnswerBudget, *replies: Reply, max_connections: int = 8) -> AsyncIterator["Posting"]:
    async with scripted_server(*replies) as server:
        settings = TransportSettings(server.url, max_connections)
        transport = AiohttpTransport(settings, bodies=AnswerBodies(MAX_BYTES, budget))
        try:
            yield lambda seconds: asyncio.create_task(transport.post("/", b"{}", headers={}, timeout=seconds))
        finally:
            await transport.close()


Posting = Callable[[float], "asyncio.Task[Answer]"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_many_large_answers_stay_within_the_budget_and_all_come(shape: Shape) -> None:
    budget = AnswerBudget(MEBIBYTE)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, budget.held)
            await asyncio.sleep(0)

    body = b"x" * (700 * KIBIBYTE)
    async with transport_with(budget, shape(body)) as post:
        watching = asyncio.create_task(watch())
        answers = await asyncio.gather(*(post(20) for _ in range(24)))
        watching.cancel()
    assert [len(one.body) for one in answers] == [len(body)] * 24
    assert len(body) <= most <= MEBIBYTE + len(body)
    assert budget.held == 0


@pytest.mark.parametrize("shape", SHAPES)
async def test_waiting_for_the_budget_is_no_part_of_the_deadline(shape: Shape) -> None:
    budget = AnswerBudget(MEBIBYTE)
    with budget.holding(aiohttp.streams.EMPTY_PAYLOAD) as earlier:
        assert earlier.take_at_once(MEBIBYTE)
        async with transport_with(budget, shape(b"x" * MEBIBYTE)) as post:
            call = post(1)
            await asyncio.sleep(1.5)
            assert not call.done()
            budget.give_back(earlier)
            assert len((await call).body) == MEBIBYTE


async def test_after_the_wait_the_deadline_goes_on() -> None:
    budget = AnswerBudget(MEBIBYTE)
    stuck = reply(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{", then="hang")
    with budget.holding(aiohttp.streams.EMPTY_PAYLOAD) as earlier:
        assert earlier.take_at_once(MEBIBYTE)
        async with transport_with(budget, stuck) as post:
            call = post(0.3)
            await asyncio.sleep(0.5)
            budget.give_back(earlier)
            with pytest.raises(AnswerTimeout):
                await call
    assert budget.held == 0, "who failed gives back what it took"


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_answer_that_stops_in_its_midst_is_given_up_for_those_that_wait(shape: Shape) -> None:
    budget = AnswerBudget(MEBIBYTE, stall_seconds=0.5)
    stopped = reply(b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 100_000, then="hang")
    async with transport_with(budget, stopped, shape(b"x" * 700 * KIBIBYTE)) as post:
        first = post(600)
        while not budget.held:  # noqa: ASYNC110 - nothing tells of a change
            await asyncio.sleep(0.01)
        answers = await asyncio.gather(*(post(20) for _ in range(8)))
        assert [len(one.body) for one in answers] == [700 * KIBIBYTE] * 8
        with pytest.raises(ConnectionLost, match="kept others waiting"):
            await first


async def test_small_answers_need_no_budget() -> None:
    budget = AnswerBudget(1)
    with budget.holding(aiohttp.streams.EMPTY_PAYLOAD) as earlier:
        assert earlier.take_at_once(1)
        async with transport_with(budget, answer(b"x" * 16 * KIBIBYTE), in_chunks(b"x" * 16 * KIBIBYTE)) as post:
            assert [len((await post(20)).body) for _ in range(2)] == [16 * KIBIBYTE] * 2


async def test_what_waits_stays_with_the_server() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MAX_BYTES)
        while sent < MAX_BYTES:
            writer.write(b"x" * MEBIBYTE)
            await writer.drain()
            sent += MEBIBYTE
        writer.close()

    budget = AnswerBudget(MEBIBYTE)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    transport = AiohttpTransport(
        TransportSettings(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 1),
        bodies=AnswerBodies(MAX_BYTES, budget),
    )
    with budget.holding(aiohttp.streams.EMPTY_PAYLOAD) as earlier:
        assert earlier.take_at_once(MEBIBYTE)
        call = asyncio.create_task(transport.post("/", b"{}", headers={}, timeout=20))
        await asyncio.sleep(0.5)
        assert sent < MAX_BYTES / 2, "the socket's buffers are full, and nobody empties them"
        budget.give_back(earlier)
        assert len((await call).body) == MAX_BYTES
    await transport.close()
    server.close()
