"""When a connection has been used for long enough."""

from dataclasses import dataclass

import aiohttp
import pytest
from aiohttp.connector import Connection

from batchwright.worker.transport.connection_age import JITTER, response_class

AGE = 30.0


@dataclass(eq=False)
class Protocol:
    """What aiohttp calls so: one connection."""

    closing: bool = False

    def force_close(self) -> None:
        self.closing = True


@dataclass
class Connected:
    protocol: Protocol


class Ageing:
    """Answers over connections, at the moments that a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chance: float) -> None:
        async def start(response: aiohttp.ClientResponse, connection: Connection) -> aiohttp.ClientResponse:
            return response

        # Answers would need a server, and the clock could not be set.
        monkeypatch.setattr(aiohttp.ClientResponse, "start", start)
        self.now = 0.0
        made = response_class(AGE, clock=lambda: self.now, chance=lambda: chance)
        self._response = made.__new__(made)

    async def answer_at(self, now: float, protocol: Protocol) -> bool:
        """Whether the connection ends after an answer at this moment."""
        self.now = now
        await self._response.start(Connected(protocol))  # type: ignore[arg-type]
        return protocol.closing


@pytest.mark.parametrize(("chance", "age"), [(0.0, AGE * (1 - JITTER)), (0.5, AGE), (1.0, AGE * (1 + JITTER))])
async def test_it_ends_with_the_first_answer_of_its_age(
    monkeypatch: pytest.MonkeyPatch, chance: float, age: float
) -> None:
    ageing, protocol = Ageing(monkeypatch, chance), Protocol()
    moments = [100.0, 100.0 + age - 0.1, 100.0 + age]
    assert [await ageing.answer_at(moment, protocol) for moment in moments] == [False, False, True]


async def test_each_connection_has_its_own_age(monkeypatch: pytest.MonkeyPatch) -> None:
    ageing, old, young = Ageing(monkeypatch, 0.5), Protocol(), Protocol()
    await ageing.answer_at(0.0, old)
    await ageing.answer_at(20.0, young)
    assert [await ageing.answer_at(31.0, one) for one in (old, young)] == [True, False]
