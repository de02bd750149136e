"""Lookups by the system, whatever else the process waits for."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from batchwright.worker.transport.system_resolver import SystemResolver


def found(*addresses: tuple[Any, ...]) -> Any:
    """What stands in for the system's resolver."""
    return lambda *_, **__: [
        (socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM, 6, "", address)
        for address in addresses
    ]


async def test_a_name_of_this_machine_has_an_address_of_it() -> None:
    assert {one["host"] for one in await SystemResolver().resolve("localhost")} & {"127.0.0.1", "::1"}


async def test_an_address_of_one_link_keeps_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found(("10.0.0.1", 0), ("fd00::1", 0, 0, 0), ("fe80::1", 0, 0, 3)))
    assert [one["host"] for one in await SystemResolver().resolve("x.test")] == ["10.0.0.1", "fd00::1", "fe80::1%3"]


async def test_a_name_without_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    with pytest.raises(socket.gaierror, match="no such name"):
        await SystemResolver().resolve("x.test")


async def test_calls_that_hang_in_the_loops_threads_hold_up_no_lookup() -> None:
    loop, end = asyncio.get_running_loop(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loop.set_default_executor(pool)
        hanging = loop.run_in_executor(None, end.wait)
        try:
            async with asyncio.timeout(20):
                assert await SystemResolver().resolve("localhost")
        finally:
            end.set()
            await hanging


async def test_what_comes_after_the_wait_was_given_up_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, look_up = threading.Event(), found(("10.0.0.1", 0))

    def late(*_: Any, **__: Any) -> Any:
        go_on.wait(20)
        return look_up()

    monkeypatch.setattr(socket, "getaddrinfo", late)
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await SystemResolver().resolve("x.test")
    lookup = next(thread for thread in threading.enumerate() if thread.name == "lookup")
    go_on.set()
    await asyncio.to_thread(lookup.join, 20)
    await asyncio.sleep(0)
    assert errors == []
