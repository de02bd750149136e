"""AIBrix's dispatch engine, driven as its batch driver does: requests as dicts from a feed, answers to a sink.

It runs in an environment of its own: see dispatch.py. It has its own HTTP client (httpx) and its own admission.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from load import PATH, TIMEOUT_SECONDS, Load, Measured, Windows, bodies, cpu_seconds, measured

WARM_UP_ROUNDS = 2
"""As the other contenders."""


async def measure_aibrix(load: Load) -> Measured:
    """Send with a fixed number of requests in flight until the time is over or all are answered."""
    from aibrix.batch.client import DispatchEngine, InferenceRequest, StaticEndpointSource

    warm_up = WARM_UP_ROUNDS * load.concurrency
    loop = asyncio.get_running_loop()
    done, started, cpu_started = 0, 0.0, 0.0
    result: Measured | None = None

    def finish() -> None:
        nonlocal result
        result = result or measured(done - warm_up, started, cpu_started, windows.quiet())

    async def feed() -> AsyncIterator[Any]:
        source = bodies()
        for number in range(load.requests + warm_up):
            if result is not None:
                return
            yield InferenceRequest(path=PATH, payload=json.loads(next(source)), ref=number)

    def on_result(request: Any, response: Any, error: Any) -> None:
        nonlocal done, started, cpu_started
        if error is not None:
            raise error
        done += 1
        if done == warm_up:
            started, cpu_started = time.perf_counter(), cpu_seconds()
            loop.call_later(load.seconds, finish)

    windows = Windows(lambda: done)
    watching = asyncio.create_task(windows.watch())
    source = StaticEndpointSource(load.url, capacity=load.concurrency, timeout=TIMEOUT_SECONDS)
    await DispatchEngine(source).run(feed(), on_result, max_concurrency=load.concurrency)
    await source.aclose()
    watching.cancel()
    finish()
    assert result is not None
    return result
