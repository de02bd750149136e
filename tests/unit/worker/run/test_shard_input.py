"""A shard's lines, read from the byte range that was planned, and only from what was planned."""

import asyncio
from pathlib import Path

import pytest

from batchwright.api.conditions import Reason
from batchwright.batchfile.plan_record import PlannedInput, PlanRecord, Shard
from batchwright.storage.errors import ObjectChanged
from batchwright.storage.file import FileStore
from batchwright.worker.failures import StageFailed
from batchwright.worker.run.shard_input import ShardInput, ShardLine

LINE = b'{"custom_id":"%d","method":"POST","url":"/v1/x","body":{"n":%d}}'


def line(number: int) -> bytes:
    return LINE % (number, number)


def read(
    folder: Path, content: bytes, shard: Shard, *, etag: str | None = None, max_body: int = 1000
) -> list[ShardLine]:
    store = FileStore(folder)
    info = store.write("input", content)
    plan = PlanRecord(
        "f", PlannedInput("file:///input", etag or info.etag, info.size), "/v1/x", "m", 1, 1, True, (shard,)
    )

    async def collect() -> list[ShardLine]:
        return [one async for one in ShardInput(store, "input", plan, max_body).lines(shard)]

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


def test_an_object_that_is_gone_says_what_to_do(tmp_path: Path) -> None:
    plan = PlanRecord("f", PlannedInput("file:///gone", "e", 1), "/v1/x", "m", 1, 1, True, (Shard(0, 1, 1, 1),))

    async def collect() -> None:
        async for _ in ShardInput(FileStore(tmp_path), "gone", plan, 10).lines(plan.shards[0]):
            pass

    with pytest.raises(StageFailed, match="Put the same file back") as failure:
        asyncio.run(collect())
    assert failure.value.report.reason is Reason.INPUT_NOT_FOUND
