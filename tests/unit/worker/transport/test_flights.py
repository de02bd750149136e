"""Giving up requests that are in flight, and telling that from any other cancellation."""

import asyncio
from collections.abc import Awaitable

import pytest

from batchwright.worker.transport.flights import Flights


class GivenUpError(Exception):
    """What the request was told."""


async def fly(flights: Flights, request: Awaitable[object]) -> None:
    """Wait for a request as a transport does."""
    task = flights.begin()
    try:
        await request
    except asyncio.CancelledError:
        if flights.is_dropped(task):
            raise GivenUpError from None
        raise
    finally:
        flights.end(task)


async def started(flights: Flights) -> asyncio.Task[None]:
    task = asyncio.create_task(fly(flights, asyncio.Event().wait()))
    await asyncio.sleep(0)
    return task


async def test_what_is_in_flight_is_lost_and_its_task_goes_on() -> None:
    flights = Flights()

    async def caller() -> int:
        with pytest.raises(GivenUpError):
            await fly(flights, asyncio.Event().wait())
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return task.cancelling()

    callers = [asyncio.create_task(caller()) for _ in range(3)]
    await asyncio.sleep(0)
    flights.drop()
    flights.drop()
    assert await asyncio.gather(*callers) == [0, 0, 0]


async def test_a_task_that_survived_a_cancellation_before_goes_on_too() -> None:
    flights, survived = Flights(), asyncio.Event()

    async def caller() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            survived.set()
        with pytest.raises(GivenUpError):
            await fly(flights, asyncio.Event().wait())

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    await survived.wait()
    await asyncio.sleep(0)
    flights.drop()
    await task


async def test_what_comes_later_or_has_ended_is_not_lost() -> None:
    flights = Flights()
    await fly(flights, asyncio.sleep(0))
    flights.drop()
    task = await started(flights)
    assert not task.done()
    task.cancel()


async def test_a_cancelled_task_stays_cancelled() -> None:
    task = await started(Flights())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_cancelled_as_well_stays_cancelled() -> None:
    flights = Flights()
    task = await started(flights)
    flights.drop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_of_the_caller_stays_a_deadline() -> None:
    flights = Flights()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fly(flights, asyncio.Event().wait())
