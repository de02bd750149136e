"""The switches that one request brings in its body, seen by a client.

A test that relies on a switch of the stub relies on this file: every switch is seen to do what it says.
"""

import asyncio
import json

import aiohttp
import pytest

from fixtures.stub_client import chat, connect, request, stub_client, text_of


@pytest.mark.parametrize(
    ("switches", "status", "header", "content_type", "part"),
    [
        ("status=503", 503, None, "application/json", b'"code":503'),
        ("status=429,retry_after=7", 429, "7", "application/json", b'"Too Many Requests"'),
        ("status=401", 401, None, "application/json", b'{"error":"Unauthorized"}'),
        ("status=502,body=html", 502, None, "text/html", b"502 Bad Gateway"),
        ("status=500,body=empty", 500, None, "application/json", b""),
        ("body=garbage", 200, None, "application/json", b"upstream connect error"),
        ("body=html", 200, None, "text/html", b"<html>"),
    ],
)
async def test_a_status_or_body_asked_for(
    switches: str, status: int, header: str | None, content_type: str, part: bytes
) -> None:
    async with stub_client() as client:
        got, headers, content = await client.post(chat(switches=switches, id="a"))
        assert got == status
        assert headers.get("Retry-After") == header
        assert headers["Content-Type"].startswith(content_type)
        assert part in content
        assert (await client.stub.arrivals()).answered == {}
        assert (await client.stub.stats()).by_status == {status: 1}


async def test_an_empty_answer_has_no_body() -> None:
    async with stub_client() as client:
        status, headers, content = await client.post(chat(switches="body=empty"))
        assert (status, headers["Content-Length"], content) == (200, "0", b"")


async def test_times_counts_the_attempts_of_one_request_alone() -> None:
    async with stub_client() as client:
        body, other = chat("a", "status=503,times=2"), chat("b", "status=503,times=2")
        assert [(await client.post(body))[0] for _ in range(4)] == [503, 503, 200, 200]
        assert (await client.post(other))[0] == 503


async def test_steps_follow_one_another() -> None:
    async with stub_client() as client:
        body = chat("a", "status=503,times=1;reset=after_read,times=1;status=500,times=1")
        assert (await client.post(body))[0] == 503
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.post(body)
        assert [(await client.post(body))[0] for _ in range(2)] == [500, 200]


async def test_a_delay_is_waited_out() -> None:
    # Order instead of time: the quick one overtakes the slow one.
    async with stub_client() as client:
        slow = asyncio.create_task(client.post(chat("slow", "delay=30")))
        await client.stub.wait_in_flight(1)
        assert (await client.post(chat("quick")))[0] == 200
        assert not slow.done()
        await client.stub.abort()
        await slow


@pytest.mark.parametrize(("finish", "reason"), [("abort", "abort"), ("null", None), ("length", "length")])
async def test_a_finish_reason_asked_for(finish: str, reason: str | None) -> None:
    async with stub_client() as client:
        status, _, content = await client.post(chat("a b c d", f"finish={finish}", id="a"))
        assert (status, json.loads(content)["choices"][0]["finish_reason"]) == (200, reason)
        assert text_of(content) == "d c"
        sound = {"a": 1} if finish == "length" else {}
        assert (await client.stub.arrivals()).answered == sound


async def test_a_lone_surrogate_is_an_escape_that_utf8_cannot_hold() -> None:
    async with stub_client() as client:
        _, _, content = await client.post(chat("a", "text=surrogate"))
        assert rb"a\ud83d" in content
        assert text_of(content) == "a\ud83d"


async def test_a_line_separator_stands_raw_in_the_bytes() -> None:
    async with stub_client() as client:
        _, _, content = await client.post(chat("a", "text=line_separator"))
        assert "a\u2028".encode() in content


async def test_a_big_answer_is_whole() -> None:
    async with stub_client() as client:
        status, headers, content = await client.post(chat("a", "size=5MB"))
        assert status == 200
        assert len(content) == int(headers["Content-Length"]) > 5_000_000
        assert set(text_of(content)) == {"a", " "}


async def test_a_truncated_answer_ends_before_its_length() -> None:
    async with stub_client() as client:
        reader, writer = await connect(client.stub)
        writer.write(request(chat("a", "body=truncated", id="a")))
        received = await asyncio.wait_for(reader.read(), 10)
        head, _, content = received.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert head.startswith(b"HTTP/1.1 200")
        assert 0 < len(content) < length
        writer.close()
        with pytest.raises(aiohttp.ClientPayloadError):
            await client.post(chat("a", "body=truncated"))
        assert (await client.stub.arrivals()).answered == {}


async def test_a_reset_instead_of_an_answer() -> None:
    async with stub_client() as client:
        reader, writer = await connect(client.stub)
        writer.write(request(chat("a", "reset=after_read")))
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert (await client.stub.stats()).by_fault == {"reset=after_read": 1}


async def test_a_reset_in_the_midst_of_an_answer() -> None:
    async with stub_client() as client:
        reader, writer = await connect(client.stub)
        writer.write(request(chat("a", "reset=mid_body")))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.readexactly(1_000_000), 10)
        writer.close()


async def test_what_hangs_holds_its_connection_until_the_client_leaves() -> None:
    async with stub_client() as client:
        hanging = asyncio.create_task(client.post(chat("a", "hang")))
        await client.stub.wait_in_flight(1)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        await client.stub.wait_in_flight(0)
        stats = await client.stub.stats()
        assert (stats.by_fault, stats.by_status, stats.disconnected) == ({"hang": 1}, {}, 1)
