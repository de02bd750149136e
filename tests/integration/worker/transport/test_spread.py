"""One name, several replicas: real servers on several loopback addresses, and a resolver that a test controls."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest

from batchwright.worker.transport import (
    Answer,
    ConnectFailed,
    ConnectionLost,
    TransportSettings,
    aiohttp_transport,
    open_transport,
)
from batchwright.worker.transport.endpoints import LOAD_FACTOR
from batchwright.worker.transport.spread import Pace, SpreadTransport
from integration.worker.transport.replicas import (
    CHAT,
    SECONDS,
    Names,
    Replicas,
    body,
    replicas,
    send,
    statuses,
)
from integration.worker.transport.scripted_server import answer, scripted_server

one_event_loop = True

BRISK = Pace(lookup=0.2, tick=0.1)
"""Looks often, and is as patient as ever."""
IMPATIENT = Pace(lookup=0.2, tick=0.1, silence=0.3, answer=2)
"""For servers that fall silent. A slow machine can look so for a moment."""
AWAY = socket.gaierror(socket.EAI_AGAIN, "the name server is away")
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "no such name")


@pytest.fixture(scope="module")
def all_three() -> Iterator[Replicas]:
    with replicas(3) as three:
        yield three


@pytest.fixture
def three(all_three: Replicas) -> Replicas:
    """Three replicas as they are after their start."""
    all_three.reset()
    return all_three


@asynccontextmanager
async def spread(url: str, names: Names, pace: Pace = BRISK, **settings: Any) -> AsyncIterator[SpreadTransport]:
    made = SpreadTransport(TransportSettings(url, **{"max_connections": 64, **settings}), resolver=names, pace=pace)
    try:
        yield made
    finally:
        async with asyncio.timeout(SECONDS):
            await made.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing tells of a change
            await asyncio.sleep(0.05)


def hanging(transport: SpreadTransport, count: int) -> list[asyncio.Task[Answer]]:
    """Requests that get no answer."""
    post = partial(transport.post, CHAT, body(stub="hang"), headers={}, timeout=SECONDS)
    return [asyncio.create_task(post()) for _ in range(count)]


async def after(names: Names, count: int) -> None:
    """Wait for so many further lookups."""
    before = names.lookups
    await until(lambda: names.lookups >= before + count)


@contextmanager
def deaf_server(address: str, port: int) -> Iterator[None]:
    """An address at which connections neither come up nor are refused."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen(0)
        for _ in range(2):  # one more than the queue of connections holds
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((address, port))
        yield


async def until_traffic(transport: SpreadTransport, three: Replicas, address: str) -> None:
    """Send until a replica gets something."""
    before = three.stubs[address].stats().total
    async with asyncio.timeout(SECONDS):
        while three.stubs[address].stats().total == before:
            await send(transport, 3, in_flight=3)
            await asyncio.sleep(0.05)


class TestLoad:
    async def test_replicas_get_the_same_load(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            for _ in range(4):
                assert statuses(await send(transport, 24, in_flight=24, stub="delay=0.2")) == {200}
        assert three.arrivals() == dict.fromkeys(three.addresses, 32)

    async def test_a_slow_replica_gets_no_more_than_its_share_of_what_is_in_flight(self, three: Replicas) -> None:
        three.stubs["127.0.0.2"].switch(requests="hang")
        async with spread(three.url, Names(three.addresses)) as transport:
            sending = asyncio.create_task(send(transport, 300, in_flight=24, stub=None))
            await until(lambda: three.arrivals().total() >= 200)
            assert three.arrivals()["127.0.0.2"] == 8
            sending.cancel()

    async def test_a_replica_that_refuses_fast_does_not_draw_the_traffic(self, three: Replicas) -> None:
        three.stubs["127.0.0.2"].switch(requests="status=429,delay=0")
        three.stubs["127.0.0.1"].switch(requests="delay=0.05")
        three.stubs["127.0.0.3"].switch(requests="delay=0.05")
        async with spread(three.url, Names(three.addresses), Pace(penalty=1000)) as transport:
            await send(transport, 200, in_flight=24, stub=None)
        assert three.arrivals()["127.0.0.2"] < 80

    async def test_the_faults_of_lines_are_not_held_against_a_replica(self, three: Replicas) -> None:
        for address, stub in three.stubs.items():
            stub.switch(requests="status=400,delay=0" if address == "127.0.0.2" else "delay=0")
        async with spread(three.url, Names(three.addresses), Pace(penalty=1000)) as transport:
            await send(transport, 30, in_flight=1, stub=None)
        assert three.arrivals() == dict.fromkeys(three.addresses, 10)

    async def test_a_replica_that_comes_later_gets_its_share(self, three: Replicas) -> None:
        names = Names(["127.0.0.1", "127.0.0.2"])
        async with spread(three.url, names) as transport:
            await send(transport, 20, in_flight=4)
            assert three.arrivals()["127.0.0.3"] == 0
            names.answer = three.addresses
            await until_traffic(transport, three, "127.0.0.3")
            three.reset()
            await send(transport, 24, in_flight=24, stub="delay=0.2")
        assert three.arrivals() == dict.fromkeys(three.addresses, 8)


class TestAffinity:
    async def test_each_prefix_has_one_replica(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            await send(transport, 300, in_flight=1, stub="delay=0", affinity=lambda number: number % 10)
        arrived = three.arrived()
        for prefix in map(str, range(10)):
            assert sorted(ids.get(prefix, 0) for ids in arrived.values()) == [0, 0, 30]

    async def test_a_prefix_that_is_most_of_the_load_is_shared_out(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            await send(transport, 300, in_flight=24, affinity=lambda number: 7)
        in_flight = [stub.stats().max_in_flight for stub in three.stubs.values()]
        assert all(0 < most <= LOAD_FACTOR * 24 / 3 + 1 for most in in_flight)


class TestNames:
    async def test_a_name_of_this_machine_is_reached_over_the_family_that_is_served(self) -> None:
        async with scripted_server(answer()) as server:
            transport = open_transport(TransportSettings(f"http://localhost:{server.port}", 4))
            assert isinstance(transport, SpreadTransport)
            assert (await transport.post(CHAT, b"{}", headers={}, timeout=20)).status == 200
            assert (await transport.get("/health", timeout=20)).status == 200
            await transport.close()
            with pytest.raises(ConnectFailed, match="closed"):
                await transport.post(CHAT, b"{}", headers={}, timeout=20)

    async def test_the_name_stays_in_the_host_header(self) -> None:
        async with (
            scripted_server(answer()) as server,
            spread(f"http://model.test:{server.port}", Names(["127.0.0.1"])) as transport,
        ):
            assert (await transport.post(CHAT, b"{}", headers={}, timeout=20)).status == 200
            assert server.received[0].headers["host"] == f"model.test:{server.port}"

    async def test_an_address_that_is_gone_gets_nothing_more_and_ends_what_it_has(self, three: Replicas) -> None:
        names = Names(three.addresses)
        leaving = three.stubs["127.0.0.3"]
        async with spread(three.url, names, Pace(lookup=0.2, tick=0.1, silence=0.2)) as transport:
            slow = asyncio.create_task(send(transport, 3, in_flight=3, stub="delay=1.5"))
            await until(lambda: three.arrivals().total() == 3)
            names.answer = ["127.0.0.1", "127.0.0.2"]
            await after(names, 2)
            leaving.switch(drain=True)  # it stops listening
            await send(transport, 30, in_flight=6)
            assert statuses(await slow) == {200}
            assert leaving.stats().total == 1
            await until(lambda: leaving.stats().open_connections == 0)

    @pytest.mark.parametrize("error", [AWAY, UNKNOWN, TimeoutError()])
    async def test_the_last_addresses_serve_while_the_name_is_not_found(self, three: Replicas, error: OSError) -> None:
        names = Names(three.addresses)
        async with spread(three.url, names) as transport:
            await send(transport, 3, in_flight=3)
            names.answer = error
            await after(names, 2)
            assert statuses(await send(transport, 30, in_flight=6)) == {200}

    async def test_without_any_address_there_is_no_connection_until_there_is_one(self, three: Replicas) -> None:
        names = Names(AWAY)
        async with spread(three.url, names) as transport:
            for request in (transport.post(CHAT, b"{}", headers={}, timeout=20), transport.probe("/health", timeout=5)):
                with pytest.raises(ConnectFailed, match=rf"no address found for model\.test:{three.port}"):
                    await request
            assert [type(one) for one in await transport.get_each("/metrics", timeout=5)] == [ConnectFailed]
            names.answer = three.addresses
            assert statuses(await send(transport, 30, in_flight=6)) == {200}

    async def test_the_replicas_of_a_server_that_moved_are_found_by_its_failure(self, three: Replicas) -> None:
        names = Names(["127.0.0.77"])
        async with spread(three.url, names, Pace(lookup=1000, tick=0.1)) as transport:
            assert statuses(await send(transport, 1, in_flight=1)) == {"ConnectFailed"}
            names.answer = three.addresses
            await until(lambda: names.lookups >= 2)
            assert statuses(await send(transport, 30, in_flight=6)) == {200}

    async def test_a_family_without_connection_is_given_up_for_the_other(self, three: Replicas) -> None:
        names = Names(["2001:db8::1", "2001:db8::2", *three.addresses])
        async with spread(three.url, names, connect_seconds=1) as transport:
            assert statuses(await send(transport, 1, in_flight=1)) == {"ConnectFailed"}
            await after(names, 2)
            assert statuses(await send(transport, 30, in_flight=6)) == {200}


class TestFailures:
    async def test_a_killed_replica_costs_what_is_in_flight_to_it_and_comes_back(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            requests = hanging(transport, 9)
            await until(lambda: three.arrivals().total() == 9)
            three.stubs["127.0.0.2"].kill()
            await until(lambda: sum(one.done() for one in requests) == 3)
            assert [type(one.exception()) for one in requests if one.done()] == [ConnectionLost] * 3
            for one in requests:
                one.cancel()
            await send(transport, 3, in_flight=1)
            assert statuses(await send(transport, 40, in_flight=8)) == {200}

            three.start("127.0.0.2")
            await until_traffic(transport, three, "127.0.0.2")

    async def test_a_silent_replica_gives_its_requests_back_and_comes_back(self, three: Replicas) -> None:
        silent = three.stubs["127.0.0.2"]
        async with spread(three.url, Names(three.addresses), IMPATIENT) as transport:
            await send(transport, 30, in_flight=6)
            silent.stop_answering()
            try:
                results = await send(transport, 60, in_flight=12, stub="delay=0.1")
                assert statuses(results) == {200, "ConnectionLost"}
                assert sum(isinstance(one, ConnectionLost) for one in results) <= 12
                assert statuses(await send(transport, 30, in_flight=6)) == {200}
            finally:
                silent.go_on()
            await until_traffic(transport, three, "127.0.0.2")

    async def test_a_silent_replica_holds_up_neither_lookups_nor_the_checks_of_others(self, three: Replicas) -> None:
        names, silent, ill = Names(three.addresses), three.stubs["127.0.0.2"], three.stubs["127.0.0.3"]
        pace = Pace(lookup=0.1, tick=0.05, silence=0.1, answer=1000)
        async with spread(three.url, names, pace) as transport:
            requests = hanging(transport, 3)
            await until(lambda: three.arrivals().total() == 3)
            silent.stop_answering()
            try:
                await after(names, 10)
                ill.switch(health=503)
                async with asyncio.timeout(SECONDS):
                    lost, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
                assert [type(one.exception()) for one in lost] == [ConnectionLost]
            finally:
                silent.go_on()
                for one in requests:
                    one.cancel()


class TestGivingUp:
    """What the event loops differ in: ending a request that is still being written."""

    one_event_loop = False

    async def test_a_silent_replica_that_no_longer_reads_gives_back_a_large_body(self, three: Replicas) -> None:
        large = b"x" * (64 << 20)
        silent = three.stubs["127.0.0.2"]
        async with spread(three.url, Names(["127.0.0.1", "127.0.0.2"]), IMPATIENT) as transport:
            await send(transport, 4, in_flight=2)
            silent.stop_answering()
            try:
                requests = [transport.post(CHAT, large, headers={}, timeout=SECONDS) for _ in range(2)]
                results = await asyncio.gather(*requests, return_exceptions=True)
            finally:
                silent.go_on()
        assert sorted(type(one).__name__ for one in results) == ["Answer", "ConnectionLost"]

    async def test_closing_loses_what_is_in_flight_to_a_server_that_no_longer_reads(
        self, three: Replicas, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(aiohttp_transport, "_CLOSE_SECONDS", 0.2)
        async with spread(three.url, Names(["127.0.0.2"])) as transport:
            await send(transport, 1, in_flight=1)
            three.stubs["127.0.0.2"].stop_answering()
            try:
                post = transport.post(CHAT, b"x" * (64 << 20), headers={}, timeout=SECONDS)
                request = asyncio.create_task(post)
                await asyncio.sleep(0.2)
                await transport.close()
                request.cancel()
                await asyncio.wait({request})
            finally:
                three.stubs["127.0.0.2"].go_on()

    async def test_cancelling_stays_cancelling(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            request = asyncio.create_task(transport.post(CHAT, body(stub="hang"), headers={}, timeout=SECONDS))
            await until(lambda: three.arrivals().total() == 1)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request


class TestClosing:
    async def test_during_the_first_lookup_it_leaves_nothing_behind(self) -> None:
        names, before = Names(["127.0.0.1"]), asyncio.all_tasks()
        async with spread("http://model.test:9", names) as transport:
            request = asyncio.create_task(transport.post(CHAT, b"{}", headers={}, timeout=20))
            while not names.lookups:  # noqa: ASYNC110 - it has to be the very next moment
                await asyncio.sleep(0)
        with pytest.raises(ConnectFailed, match="closed"):
            await request
        assert asyncio.all_tasks() == before


class TestProbe:
    async def test_a_replica_that_is_not_healthy_gets_nothing_until_it_is(self, three: Replicas) -> None:
        ill = three.stubs["127.0.0.2"]
        async with spread(three.url, Names(three.addresses)) as transport:
            ill.switch(health=503)
            assert (await transport.probe("/health", timeout=5)).status == 200
            await send(transport, 30, in_flight=6)
            assert three.arrivals()["127.0.0.2"] == 0
            ill.switch(health=200)
            assert (await transport.probe("/health", timeout=5)).status == 200
            await send(transport, 30, in_flight=6)
            assert three.arrivals()["127.0.0.2"] > 0

    async def test_when_all_are_ill_the_caller_is_told_and_all_stay_in_use(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            for stub in three.stubs.values():
                stub.switch(health=503)
            assert (await transport.probe("/health", timeout=5)).status == 503
            assert len(await transport.get_each("/metrics", timeout=5)) == 3

    async def test_without_any_answer_it_says_why(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        async with spread(f"http://model.test:{port}", Names(["127.0.0.1", "127.0.0.2"])) as transport:
            with pytest.raises(ConnectFailed, match="refused"):
                await transport.probe("/health", timeout=5)

    async def test_one_address_that_can_not_be_reached_is_no_answer_to_a_get(self, three: Replicas) -> None:
        async with spread(three.url, Names(["127.0.0.77", "127.0.0.1", "127.0.0.78"])) as transport:
            assert (await transport.get("/v1/models", timeout=5)).status == 200

    async def test_a_get_goes_on_though_the_addresses_change_while_it_waits(self, three: Replicas) -> None:
        names = Names(["127.0.0.99", "127.0.0.3"])
        with deaf_server("127.0.0.99", three.port):
            async with spread(three.url, names, connect_seconds=1.0) as transport:
                request = asyncio.create_task(transport.get("/v1/models", timeout=SECONDS))
                await until(lambda: names.lookups)
                names.answer = ["127.0.0.99", "127.0.0.1"]
                assert (await request).status == 200
        assert [stub.stats().other.get("/v1/models", 0) for stub in three.stubs.values()] == [1, 0, 0]

    async def test_each_address_is_asked_for_its_metrics(self, three: Replicas) -> None:
        async with spread(three.url, Names(three.addresses)) as transport:
            results = await transport.get_each("/metrics", timeout=5)
        assert [one.status for one in results if isinstance(one, Answer)] == [200, 200, 200]
        assert [stub.stats().other["/metrics"] for stub in three.stubs.values()] == [1, 1, 1]


class TestAgeOfConnections:
    """Behind one address that stands for several replicas only new connections spread."""

    async def test_old_connections_end_without_cutting_a_request(self, three: Replicas) -> None:
        async with spread(three.url, Names(["127.0.0.1"]), max_connection_age_seconds=0.05) as transport:
            assert statuses(await send(transport, 100, in_flight=4, stub="delay=0.02")) == {200}
        assert three.stubs["127.0.0.1"].stats().connections >= 8

    async def test_young_ones_are_used_again(self, three: Replicas) -> None:
        async with spread(three.url, Names(["127.0.0.1"]), max_connection_age_seconds=1000) as transport:
            assert statuses(await send(transport, 100, in_flight=4, stub="delay=0.02")) == {200}
        assert three.stubs["127.0.0.1"].stats().connections == 4
