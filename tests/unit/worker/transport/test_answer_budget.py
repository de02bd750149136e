"""Answers in flight stay within a bound together, and none waits for ever."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.worker.transport.answer_budget import AnswerBudget, Holding
from batchwright.worker.transport.errors import ConnectionLost
from fixtures.virtual_time import run_in_no_time


class Arriving:
    """An answer that comes, or does not."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self.error: BaseException | None = None

    def set_exception(self, exc: BaseException) -> None:
        self.error = exc


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def take(holding: Holding, size: int) -> None:
    if not holding.take_at_once(size):
        await holding.wait(size)


async def waits(holding: Holding, size: int) -> "asyncio.Task[None]":
    """A task that waits for bytes by now."""
    task = asyncio.create_task(take(holding, size))
    await settle()
    assert not task.done()
    return task


def holdings(budget: AnswerBudget, *sizes: int) -> list[Holding]:
    """Holdings with so many bytes each, the oldest first."""
    made = [budget.holding(Arriving()) for _ in sizes]
    for holding, size in zip(made, sizes, strict=True):
        assert holding.take_at_once(size)
    return made


async def test_what_fits_does_not_wait() -> None:
    budget = AnswerBudget(10)
    holdings(budget, 4, 6)
    assert budget.held == 10


async def test_what_does_not_fit_waits_for_room() -> None:
    budget = AnswerBudget(10)
    first, _ = holdings(budget, 4, 4)
    waiting = await waits(budget.holding(Arriving()), 3)
    budget.give_back(first)
    await asyncio.wait_for(waiting, 5)
    assert budget.held == 7


async def test_the_oldest_goes_on_over_the_limit() -> None:
    budget = AnswerBudget(10)
    oldest, younger = holdings(budget, 5, 5)
    waiting = await waits(younger, 1)
    assert oldest.take_at_once(20)
    assert budget.held == 30
    budget.give_back(oldest)
    await asyncio.wait_for(waiting, 5)


async def test_an_answer_larger_than_the_limit_gets_it_alone() -> None:
    budget = AnswerBudget(10)
    first, second = holdings(budget, 1, 1)
    large, late = budget.holding(Arriving()), budget.holding(Arriving())
    waiting = await waits(large, 50)
    behind = await waits(late, 1)
    budget.give_back(second)
    await settle()
    assert not waiting.done()
    budget.give_back(first)
    await asyncio.wait_for(waiting, 5)
    await settle()
    assert not behind.done()
    budget.give_back(large)
    await asyncio.wait_for(behind, 5)


async def test_small_ones_do_not_starve_a_large_one() -> None:
    budget = AnswerBudget(10)
    first, _ = holdings(budget, 4, 4)
    large = await waits(budget.holding(Arriving()), 6)
    small = await waits(budget.holding(Arriving()), 1)
    budget.give_back(first)
    await asyncio.wait_for(large, 5)
    await settle()
    assert not small.done()


@pytest.mark.parametrize("moment", ["while it waits", "in the moment of its turn"])
async def test_who_is_cancelled_holds_nothing_back(moment: str) -> None:
    budget = AnswerBudget(10)
    (first,) = holdings(budget, 10)

    async def receive() -> None:
        with budget.holding(Arriving()) as holding:
            await take(holding, 8)

    cancelled = asyncio.create_task(receive())
    await settle()
    behind = await waits(budget.holding(Arriving()), 5)
    if moment == "in the moment of its turn":
        budget.give_back(first)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    budget.give_back(first)
    await asyncio.wait_for(behind, 5)
    assert budget.held == 5


async def test_an_answer_of_which_nothing_comes_is_given_up_while_others_wait() -> None:
    budget = AnswerBudget(10, stall_seconds=0.04)
    stalled, moving, waiting = Arriving(), Arriving(), Arriving()
    assert budget.holding(stalled).take_at_once(5)
    assert budget.holding(moving).take_at_once(5)
    wait = await waits(budget.holding(waiting), 1)
    async with asyncio.timeout(20):
        while stalled.error is None:
            moving.total_bytes += 1
            await asyncio.sleep(0.001)
    assert isinstance(stalled.error, ConnectionLost)
    assert (moving.error, waiting.error) == (None, None)
    wait.cancel()


async def test_an_answer_of_which_nothing_comes_may_take_its_time_while_nobody_waits() -> None:
    budget = AnswerBudget(10, stall_seconds=0.01)
    slow = Arriving()
    assert budget.holding(slow).take_at_once(5)
    await asyncio.sleep(0.1)
    assert slow.error is None


ANSWERS = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), max_size=12)
"""The pieces of each answer; one piece alone is an answer whose size is known."""


@given(answers=ANSWERS, limit=st.integers(1, 25), cancelled=st.sets(st.integers(0, 11)), chance=st.randoms())
def test_never_more_than_the_limit_and_one_answer_and_never_a_deadlock(
    answers: list[list[int]], limit: int, cancelled: set[int], chance: random.Random
) -> None:
    budget = AnswerBudget(limit)
    live: dict[int, Holding] = {}

    async def pause() -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)

    def check() -> None:
        held = sorted(holding.bytes for holding in live.values())
        assert budget.held == sum(held)
        assert sum(held[:-1]) <= limit, "all but one are within the limit"

    async def receive(number: int, pieces: list[int]) -> None:
        await pause()
        with budget.holding(Arriving()) as holding:
            live[number] = holding
            try:
                for piece in pieces:
                    await take(holding, piece)
                    check()
                    await pause()
            finally:
                del live[number]

    async def scenario() -> None:
        tasks = [asyncio.create_task(receive(number, pieces)) for number, pieces in enumerate(answers)]
        for number in sorted(cancelled):
            await pause()
            if number < len(tasks):
                tasks[number].cancel()
        async with asyncio.timeout(1):  # this clock stands while anybody is at work, so only a deadlock gets there
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        assert budget.held == 0

    run_in_no_time(scenario())
