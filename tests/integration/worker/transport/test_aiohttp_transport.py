"""The transport against a real server on loopback that answers well, badly, or not at all."""

import asyncio
import gzip
import socket
import traceback
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from batchwright.worker.transport import (
    Answer,
    AnswerTimeout,
    AnswerTooLarge,
    ConnectFailed,
    ConnectionLost,
    Transport,
    TransportError,
    TransportSettings,
    open_transport,
)
from integration.worker.transport.scripted_server import (
    Reply,
    ScriptedServer,
    answer,
    chunked,
    completion,
    reply,
    scripted_server,
)

PATH = "/v1/chat/completions"
MEBIBYTE = 1024 * 1024


@asynccontextmanager
async def transport_to(url: str, **settings: Any) -> AsyncIterator[Transport]:
    transport = open_transport(TransportSettings(url, **{"max_connections": 4, **settings}))
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def pair(*replies: Reply, **settings: Any) -> AsyncIterator[tuple[ScriptedServer, Transport]]:
    async with scripted_server(*replies) as server, transport_to(server.url, **settings) as transport:
        yield server, transport


async def post(transport: Transport, body: bytes = b"{}", **changes: Any) -> Answer:
    return await transport.post(PATH, body, **{"headers": {}, "timeout": 20, **changes})


class TestBytes:
    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b'{ "messages" :[ ],"a":1.0e3, "a":"\\u00fc" }\r', id="odd JSON"),
            pytest.param("{'ü': '✓'}".encode(), id="UTF-8"),
            pytest.param(b"", id="empty"),
            pytest.param(bytes(range(256)) * 4096, id="1 MiB, every byte"),
            pytest.param(b"x" * (10 * MEBIBYTE), id="10 MiB"),
        ],
    )
    async def test_a_body_arrives_as_it_was_given(self, body: bytes) -> None:
        async with pair(answer()) as (server, transport):
            await post(transport, body)
            assert server.received[0].body == body
            assert server.received[0].headers["content-length"] == str(len(body))

    @pytest.mark.parametrize("size", [0, 1, 64 * 1024, 3 * MEBIBYTE, 24 * MEBIBYTE])
    async def test_an_answer_is_kept_as_it_was_sent(self, size: int) -> None:
        body = completion("x" * size)
        async with pair(answer(body)) as (_, transport):
            assert (await post(transport)).body == body

    async def test_chunks_are_put_together(self) -> None:
        async with pair(chunked(b'{"a":', b"1", b"}")) as (_, transport):
            assert (await post(transport)).body == b'{"a":1}'

    @pytest.mark.parametrize(("coding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
    async def test_a_compressed_answer_is_decompressed(self, coding: str, encode: Any) -> None:
        body = completion("ü" * MEBIBYTE)
        async with pair(answer(encode(body), headers={"Content-Encoding": coding})) as (_, transport):
            assert (await post(transport)).body == body


class TestRequest:
    @pytest.mark.parametrize(
        ("base", "path", "target"),
        [
            ("", "/v1/chat/completions", "/v1/chat/completions"),
            ("/", "/v1/models", "/v1/models"),
            ("/team/llm", "/v1/models", "/team/llm/v1/models"),
            ("/team/llm/v1/", "/v1/models", "/team/llm/v1/models"),
            ("/a%2Fb", "/health", "/a%2Fb/health"),
        ],
    )
    async def test_the_path_follows_the_prefix_of_the_base_url(self, base: str, path: str, target: str) -> None:
        async with scripted_server(answer()) as server, transport_to(server.url + base) as transport:
            await transport.get(path, timeout=20)
            assert server.received[0].target == target

    async def test_headers_of_a_call_win_over_the_static_ones_and_these_over_the_defaults(self) -> None:
        static = {"accept": "application/json; q=1", "X-Team": "a", "X-Both": "static"}
        async with pair(answer(), headers=static) as (server, transport):
            await post(transport, headers={"x-both": "call", "X-Request-Id": "r-1"})
            sent = server.received[0].headers
            assert sent["content-type"] == "application/json"
            assert sent["accept"] == "application/json; q=1"
            assert sent["x-team"] == "a"
            assert sent["x-both"] == "call"
            assert sent["x-request-id"] == "r-1"

    async def test_a_header_with_a_line_break_is_refused_before_it_is_sent(self) -> None:
        async with pair(answer()) as (server, transport):
            with pytest.raises(ValueError, match="header") as caught:
                await post(transport, headers={"Authorization": "Bearer s3cret\r\nX: y"})
            assert "s3cret" not in str(caught.value)
            assert server.received == []

    async def test_cookies_are_not_sent_back(self) -> None:
        async with pair(answer(headers={"Set-Cookie": "a=b; Path=/"})) as (server, transport):
            await post(transport)
            await post(transport)
            assert "cookie" not in server.received[1].headers

    async def test_the_proxies_of_the_environment_count_only_when_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with scripted_server(answer(b"proxy")) as proxy, scripted_server(answer(b"server")) as server:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            async with transport_to(server.url) as transport:
                assert (await post(transport)).body == b"server"
            async with transport_to(server.url, trust_environment=True) as transport:
                assert (await post(transport)).body == b"proxy"
            assert proxy.received[0].target == server.url + PATH


class TestAnswer:
    @pytest.mark.parametrize("status", [200, 201, 301, 307, 400, 401, 404, 408, 413, 429, 500, 502, 503, 504])
    async def test_any_status_is_an_answer_and_is_asked_for_once(self, status: int) -> None:
        reply_ = answer(b'{"error":1}', status=status, headers={"Location": "/elsewhere"})
        async with pair(reply_) as (server, transport):
            for call in (post(transport), transport.get(PATH, timeout=20)):
                got = await call
                assert (got.status, got.body) == (status, b'{"error":1}')
            assert len(server.received) == 2

    async def test_headers_are_found_by_names_in_lower_case(self) -> None:
        headers = {"X-Request-ID": "r-7", "Retry-After": "3", "CONTENT-TYPE": "application/json"}
        async with pair(answer(headers=headers)) as (_, transport):
            got = (await post(transport)).headers
            assert got["x-request-id"] == "r-7"
            assert got["retry-after"] == "3"
            assert got["content-type"] == "application/json"

    async def test_an_answer_that_comes_before_the_body_was_read_counts(self) -> None:
        early = reply(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}", before_body=True, then="hang")
        async with pair(early) as (_, transport):
            assert (await post(transport, b"x" * (10 * MEBIBYTE))).status == 413


class TestPool:
    async def test_a_connection_is_used_again(self) -> None:
        async with pair(answer()) as (server, transport):
            for _ in range(3):
                await post(transport)
            assert [r.connection for r in server.received] == [1, 1, 1]

    async def test_an_idle_connection_is_dropped_before_the_server_drops_it(self) -> None:
        async with pair(answer(), keepalive_seconds=0.05) as (server, transport):
            await post(transport)
            await asyncio.sleep(0.2)
            await post(transport)
            assert [r.connection for r in server.received] == [1, 2]

    @pytest.mark.parametrize("then", ["close", "reset"])
    async def test_a_connection_that_the_server_ended_while_idle_is_not_used_again(self, then: Any) -> None:
        async with pair(answer(then=then), answer()) as (server, transport):
            await post(transport)
            await server.until_closed()
            await asyncio.sleep(0.05)
            assert (await post(transport)).status == 200
            assert [r.connection for r in server.received] == [1, 2]

    async def test_no_more_connections_than_asked_are_opened_and_the_others_wait(self) -> None:
        slow = reply(b"HTTP/1.1 200 OK\r\n", b"Content-Length: 0\r\n\r\n", pause=0.02)
        async with pair(slow, max_connections=3) as (server, transport):
            answers = await asyncio.gather(*(post(transport) for _ in range(12)))
            assert [a.status for a in answers] == [200] * 12
            assert server.connections == 3

    async def test_as_many_requests_as_connections_are_in_flight_together(self) -> None:
        async with pair(reply(then="hang"), max_connections=150) as (server, transport):
            calls = [asyncio.create_task(post(transport)) for _ in range(150)]
            await server.until_received(150)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def test_a_get_goes_through_while_every_connection_of_the_pool_hangs(self) -> None:
        hang = reply(then="hang")
        async with pair(hang, hang, answer(b"alive"), max_connections=2) as (server, transport):
            calls = [asyncio.create_task(post(transport)) for _ in range(2)]
            await server.until_received(2)
            assert (await transport.get("/health", timeout=20)).body == b"alive"
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def test_a_get_uses_a_new_connection_each_time(self) -> None:
        async with pair(answer()) as (server, transport):
            for _ in range(3):
                await transport.get("/health", timeout=20)
            assert [r.connection for r in server.received] == [1, 2, 3]
            await server.until_closed()


BROKEN_ANSWERS = {
    "closed before the answer": reply(then="close"),
    "reset before the answer": reply(then="reset"),
    "cut in the head": reply(b"HTTP/1.1 200 OK\r\nContent-Le", then="close"),
    "cut in the body": reply(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":', then="close"),
    "reset in the body": reply(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b'"a":', pause=0.05, then="reset"),
    "cut between chunks": chunked(b'{"a":', end=b"", then="close"),
    "cut in a chunk": chunked(b'{"a":', end=b'9\r\n"b', then="close"),
    "bad chunk size": chunked(b'{"a":', end=b"zz\r\n", then="close"),
    "not HTTP": reply(b"220 mail.example ESMTP\r\n", then="close"),
    "damaged gzip": answer(b"this is not gzip", headers={"Content-Encoding": "gzip"}),
}


class TestLostConnection:
    @pytest.mark.parametrize("method", ["POST", "GET"])
    @pytest.mark.parametrize("broken", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS)
    async def test_a_broken_answer_is_a_lost_connection_after_one_attempt(self, broken: Reply, method: str) -> None:
        async with pair(broken, answer()) as (server, transport):
            with pytest.raises(ConnectionLost):
                await (post(transport) if method == "POST" else transport.get(PATH, timeout=20))
            assert len(server.received) == 1

    async def test_the_request_after_a_broken_answer_uses_a_new_connection(self) -> None:
        async with pair(BROKEN_ANSWERS["bad chunk size"], answer()) as (server, transport):
            with pytest.raises(ConnectionLost):
                await post(transport)
            assert (await post(transport)).status == 200
            assert [r.connection for r in server.received] == [1, 2]

    async def test_a_kept_connection_that_closes_under_a_request_is_a_lost_connection(self) -> None:
        async with pair(answer(), reply(then="close"), answer()) as (server, transport):
            await post(transport)
            with pytest.raises(ConnectionLost):
                await post(transport)
            assert [r.connection for r in server.received] == [1, 1]

    async def test_closing_the_transport_loses_what_is_in_flight(self) -> None:
        async with pair(reply(then="hang")) as (server, transport):
            call = asyncio.create_task(post(transport))
            await server.until_received(1)
            await transport.close()
            with pytest.raises(ConnectionLost):
                await call


class TestNoConnection:
    async def test_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        async with transport_to(f"http://127.0.0.1:{port}") as transport:
            with pytest.raises(ConnectFailed, match=rf"127\.0\.0\.1:{port}: Connection refused"):
                await post(transport)

    async def test_no_such_host(self) -> None:
        async with transport_to("http://nosuch.invalid:8000") as transport:
            with pytest.raises(ConnectFailed, match=r"no address found for nosuch\.invalid:8000"):
                await post(transport, timeout=60)

    async def test_a_host_that_drops_packets_shows_before_the_requests_own_deadline(self) -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            waiting = [_start_connecting(full.getsockname()) for _ in range(4)]
            async with transport_to(f"http://127.0.0.1:{full.getsockname()[1]}", connect_seconds=0.2) as transport:
                with pytest.raises(ConnectFailed, match=r"within 0\.2 s"):
                    await post(transport, timeout=60)
            for one in waiting:
                one.close()

    async def test_closed_transport(self) -> None:
        async with pair(answer()) as (_, transport):
            await transport.close()
            await transport.close()
            with pytest.raises(ConnectFailed, match="closed"):
                await post(transport)
            with pytest.raises(ConnectFailed, match="closed"):
                await transport.get("/health", timeout=1)


def _start_connecting(address: tuple[str, int]) -> socket.socket:
    connecting = socket.socket()
    connecting.setblocking(False)
    connecting.connect_ex(address)
    return connecting


class TestDeadline:
    @pytest.mark.parametrize(
        "late",
        [
            pytest.param(reply(then="hang"), id="no answer"),
            pytest.param(reply(b"HTTP/1.1 200 OK\r\nContent-Le", then="hang"), id="half a head"),
            pytest.param(reply(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", then="hang"), id="half a body"),
            pytest.param(
                reply(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", *[b"x"] * 1000, pause=0.02),
                id="a trickle",
            ),
        ],
    )
    async def test_an_answer_that_is_not_whole_in_time_is_given_up(self, late: Reply) -> None:
        async with pair(late, answer()) as (server, transport):
            with pytest.raises(AnswerTimeout, match="within 1 s"):
                await post(transport, timeout=1)
            assert (await post(transport)).status == 200
            assert [r.connection for r in server.received] == [1, 2]

    @pytest.mark.parametrize("seconds", [0, -1])
    async def test_without_time_nothing_is_sent(self, seconds: float) -> None:
        async with pair(answer()) as (server, transport):
            with pytest.raises(AnswerTimeout):
                await post(transport, timeout=seconds)
            assert server.connections == 0

    async def test_cancelling_is_no_timeout_and_closes_the_connection(self) -> None:
        async with pair(reply(then="hang")) as (server, transport):
            call = asyncio.create_task(post(transport))
            await server.until_received(1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await server.until_closed()


class TestSizeOfAnswer:
    LIMIT = 4096

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(answer, id="with a length"),
            pytest.param(lambda body: chunked(body[:100], body[100:]), id="in chunks"),
            pytest.param(
                lambda body: answer(gzip.compress(body), headers={"Content-Encoding": "gzip"}), id="compressed"
            ),
        ],
    )
    async def test_the_limit_is_the_last_size_accepted(self, make: Any) -> None:
        replies = (make(b"x" * self.LIMIT), make(b"x" * (self.LIMIT + 1)))
        async with pair(*replies, max_answer_bytes=self.LIMIT) as (_, transport):
            assert len((await post(transport)).body) == self.LIMIT
            with pytest.raises(AnswerTooLarge, match="4096"):
                await post(transport)

    async def test_an_endless_answer_ends_at_the_limit(self) -> None:
        endless = chunked(b"x" * 100_000, end=b"", then="hang")
        async with pair(endless, answer(), max_answer_bytes=self.LIMIT) as (server, transport):
            with pytest.raises(AnswerTooLarge):
                await post(transport)
            assert (await post(transport)).status == 200
            assert [r.connection for r in server.received] == [1, 2]


class TestSecrets:
    # Apart from the calls, since a traceback shows the lines of the source.
    KEY, STATIC_KEY, PROMPT = "s3cret", "s3cret-static", b'{"prompt":"pr1vate"}'

    @pytest.mark.parametrize(
        "broken", [*BROKEN_ANSWERS.values(), reply(then="hang")], ids=[*BROKEN_ANSWERS, "no answer"]
    )
    async def test_neither_prompt_nor_key_is_in_what_a_log_would_show(self, broken: Reply) -> None:
        async with pair(broken, headers={"X-Static": self.STATIC_KEY}) as (_, transport):
            with pytest.raises(TransportError) as caught:
                await post(transport, self.PROMPT, headers={"Authorization": self.KEY}, timeout=0.3)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert "s3cret" not in shown
        assert "pr1vate" not in shown
        assert len(str(caught.value)) < 200
