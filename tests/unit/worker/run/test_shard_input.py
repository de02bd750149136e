"""A shard's lines, read from the byte range that was planned, and only from what was planned."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from batchwright.api.conditions import Reason
from batchwright.batchfile.plan_record import PlannedInput, PlanRecord, Shard
from batchwright.storage import patience as patience_module
from batchwright.storage.errors import ObjectChanged, StorageUnavailable
from batchwright.storage.file import FileStore
from batchwright.storage.patience import Patience
from batchwright.worker.failures import StageFailed
from batchwright.worker.run import shard_input
from batchwright.worker.run.byte_budget import ByteBudget
from batchwright.worker.run.shard_input import ShardInput, ShardLine

LINE = b'{"custom_id":"%d","method":"POST","url":"/v1/x","body":{"n":%d}}'


def line(number: int) -> bytes:
    return LINE % (number, number)


def read(
    folder: Path, content: bytes, shard: Shard, *, etag: str | None = None, max_body: int = 1000, budget: int = 1 << 30
) -> list[ShardLine]:
    store = FileStore(folder)
    info = store.write("input", content)
    plan = PlanRecord(
        "f", PlannedInput("file:///input", etag or info.etag, info.size), "/v1/x", "m", 1, 1, True, (shard,)
    )

    async def collect() -> list[ShardLine]:
        lines, held = [], ByteBudget(budget)
        async with asyncio.timeout(60):
            async for one in ShardInput(store, "input", plan, max_body).lines(shard, held):
                held.release(len(one.line))
                lines.append(one)
        return lines

    return asyncio.run(collect())


def test_a_range_from_the_middle_gives_its_lines_with_their_numbers(tmp_path: Path) -> None:
    content = b"\n".join(line(number) for number in range(4)) + b"\n"
    size = len(line(0)) + 1
    lines = read(tmp_path, content, Shard(size, 3 * size, 2, 2))
    assert [(one.position, one.number, one.line) for one in lines] == [(0, 2, line(1)), (1, 3, line(2))]
    assert bytes(lines[0].request.body) == b'{"n":1}'


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_line_needs_no_end(tmp_path: Path, end: bytes) -> None:
    lines = read(tmp_path, line(0) + end, Shard(0, len(line(0)) + 1, 1, 1))
    assert [one.line for one in lines] == [line(0)]


def test_blank_lines_count_in_numbers_alone_and_a_cr_is_no_part_of_a_line(tmp_path: Path) -> None:
    content = line(0) + b"\r\n\r\n  \n" + line(1) + b"\n"
    lines = read(tmp_path, content, Shard(0, len(content), 5, 2))
    assert [(one.position, one.number, one.line) for one in lines] == [(0, 5, line(0)), (1, 8, line(1))]


def test_the_body_keeps_its_bytes(tmp_path: Path) -> None:
    body = '{ "a" : 1.50,\r "b":"\u2028é" }'.encode()
    content = b'{"custom_id":"x","method":"POST","url":"/v1/x","body":%s}\n' % body
    (one,) = read(tmp_path, content, Shard(0, len(content), 1, 1))
    assert bytes(one.request.body) == body


def test_another_version_of_the_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ObjectChanged):
        read(tmp_path, line(0), Shard(0, len(line(0)), 1, 1), etag="another")


@pytest.mark.parametrize(
    ("content", "shard"),
    [
        (line(0), Shard(0, 500, 1, 2)),
        (line(0) + b"\n" + line(1), Shard(0, 500, 1, 1)),
        (b"not json", Shard(0, 500, 1, 1)),
        (b'{"custom_id":5}', Shard(0, 500, 1, 1)),
        (b"x" * 3_000_000, Shard(0, 3_000_000, 1, 1)),
    ],
    ids=["too few lines", "too many lines", "no JSON", "no request", "too long"],
)
def test_lines_that_are_not_those_of_the_plan_are_refused(tmp_path: Path, content: bytes, shard: Shard) -> None:
    with pytest.raises(StageFailed, match="is not the file that was planned") as failure:
        read(tmp_path, content, shard)
    assert failure.value.report.reason is Reason.INPUT_CHANGED


class TestInFileOrder:
    """As a thread reads a shard."""

    CONTENT = line(0) + b"\r\n\n" + line(1) + b"\n" + line(2) + b"\n"
    SHARD = Shard(0, len(CONTENT), 4, 3)

    def read(self, store: FileStore, patience: Patience | None = None, **changes: Any) -> list[ShardLine]:
        plan = PlanRecord(
            "f", PlannedInput("file:///input", **{"etag": "", "size": 1, **changes}), "/v1/x", "m", 3, 3, True, ()
        )
        source = ShardInput(store, "input", plan, 1000)
        return list(source.in_file_order(self.SHARD, patience or Patience(), threading.Event()))

    def test_it_gives_what_is_sent_with_the_same_numbers(self, tmp_path: Path) -> None:
        store = FileStore(tmp_path)
        store.write("input", self.CONTENT)
        assert [(one.position, one.number, one.line) for one in self.read(store)] == [
            (0, 4, line(0)),
            (1, 6, line(1)),
            (2, 7, line(2)),
        ]

    def test_a_store_that_is_away_is_waited_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(patience_module, "FIRST_PAUSE", 0.001)
        failures = iter([StorageUnavailable("GetObject", "file:///input", "503")] * 3)

        class Failing(FileStore):
            def stream(self, *arguments: Any, **options: Any) -> Iterator[bytes]:
                for failure in failures:
                    raise failure
                yield from super().stream(*arguments, **options)

        Failing(tmp_path).write("input", self.CONTENT)
        assert len(self.read(Failing(tmp_path), Patience(60.0))) == 3

    def test_another_version_is_refused(self, tmp_path: Path) -> None:
        store = FileStore(tmp_path)
        store.write("input", self.CONTENT)
        with pytest.raises(ObjectChanged):
            self.read(store, etag="another")

    def test_lines_that_are_missing_are_refused(self, tmp_path: Path) -> None:
        store = FileStore(tmp_path)
        store.write("input", line(0))
        with pytest.raises(StageFailed) as failure:
            self.read(store)
        assert failure.value.report.reason is Reason.INPUT_CHANGED

    def test_an_object_that_is_gone_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(StageFailed) as failure:
            self.read(FileStore(tmp_path))
        assert failure.value.report.reason is Reason.INPUT_NOT_FOUND


def test_an_object_that_is_gone_says_what_to_do(tmp_path: Path) -> None:
    plan = PlanRecord("f", PlannedInput("file:///gone", "e", 1), "/v1/x", "m", 1, 1, True, (Shard(0, 1, 1, 1),))

    async def collect() -> None:
        async for _ in ShardInput(FileStore(tmp_path), "gone", plan, 10).lines(plan.shards[0], ByteBudget(10)):
            pass

    with pytest.raises(StageFailed, match="Put the same file back") as failure:
        asyncio.run(collect())
    assert failure.value.report.reason is Reason.INPUT_NOT_FOUND


# --- Order of sending ---

SYSTEMS = ["You judge essays. " * 30, "You write unit tests. " * 30]


def chat(number: int) -> bytes:
    messages = [{"role": "system", "content": SYSTEMS[number % 2]}, {"role": "user", "content": f"Number {number}"}]
    body = {"messages": messages, "max_tokens": 10 + number}
    return json.dumps({"custom_id": str(number), "url": "/v1/chat/completions", "body": body}).encode() + b"\n"


CHATS = b"".join(map(chat, range(6)))
WHOLE = Shard(0, len(CHATS), 1, 6)


def test_lines_come_in_sending_order_and_know_their_place_in_the_file(tmp_path: Path) -> None:
    lines = read(tmp_path, CHATS, WHOLE)
    assert [one.position for one in lines] == [5, 3, 1, 4, 2, 0]
    assert [one.number for one in lines] == [6, 4, 2, 5, 3, 1]
    assert [one.line + b"\n" for one in lines] == [chat(one.position) for one in lines]
    assert [one.request.custom_id for one in lines] == ["5", "3", "1", "4", "2", "0"]
    assert lines[0].affinity == lines[2].affinity != lines[3].affinity == lines[5].affinity
    assert None not in {one.affinity for one in lines}


MANY = b"".join(map(chat, range(10, 30)))
IN_WINDOWS = len(MANY)
"""A budget of which half is ten of these lines."""


def test_a_shard_of_more_bytes_than_half_of_the_budget_is_put_in_order_window_by_window(tmp_path: Path) -> None:
    lines = read(tmp_path, MANY, Shard(0, len(MANY), 1, 20), budget=IN_WINDOWS)
    assert [one.position for one in lines] == [
        *(9, 7, 5, 3, 1, 8, 6, 4, 2, 0),
        *(19, 17, 15, 13, 11, 18, 16, 14, 12, 10),
    ]
    odd, even = lines[0].affinity, lines[5].affinity
    assert [one.affinity for one in lines] == 2 * ([odd] * 5 + [even] * 5)
    assert None not in (odd, even)


def test_a_shard_of_many_lines_is_put_in_order_window_by_window(tmp_path: Path) -> None:
    with patch.object(shard_input, "ORDERED_LINES", 4):
        lines = read(tmp_path, CHATS, WHOLE)
    assert [one.position for one in lines] == [3, 1, 2, 0, 5, 4]


def test_lines_of_which_few_fit_into_a_window_come_in_the_files_order(tmp_path: Path) -> None:
    lines = read(tmp_path, CHATS, WHOLE, budget=2 * len(CHATS) - 2)
    assert [(one.position, one.affinity) for one in lines] == [(number, None) for number in range(6)]


class Held(ByteBudget):
    """A budget that tells what is held of it."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.bytes = 0

    async def acquire(self, size: int) -> None:
        await super().acquire(size)
        self.bytes += size

    def release(self, size: int) -> None:
        super().release(size)
        self.bytes -= size


LINE_BY_LINE, WHOLE_AT_ONCE, WINDOWS = len(CHATS), 2 * len(CHATS), IN_WINDOWS


def held_while_reading(
    folder: Path, limit: int, *, content: bytes = CHATS, stop_after: int | None = None
) -> tuple[list[int], int]:
    """Bytes held at each line, given back at once, and in the end."""
    store = FileStore(folder)
    info = store.write("input", content)
    count = content.count(b"\n")
    shard = Shard(0, len(content), 1, count)
    planned = PlannedInput("file:///input", info.etag, info.size)
    plan = PlanRecord("f", planned, "/v1/x", "m", count, count, True, (shard,))
    budget = Held(limit)

    async def collect() -> list[int]:
        lines = ShardInput(store, "input", plan, 1000).lines(shard, budget)
        held = []
        async for one in lines:
            held.append(budget.bytes)
            budget.release(len(one.line))
            if len(held) == stop_after:
                break
        await lines.aclose()
        return held

    return asyncio.run(collect()), budget.bytes


def test_a_shard_that_is_read_whole_is_held_whole_until_its_lines_are_given_back(tmp_path: Path) -> None:
    held, left = held_while_reading(tmp_path, WHOLE_AT_ONCE)
    assert held[0] == len(CHATS)
    assert held == sorted(held, reverse=True)
    assert left == 0


def test_a_window_is_held_until_its_lines_are_given_back(tmp_path: Path) -> None:
    held, left = held_while_reading(tmp_path, WINDOWS, content=MANY)
    assert [size > 0.95 * WINDOWS / 2 for size in held] == 2 * ([True] + [False] * 9)
    assert max(held) == WINDOWS / 2
    assert left == 0


def test_large_lines_are_held_one_by_one(tmp_path: Path) -> None:
    held, left = held_while_reading(tmp_path, LINE_BY_LINE)
    assert held == [len(chat(number)) - 1 for number in range(6)]
    assert left == 0


@pytest.mark.parametrize("limit", [LINE_BY_LINE, WHOLE_AT_ONCE, WINDOWS], ids=["line by line", "whole", "windows"])
def test_a_shard_that_is_left_in_its_midst_holds_nothing(tmp_path: Path, limit: int) -> None:
    _, left = held_while_reading(tmp_path, limit, content=MANY if limit == WINDOWS else CHATS, stop_after=2)
    assert left == 0
