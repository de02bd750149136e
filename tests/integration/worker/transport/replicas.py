"""Replicas of a server: stub processes on several loopback addresses and one port, behind one name."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aiohttp.abc import ResolveResult

from batchwright.worker.transport import Answer, Transport, TransportError
from stub.harness import StubProcess, stub_process

HOST = "model.test"
CHAT = "/v1/chat/completions"
SECONDS = 60.0
"""Within which a test must have got somewhere."""


@dataclass
class Names:
    """A resolver that answers as the test says: with addresses, or with an error."""

    answer: Sequence[str] | OSError
    lookups: int = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.lookups += 1
        if isinstance(self.answer, OSError):
            raise self.answer
        return [
            ResolveResult(hostname=host, host=one, port=port, family=family, proto=0, flags=0) for one in self.answer
        ]


@dataclass
class Replicas:
    """Stubs by their addresses, all on one port."""

    port: int
    stack: ExitStack
    stubs: dict[str, StubProcess] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def addresses(self) -> list[str]:
        return list(self.stubs)

    def start(self, address: str) -> None:
        """Start the stub of an address, for the first time or again."""
        self.stubs[address] = self.stack.enter_context(stub_process(host=address, port=self.port))

    def reset(self) -> None:
        for stub in self.stubs.values():
            stub.reset()

    def arrivals(self) -> Counter[str]:
        """Requests by address, those without an answer too."""
        return Counter({address: stub.stats().total for address, stub in self.stubs.items()})

    def arrived(self) -> dict[str, dict[str, int]]:
        """Requests by address and id."""
        return {address: dict(stub.arrivals().arrived) for address, stub in self.stubs.items()}


@contextmanager
def replicas(count: int) -> Iterator[Replicas]:
    """Start stubs on 127.0.0.1, 127.0.0.2 and so on."""
    with ExitStack() as stack:
        first = stack.enter_context(stub_process())
        made = Replicas(urlsplit(first.url).port or 0, stack, {"127.0.0.1": first})
        for number in range(2, count + 1):
            made.start(f"127.0.0.{number}")
        yield made


def body(request_id: str = "one", stub: str | None = "delay=0") -> bytes:
    metadata = {"id": request_id} | ({} if stub is None else {"stub": stub})
    messages = [{"role": "user", "content": "hello"}]
    return json.dumps({"model": "stub-model", "messages": messages, "metadata": metadata}).encode()


async def send(
    transport: Transport,
    count: int,
    *,
    in_flight: int,
    stub: str | None = "delay=0.01",
    affinity: Callable[[int], int | None] = lambda number: None,
    seconds: float = SECONDS,
) -> list[Answer | TransportError]:
    """So many requests, so many at a time; the id of each is its affinity."""
    waiting, results = iter(range(count)), []

    async def sender() -> None:
        for number in waiting:
            prefix = affinity(number)
            payload = body(str(prefix), stub)
            try:
                results.append(await transport.post(CHAT, payload, headers={}, timeout=seconds, affinity=prefix))
            except TransportError as error:
                results.append(error)

    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*(sender() for _ in range(in_flight)))
    return results


def statuses(results: Sequence[Answer | TransportError]) -> set[int | str]:
    """What came: statuses and the names of errors."""
    return {one.status if isinstance(one, Answer) else type(one).__name__ for one in results}
