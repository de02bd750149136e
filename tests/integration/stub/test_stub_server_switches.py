"""The switches of the whole server, seen by a client."""

import asyncio
import json

import aiohttp
import httpx
import pytest

from fixtures.stub_client import CHAT, chat, connect, request, stub_client, text_of
from stub.texts import answer_to


async def test_switches_of_the_server_hold_for_requests_without_their_own() -> None:
    async with stub_client(requests="status=503,times=1") as client:
        assert [(await client.post(chat("a")))[0] for _ in range(2)] == [503, 200]
        assert (await client.post(chat("b", "")))[0] == 200
        await client.stub.switch(requests="")
        assert (await client.post(chat("c")))[0] == 200
        await client.stub.restore()
        assert (await client.post(chat("d")))[0] == 503


async def test_a_seeded_fraction_fails_the_same_requests_again() -> None:
    async with stub_client(requests="status=500,fraction=0.2,seed=3") as client:

        async def failing() -> set[int]:
            answers = await asyncio.gather(*(client.post(chat(id=f"line-{n}")) for n in range(300)))
            return {n for n, (status, _, _) in enumerate(answers) if status == 500}

        first = await failing()
        await client.stub.reset()
        assert 30 < len(first) < 90
        assert await failing() == first


async def test_a_bad_switch_is_refused_and_changes_nothing() -> None:
    async with stub_client(slots=3) as client:
        with pytest.raises(httpx.HTTPStatusError, match=r"`\$.slots`"):
            await client.stub.switch(delay="1", slots=0)
        _, content = await client.get("/stub/switches")
        assert (json.loads(content)["slots"], json.loads(content)["delay"]) == (3, "0")


async def test_a_reset_before_the_request_is_read() -> None:
    async with stub_client(requests="reset=before_read,times=2") as client:
        reader, writer = await connect(client.stub)
        # The body never comes; the server does not wait for it.
        writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: stub\r\nContent-Length: 100\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 10)
        writer.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.post(chat())
        assert (await client.post(chat()))[0] == 200
        assert (await client.stub.arrivals()).total == 1


async def test_slots_bound_what_runs_and_a_full_queue_answers_429() -> None:
    async with stub_client(delay="30", slots=2, queue=1, queue_retry_after="1") as client:
        tasks = []
        for number in range(3):
            tasks.append(asyncio.create_task(client.post(chat(str(number)))))
            await client.stub.wait_in_flight(number + 1)
        stats = await client.stub.stats()
        assert (stats.running, stats.waiting) == (2, 1)
        status, headers, _ = await client.post(chat("too many"))
        assert (status, headers["Retry-After"]) == (429, "1")
        await client.stub.switch(queue_status=503)
        assert (await client.post(chat("too many")))[0] == 503
        await client.stub.switch(slots=None)
        await client.stub.abort()
        assert [status for status, _, _ in await asyncio.gather(*tasks)] == [200] * 3


async def test_interactive_requests_overtake_batch_requests_in_the_queue() -> None:
    async with stub_client(slots=1) as client:
        order: list[str] = []

        async def ask(name: str, priority: str, switches: str = "delay=0.01") -> None:
            await client.post(chat(name, switches), X_Vllm_Priority=priority)
            order.append(name)

        tasks = []
        for number, (name, priority) in enumerate((("first", "0"), ("batch", "10"), ("interactive", "0"))):
            switches = "delay=30" if name == "first" else "delay=0.01"
            tasks.append(asyncio.create_task(ask(name, priority, switches)))
            await client.stub.wait_in_flight(number + 1)
        await client.stub.abort()
        await asyncio.gather(*tasks)
        assert order == ["first", "interactive", "batch"]
        last = (await client.stub.arrivals()).last
        assert [one.priority for one in last] == [0, 10, 0]


async def test_freezing_holds_every_answer_while_health_is_good() -> None:
    async with stub_client(freeze=True) as client:
        task = asyncio.create_task(client.post(chat()))
        await client.stub.wait_in_flight(1)
        assert (await client.get("/health"))[0] == 200
        done, _ = await asyncio.wait([task], timeout=0.2)
        assert not done
        await client.stub.switch(freeze=False)
        assert (await task)[0] == 200


async def test_an_abort_answers_all_in_flight_with_a_cut_text() -> None:
    async with stub_client(delay="30") as client:
        tasks = [asyncio.create_task(client.post(chat("a b c d", id=str(n)))) for n in range(5)]
        await client.stub.wait_in_flight(5)
        assert await client.stub.abort() == 5
        for status, _, content in await asyncio.gather(*tasks):
            assert (status, json.loads(content)["choices"][0]["finish_reason"]) == (200, "abort")
            assert text_of(content) == "d c"
        assert (await client.stub.arrivals()).answered == {}


async def test_draining_refuses_connections_and_aborts_what_comes_on_old_ones() -> None:
    async with stub_client() as client:
        slow = asyncio.create_task(client.post(chat("in flight", "delay=0.3")))
        await client.stub.wait_in_flight(1)
        reader, writer = await connect(client.stub)
        await client.stub.switch(drain=True)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.wait_for(connect(client.stub), 10)
        writer.write(b"GET /health HTTP/1.1\r\nHost: stub\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).startswith(b"HTTP/1.1 503")
        writer.write(request(chat("a b")))
        received = await asyncio.wait_for(reader.readuntil(b'"completion_tokens_details":null}}'), 10)
        content = received.partition(b"\r\n\r\n")[2]
        assert json.loads(content)["choices"][0]["finish_reason"] == "abort"
        writer.close()
        assert text_of((await slow)[2]) == answer_to("in flight")
        arrivals = await client.stub.arrivals()
        assert (arrivals.total, list(arrivals.turned_away.values())) == (2, [1])
        await client.stub.switch(drain=False)
        assert (await client.post(chat()))[0] == 200


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async with stub_client(idle_close=0.1) as client:
        reader, writer = await connect(client.stub)
        writer.write(request(chat("a")))
        assert (await asyncio.wait_for(reader.readuntil(b"}}"), 10)).startswith(b"HTTP/1.1 200")
        writer.write(request(chat("b", "delay=0.5")))
        received = await asyncio.wait_for(reader.read(), 10)
        assert b'"content":"b"' in received
        writer.close()


async def test_health_can_fail_alone() -> None:
    async with stub_client(health=503) as client:
        assert (await client.get("/health"))[0] == 503
        assert (await client.post(chat()))[0] == 200
