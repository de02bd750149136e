"""Lines on their way to the senders: each is given out once, in order, together with its turn at the gate."""

import asyncio

import pytest

from batchwright.worker.run.lines import LineQueue
from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit, ServerLoad, Signal
from batchwright.worker.server.gate import Gate, Pass

Taken = tuple[str, Pass] | None


class Scene:
    """A queue of four lines before a gate of two."""

    def __init__(self, limit: int = 2) -> None:
        self.lines = LineQueue[str](4)
        self.gate = Gate(Availability(has_untried=lambda: self.lines.left), FixedLimit(limit), self.lines)
        self.taken: list[str] = []

    async def put(self, *lines: str) -> None:
        for line in lines:
            await self.lines.put(line, self.gate)

    def taking(self) -> asyncio.Task[Taken]:
        return asyncio.create_task(self.lines.take(self.gate))

    async def takes(self, count: int) -> list[asyncio.Task[Taken]]:
        tasks = [self.taking() for _ in range(count)]
        await settle()
        return tasks


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def line_of(task: asyncio.Task[Taken]) -> str | None:
    """The line that was given out, None as long as there is none."""
    if not task.done():
        return None
    taken = task.result()
    assert taken is not None
    return taken[0]


async def test_lines_are_given_out_in_order_to_as_many_as_may_be_in_flight() -> None:
    scene = Scene()
    await scene.put("a", "b", "c")
    tasks = await scene.takes(3)
    assert [line_of(task) for task in tasks] == ["a", "b", None]
    assert scene.gate.in_flight == 2
    tasks[2].cancel()


async def test_whoever_waits_for_a_line_gets_it_as_it_comes() -> None:
    scene = Scene()
    tasks = await scene.takes(2)
    await scene.put("a", "b")
    await settle()
    assert sorted(filter(None, map(line_of, tasks))) == ["a", "b"]


async def test_who_was_answered_goes_on_without_a_task_switch_and_wakes_nobody() -> None:
    scene = Scene()
    await scene.put("a", "b", "c")
    first, _, idle = await scene.takes(3)
    taken = await first
    assert taken is not None
    scene.gate.answered(taken[1], Signal.SUCCESS)
    taking = scene.lines.take(scene.gate)
    with pytest.raises(StopIteration) as end:
        taking.send(None)
    assert end.value.value[0] == "c"
    await settle()
    assert not idle.done()
    idle.cancel()


async def test_a_limit_that_grows_lets_more_lines_in() -> None:
    scene = Scene(limit=1)
    await scene.put("a", "b")
    tasks = await scene.takes(2)
    scene.gate.limit = FixedLimit(2)
    scene.gate.loaded(ServerLoad(waiting=0, running=1, kv_cache_usage=0.0))
    await settle()
    assert [line_of(task) for task in tasks] == ["a", "b"]


async def test_the_feeder_waits_while_the_queue_is_full_and_goes_on_when_it_is_half_empty() -> None:
    scene = Scene(limit=10)
    await scene.put("a", "b", "c", "d")
    putting = asyncio.create_task(scene.put("e"))
    await scene.takes(1)
    assert not putting.done()
    await scene.takes(1)
    assert putting.done()


class TestEnd:
    async def test_what_is_queued_is_given_out_before_it(self) -> None:
        scene = Scene()
        await scene.put("a")
        scene.lines.end()
        assert scene.lines.left
        idle = await scene.takes(2)
        assert line_of(idle[0]) == "a"
        assert await idle[1] is None
        assert not scene.lines.left
        assert await scene.lines.take(scene.gate) is None

    async def test_who_waits_for_a_line_is_told(self) -> None:
        scene = Scene()
        task = scene.taking()
        await settle()
        scene.lines.end()
        assert await task is None


class TestStop:
    async def test_what_is_queued_is_taken_back(self) -> None:
        scene = Scene(limit=1)
        await scene.put("a", "b", "c")
        first, idle = await scene.takes(2)
        assert scene.lines.stop() == ["b", "c"]
        assert await idle is None
        assert line_of(first) == "a"
        assert await scene.lines.take(scene.gate) is None

    async def test_a_feeder_that_waits_for_room_is_told(self) -> None:
        scene = Scene()
        await scene.put("a", "b", "c", "d")
        putting = asyncio.create_task(scene.put("e"))
        await settle()
        scene.lines.stop()
        with pytest.raises(Stopping):
            await putting

    async def test_and_one_that_comes_later(self) -> None:
        scene = Scene()
        scene.lines.stop()
        with pytest.raises(Stopping):
            await scene.put("a")


class TestCancelled:
    async def test_while_waiting_it_takes_no_line(self) -> None:
        scene = Scene()
        task = scene.taking()
        await settle()
        task.cancel()
        await settle()
        await scene.put("a")
        assert scene.gate.in_flight == 0
        assert [line_of(task) for task in await scene.takes(1)] == ["a"]

    async def test_just_as_a_line_comes_it_gives_both_back(self) -> None:
        scene = Scene()
        task = scene.taking()
        await settle()
        await scene.put("a", "b")
        task.cancel()
        await settle()
        assert scene.gate.in_flight == 0
        assert [line_of(task) for task in await scene.takes(2)] == ["a", "b"]
