"""Giving up requests that are in flight, and telling that from any other cancellation."""

import asyncio

import pytest

from batchwright.worker.transport.errors import AnswerTimeout, ConnectionLost
from batchwright.worker.transport.flights import Flights
from batchwright.worker.transport.protocol import Answer

OK = Answer(200, {}, b"{}")


async def never() -> Answer:
    await asyncio.Event().wait()
    return OK


async def started(flights: Flights) -> asyncio.Task[Answer]:
    task = asyncio.create_task(flights.run(never()))
    await asyncio.sleep(0)
    return task


async def test_an_answer_is_passed_on() -> None:
    async def answered() -> Answer:
        return OK

    assert await Flights().run(answered()) is OK


async def test_an_error_is_passed_on() -> None:
    async def late() -> Answer:
        raise AnswerTimeout("late")

    with pytest.raises(AnswerTimeout):
        await Flights().run(late())


async def test_what_is_in_flight_is_lost_and_its_task_goes_on() -> None:
    flights = Flights()

    async def caller() -> int:
        with pytest.raises(ConnectionLost):
            await flights.run(never())
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return task.cancelling()

    callers = [asyncio.create_task(caller()) for _ in range(3)]
    await asyncio.sleep(0)
    flights.drop()
    flights.drop()
    assert await asyncio.gather(*callers) == [0, 0, 0]


async def test_what_comes_later_is_not_lost() -> None:
    flights = Flights()
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
            await flights.run(never())
