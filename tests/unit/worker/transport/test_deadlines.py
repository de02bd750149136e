"""Deadlines that share a timer end as those that have one each."""

import asyncio

import pytest

from batchwright.worker.transport.deadlines import Deadlines

SOON, LATER, NEVER = 0.02, 0.08, 3600.0


@pytest.fixture
async def deadlines() -> Deadlines:
    return Deadlines()


async def lasts(deadlines: Deadlines, seconds: float, sleep: float = NEVER) -> str:
    try:
        with deadlines.within(seconds):
            await asyncio.sleep(sleep)
    except TimeoutError:
        return "late"
    return "done"


async def test_what_takes_too_long_ends_with_a_timeout_and_its_task_goes_on(deadlines: Deadlines) -> None:
    assert await lasts(deadlines, SOON) == "late"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_what_is_done_in_time_is_left_alone(deadlines: Deadlines) -> None:
    assert await lasts(deadlines, SOON, sleep=0.0) == "done"
    await asyncio.sleep(LATER)


async def test_each_of_many_has_its_own_time(deadlines: Deadlines) -> None:
    ended: list[int] = []

    async def one(number: int) -> None:
        await asyncio.sleep(0.005 * number)
        assert await lasts(deadlines, LATER, sleep=0.0 if number % 2 else NEVER) == ("done" if number % 2 else "late")
        ended.append(number)

    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(one(number) for number in range(6)))
    assert [number for number in ended if number % 2 == 0] == [0, 2, 4]
    assert asyncio.get_running_loop().time() - began >= LATER


async def test_a_shorter_one_that_began_later_ends_first(deadlines: Deadlines) -> None:
    ended: list[float] = []

    async def one(seconds: float) -> None:
        await lasts(deadlines, seconds)
        ended.append(seconds)

    await asyncio.gather(one(LATER), one(SOON))
    assert ended == [SOON, LATER]


async def test_it_is_found_again_after_a_time_without_any(deadlines: Deadlines) -> None:
    assert await lasts(deadlines, SOON, sleep=0.0) == "done"
    await asyncio.sleep(LATER)
    assert await lasts(deadlines, SOON) == "late"


async def test_an_error_passes(deadlines: Deadlines) -> None:
    with pytest.raises(ZeroDivisionError), deadlines.within(SOON):
        raise ZeroDivisionError


async def test_a_cancellation_by_others_passes(deadlines: Deadlines) -> None:
    task = asyncio.create_task(lasts(deadlines, NEVER))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_and_goes_first_when_both_come_at_once(deadlines: Deadlines) -> None:
    async def one() -> None:
        with deadlines.within(NEVER) as deadline:
            deadline.expire()
            await asyncio.sleep(NEVER)

    task = asyncio.create_task(one())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class TestStandingStill:
    async def test_no_time_passes(self, deadlines: Deadlines) -> None:
        with deadlines.within(SOON) as deadline:
            deadline.stand_still()
            await asyncio.sleep(LATER)
            deadline.go_on()

    async def test_what_was_left_is_left_afterwards(self, deadlines: Deadlines) -> None:
        loop = asyncio.get_running_loop()
        gone_on = loop.time()
        try:
            with deadlines.within(LATER) as deadline:
                for _ in range(2):
                    deadline.stand_still()
                    await asyncio.sleep(SOON)
                    deadline.go_on()
                gone_on = loop.time()
                await asyncio.sleep(NEVER)
        except TimeoutError:
            assert loop.time() - gone_on >= LATER - SOON


def test_no_timer_is_left_of_a_time_that_is_used_no_more() -> None:
    async def used() -> Deadlines:
        deadlines = Deadlines()
        for seconds in (SOON, SOON / 2):
            await lasts(deadlines, seconds, sleep=0.0)
        await asyncio.sleep(LATER)
        return deadlines

    assert asyncio.run(used())._by_length == {}
