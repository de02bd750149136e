"""The parts that count and wait: arrivals in bounded memory, slots and queue, delays that freeze and abort."""

import asyncio
from pathlib import Path

import pytest

from stub.arrivals import Arrival, ArrivalLog
from stub.capacity import Capacity, QueueFullError
from stub.flight import Flight
from stub.journal import Journal


def arrival(key: str, attempt: int = 0) -> Arrival:
    return Arrival(0.0, key, None, "/v1/chat/completions", 0, attempt, 1)


def test_the_log_counts_each_key_and_keeps_the_last_arrivals() -> None:
    log = ArrivalLog(last=2)
    for key in ("a", "b", "a"):
        log.arrive(arrival(key, log.attempts(key)))
    log.answer("a")
    snapshot = log.snapshot(last=10)
    assert (snapshot["total"], snapshot["distinct"]) == (3, 2)
    assert snapshot["arrived"] == {"a": 2, "b": 1}
    assert snapshot["answered"] == {"a": 1}
    assert [(one.key, one.attempt) for one in snapshot["last"]] == [("b", 0), ("a", 1)]


def test_the_log_does_not_grow_past_its_bound() -> None:
    log = ArrivalLog(max_keys=2)
    for key in ("a", "b", "c", "c", "a"):
        log.arrive(arrival(key))
    log.answer("c")
    snapshot = log.snapshot(last=0)
    assert snapshot["arrived"] == {"a": 2, "b": 1}
    assert (snapshot["total"], snapshot["uncounted"], snapshot["last"]) == (5, 2, [])
    assert snapshot["answered"] == {}


def journaled(path: Path, **options: int) -> ArrivalLog:
    return ArrivalLog(journal=Journal(path, **options))


def test_a_journal_keeps_counts_for_the_next_server_and_forgets_them_with_a_reset(tmp_path: Path) -> None:
    log = journaled(tmp_path / "journal")
    for key in ("a", "a", "b\n"):
        log.arrive(arrival(key))
    log.answer("a")
    log.turn_away("a")
    again = journaled(tmp_path / "journal")
    assert again.attempts("a") == 2
    snapshot = again.snapshot(last=10)
    assert (snapshot["arrived"], snapshot["answered"]) == ({"a": 2, "b\n": 1}, {"a": 1})
    assert snapshot["turned_away"] == {"a": 1}
    assert (snapshot["total"], snapshot["last"], snapshot["kept"]) == (3, [], True)
    again.clear()
    assert journaled(tmp_path / "journal").snapshot(last=0)["total"] == 0


def test_a_journal_does_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journaled(path).arrive(arrival("a"))
    with path.open("ab") as file:
        file.write(b'["arrived","b')
    journaled(path).arrive(arrival("c"))
    assert journaled(path).snapshot(last=0)["arrived"] == {"a": 1, "c": 1}


def test_a_journal_has_a_bound_and_says_what_it_lacks(tmp_path: Path) -> None:
    log = journaled(tmp_path / "journal", max_bytes=40)
    for key in ("a", "b", "c"):
        log.arrive(arrival(key))
    snapshot = log.snapshot(last=0)
    assert (len(snapshot["arrived"]), snapshot["kept"]) == (3, False)
    assert (tmp_path / "journal").stat().st_size <= 40
    assert journaled(tmp_path / "journal").snapshot(last=0)["arrived"] == {"a": 1, "b": 1}


def test_without_a_journal_nothing_is_kept() -> None:
    assert ArrivalLog().snapshot(last=0)["kept"] is False


async def take_in_order(capacity: Capacity, order: list[str], name: str, priority: int) -> None:
    await capacity.take(priority)
    order.append(name)


async def test_slots_go_by_priority_then_by_arrival() -> None:
    capacity, order = Capacity(), list[str]()
    capacity.limit(1, None)
    await capacity.take(0)
    tasks = []
    for name, priority in (("batch-1", 10), ("batch-2", 10), ("interactive", 0)):
        tasks.append(asyncio.create_task(take_in_order(capacity, order, name, priority)))
        await asyncio.sleep(0)
    assert (capacity.running, capacity.waiting) == (1, 3)
    for _ in tasks:
        capacity.give_back()
        await asyncio.sleep(0)
    assert order == ["interactive", "batch-1", "batch-2"]
    assert (capacity.running, capacity.waiting) == (1, 0)


async def test_a_full_queue_refuses() -> None:
    capacity = Capacity()
    capacity.limit(1, 1)
    await capacity.take(0)
    waiting = asyncio.create_task(capacity.take(0))
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError):
        await capacity.take(0)
    capacity.give_back()
    await waiting


async def test_who_leaves_the_queue_gives_up_the_place_and_takes_no_slot() -> None:
    capacity = Capacity()
    capacity.limit(1, 1)
    await capacity.take(0)
    leaving = asyncio.create_task(capacity.take(0))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert capacity.waiting == 0
    staying = asyncio.create_task(capacity.take(0))
    await asyncio.sleep(0)
    capacity.give_back()
    await staying
    assert (capacity.running, capacity.waiting) == (1, 0)


async def test_who_leaves_as_the_turn_comes_passes_it_on() -> None:
    capacity = Capacity()
    capacity.limit(1, None)
    await capacity.take(0)
    leaving, next_one = asyncio.create_task(capacity.take(0)), asyncio.create_task(capacity.take(0))
    await asyncio.sleep(0)
    capacity.give_back()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await asyncio.wait_for(next_one, 1)
    assert (capacity.running, capacity.waiting) == (1, 0)


async def test_more_slots_let_in_who_waits() -> None:
    capacity = Capacity()
    capacity.limit(1, None)
    await capacity.take(0)
    waiting = asyncio.create_task(capacity.take(0))
    await asyncio.sleep(0)
    capacity.limit(2, None)
    await asyncio.wait_for(waiting, 1)
    assert capacity.running == 2


async def test_what_is_frozen_ends_after_the_thaw() -> None:
    flight = Flight()
    flight.freeze(True)
    waits = [asyncio.create_task(flight.wait(0)), asyncio.create_task(flight.wait(0.01))]
    done, _ = await asyncio.wait(waits, timeout=0.1)
    assert not done
    flight.freeze(False)
    assert await asyncio.wait_for(asyncio.gather(*waits), 1) == ["done", "done"]


async def test_an_abort_ends_every_wait_and_leaves_alone_what_hangs() -> None:
    flight = Flight()
    waits = [asyncio.create_task(flight.wait(60)) for _ in range(3)]
    hanging = asyncio.create_task(flight.hang())
    await asyncio.sleep(0)
    assert flight.abort() == 3
    assert await asyncio.wait_for(asyncio.gather(*waits), 1) == ["aborted"] * 3
    assert not hanging.done()
    flight.release()
    await asyncio.wait_for(hanging, 1)
