"""One contender, measured in a process of its own: `python clients.py NAME URL ...` prints a JSON line.

Each sends the same bodies to the same path with the same concurrency, reads each answer whole and checks
its status. What is measured begins after a warm-up that opens the connections.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from aibrix_engine import measure_aibrix
from load import HEADERS, PATH, TIMEOUT_SECONDS, Load, Measured, Windows, bodies, cpu_seconds, measured
from worker_run import measure_worker

Send = Callable[[bytes], Awaitable[None]]
Opened = Callable[[str, int], AbstractAsyncContextManager[Send]]


def check(status: int) -> None:
    if status != 200:
        raise RuntimeError(f"the server answered {status}")


@asynccontextmanager
async def transport(url: str, concurrency: int) -> AsyncIterator[Send]:
    """Send as the worker does, through batchwright's transport."""
    from batchwright.worker.transport import TransportSettings, open_transport

    opened = open_transport(TransportSettings(url, concurrency))

    async def send(body: bytes) -> None:
        check((await opened.post(PATH, body, headers=HEADERS, timeout=TIMEOUT_SECONDS)).status)

    yield send
    await opened.close()


def transport_by_name(url: str, concurrency: int) -> AbstractAsyncContextManager[Send]:
    """Send to a name whose addresses are looked after, as that of a Service."""
    return transport(url.replace("127.0.0.1", "localhost"), concurrency)


@asynccontextmanager
async def bare_aiohttp(url: str, concurrency: int) -> AsyncIterator[Send]:
    """The plainest loop over aiohttp, which everything else is compared with."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector, headers=HEADERS) as session:

        async def send(body: bytes) -> None:
            async with session.post(url + PATH, data=body) as response:
                await response.read()
                check(response.status)

        yield send


@asynccontextmanager
async def bare_httpx(url: str, concurrency: int, transport: Any = None) -> AsyncIterator[Send]:
    import httpx

    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(
        headers=HEADERS, limits=limits, timeout=TIMEOUT_SECONDS, transport=transport
    ) as client:

        async def send(body: bytes) -> None:
            check((await client.post(url + PATH, content=body)).status_code)

        yield send


@asynccontextmanager
async def httpx_over_aiohttp(url: str, concurrency: int) -> AsyncIterator[Send]:
    import httpx
    from httpx_aiohttp import AiohttpTransport

    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with bare_httpx(url, concurrency, AiohttpTransport(limits=limits)) as send:
        yield send


def openai_client(url: str, concurrency: int, *, over_aiohttp: bool) -> AbstractAsyncContextManager[Send]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Send]:
        import openai

        client = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="bench",
            max_retries=0,
            timeout=TIMEOUT_SECONDS,
            http_client=openai.DefaultAioHttpClient() if over_aiohttp else None,
        )
        allowed = asyncio.Semaphore(concurrency)

        async def send(body: bytes) -> None:
            async with allowed:
                await client.chat.completions.create(**json.loads(body))

        yield send
        await client.close()

    return opened()


@asynccontextmanager
async def own_protocol(url: str, concurrency: int) -> AsyncIterator[Send]:
    """A client of one's own, as small as it can be: the limit of what Python can do here, not a choice."""
    from own_client import OwnClient

    client = OwnClient(url, concurrency)

    async def send(body: bytes) -> None:
        check((await client.post(PATH, body, HEADERS))[0])

    yield send
    client.close()


@dataclass(frozen=True, slots=True)
class Contender:
    label: str
    open: Opened | None
    """None: it has a loop of its own, which `measure` runs."""
    uvloop: bool = False
    measure: Callable[[Load], Awaitable[Measured]] | None = None


def worker(label: str, *, adaptive: bool = True, at_once: bool = False) -> Contender:
    """The whole worker. `adaptive`: it finds out by itself how many requests to have in flight."""

    def measure(load: Load) -> Awaitable[Measured]:
        return measure_worker(load, adaptive=adaptive, at_once=at_once)

    return Contender(f"batchwright's whole worker, {label}", None, uvloop=True, measure=measure)


CONTENDERS = {
    "worker": worker("uvloop"),
    "worker-fixed": worker("uvloop, concurrency fixed", adaptive=False),
    "worker-at-once": worker("no transport", at_once=True),
    "worker-fixed-at-once": worker("no transport, concurrency fixed", adaptive=False, at_once=True),
    "transport": Contender("batchwright's transport, uvloop", transport, uvloop=True),
    "transport-asyncio": Contender("batchwright's transport, asyncio", transport),
    "transport-by-name": Contender("batchwright's transport, uvloop, to a name", transport_by_name, uvloop=True),
    "aiohttp": Contender("bare aiohttp, asyncio", bare_aiohttp),
    "aiohttp-uvloop": Contender("bare aiohttp, uvloop", bare_aiohttp, uvloop=True),
    "openai": Contender("AsyncOpenAI and a semaphore", lambda u, c: openai_client(u, c, over_aiohttp=False)),
    "openai-aiohttp": Contender("AsyncOpenAI over aiohttp", lambda u, c: openai_client(u, c, over_aiohttp=True)),
    "aibrix": Contender("AIBrix's dispatch engine", None, measure=measure_aibrix),
    "httpx": Contender("httpx", bare_httpx),
    "httpx-aiohttp": Contender("httpx over aiohttp", httpx_over_aiohttp),
    "own": Contender("own protocol on httptools, asyncio", own_protocol),
    "own-uvloop": Contender("own protocol on httptools, uvloop", own_protocol, uvloop=True),
}


async def drive(send: Send, load: Load) -> Measured:
    source = bodies()
    for _ in range(2):
        await asyncio.gather(*(send(next(source)) for _ in range(load.concurrency)))

    remaining, done = load.requests, 0
    started, cpu_started = time.perf_counter(), cpu_seconds()
    result: Measured | None = None

    def finish() -> None:
        # At the end of the time and not of the last request: the tail, with ever less in flight, is no
        # part of the rate.
        nonlocal result
        result = measured(done, started, cpu_started, windows.quiet())

    async def worker() -> None:
        nonlocal remaining, done
        while remaining > 0 and result is None:
            remaining -= 1
            await send(next(source))
            done += 1

    windows = Windows(lambda: done)
    watching = asyncio.create_task(windows.watch())
    end = asyncio.get_running_loop().call_later(load.seconds, finish)
    await asyncio.gather(*(worker() for _ in range(load.concurrency)))
    end.cancel()
    watching.cancel()
    return result or measured(done, started, cpu_started, windows.quiet())


async def measure(contender: Contender, load: Load) -> Measured:
    if contender.measure is not None:
        return await contender.measure(load)
    assert contender.open is not None
    async with contender.open(load.url, load.concurrency) as send:
        return await drive(send, load)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    contender = CONTENDERS[options.name]
    load = Load(options.url, options.requests, options.concurrency, options.seconds)
    with asyncio.Runner(loop_factory=loop_factory(contender)) as runner:
        print(json.dumps(asdict(runner.run(measure(contender, load)))))


def loop_factory(contender: Contender) -> Callable[[], asyncio.AbstractEventLoop]:
    if contender.uvloop:
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


if __name__ == "__main__":
    main(sys.argv[1:])
