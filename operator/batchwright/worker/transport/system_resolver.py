"""Asking the system for addresses, in threads of their own.

aiohttp's resolver uses the event loop's pool of threads, in which calls to a storage that hangs may have taken every
place just when a lookup is needed.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult


class SystemResolver(AbstractResolver):
    """Each lookup has a thread. The system bounds how long it takes, and the end of the process doesn't wait for it."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError where nothing was found, or nothing could be asked."""

        def look_up() -> list[ResolveResult]:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            return [
                ResolveResult(
                    hostname=host,
                    host=_numeric(address),
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for kind, _, protocol, _, address in found
            ]

        return await _in_a_thread(look_up)

    async def close(self) -> None:
        pass


def _numeric(address: tuple[Any, ...]) -> str:
    """With the scope that an IPv6 address of one link has."""
    host, scope = str(address[0]), address[3:]
    return f"{host}%{scope[0]}" if any(scope) and "%" not in host else host


async def _in_a_thread(look_up: Callable[[], list[ResolveResult]]) -> list[ResolveResult]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[ResolveResult]] = loop.create_future()

    def settle(outcome: list[ResolveResult] | Exception) -> None:
        if future.done():
            return  # nobody waits any more
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def run() -> None:
        outcome: list[ResolveResult] | Exception
        try:
            outcome = look_up()
        except Exception as error:
            outcome = error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="lookup", daemon=True).start()
    return await future
