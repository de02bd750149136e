"""Ending connections once they have a certain age, without cutting a request.

A connection stays with the replica that it was opened to. Behind one address that stands for several, such as
that of a Service, only new connections spread, and only they reach a replica that came later. aiohttp's pool has
a limit for idle time but none for age (aio-libs/aiohttp#4948), so the age is looked at with each answer.
"""

import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.connector import Connection

JITTER: Final = 0.25
"""Part of the age by which it varies, so that connections opened together don't end together."""


def response_class(
    max_age_seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> type[aiohttp.ClientResponse]:
    """Make the class of a session's responses that closes a connection after the answer, once it is too old."""
    ends: WeakKeyDictionary[object, float] = WeakKeyDictionary()

    class AgeingResponse(aiohttp.ClientResponse):
        # Not a coroutine around the other one: each layer costs every request.
        def start(self, connection: Connection) -> Coroutine[Any, Any, aiohttp.ClientResponse]:
            protocol = connection.protocol
            if protocol is not None:
                end = ends.get(protocol)
                if end is None:
                    ends[protocol] = clock() + max_age_seconds * (1 + JITTER * (2 * chance() - 1))
                elif clock() >= end:
                    protocol.force_close()
            return super().start(connection)

    return AgeingResponse
