"""Bytes in flight stay within a bound, and nothing waits for ever."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from batchwright.worker.run.byte_budget import ByteBudget


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_fits_does_not_wait() -> None:
    budget = ByteBudget(10)
    await budget.acquire(4)
    await budget.acquire(6)


async def test_what_does_not_fit_waits_for_room() -> None:
    budget = ByteBudget(10)
    await budget.acquire(8)
    waiting = asyncio.create_task(budget.acquire(3))
    await settle()
    assert not waiting.done()
    budget.release(8)
    await asyncio.wait_for(waiting, 5)


async def test_a_release_that_is_too_small_is_not_enough() -> None:
    budget = ByteBudget(10)
    await budget.acquire(2)
    await budget.acquire(8)
    waiting = asyncio.create_task(budget.acquire(3))
    budget.release(2)
    await settle()
    assert not waiting.done()
    budget.release(8)
    await asyncio.wait_for(waiting, 5)


async def test_a_piece_larger_than_all_gets_the_budget_alone() -> None:
    budget = ByteBudget(10)
    await budget.acquire(1)
    waiting = asyncio.create_task(budget.acquire(50))
    await settle()
    assert not waiting.done()
    budget.release(1)
    await asyncio.wait_for(waiting, 5)
    after = asyncio.create_task(budget.acquire(1))
    await settle()
    assert not after.done()
    budget.release(50)
    await asyncio.wait_for(after, 5)


@given(sizes=st.lists(st.integers(0, 30), max_size=40), limit=st.integers(1, 20), workers=st.integers(1, 4))
def test_the_bound_holds_for_any_sizes(sizes: list[int], limit: int, workers: int) -> None:
    async def scenario() -> None:
        budget, queue = ByteBudget(limit), asyncio.Queue[int | None]()
        held: list[int] = []

        async def give_back() -> None:
            while (size := await queue.get()) is not None:
                await asyncio.sleep(0)
                held.remove(size)
                budget.release(size)

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(give_back())
            for size in sizes:
                await budget.acquire(size)
                held.append(size)
                assert sum(held) <= limit or sum(held) == size
                queue.put_nowait(size)
            for _ in range(workers):
                queue.put_nowait(None)

    asyncio.run(scenario())
