"""A runner sends a shard's lines in an order of its own, and their results come in the file's order."""

import json
from pathlib import Path
from typing import Any

from batchwright.worker.transport.protocol import Answer
from unit.worker.run.running import ScriptedTransport, Work, answer, answer_all, finish, running, until

PREFIXES = ["You judge essays. " * 30, "You write unit tests. " * 30, "You translate. " * 30]


class MixedWork(Work):
    """Lines of three prefixes in turn, of which the later ones are longer."""

    def _line(self, number: int) -> bytes:
        prompt = f"{PREFIXES[number % 3]} {number}"
        body = {"id": self.ids[number], "prompt": prompt, "max_tokens": 10 + number}
        return json.dumps({"custom_id": self.ids[number], "url": "/v1/test", "body": body}).encode() + b"\n"


class AffinityTransport(ScriptedTransport):
    """Remembers the affinity of each line."""

    def __init__(self) -> None:
        super().__init__(answer_all)
        self.affinities: dict[str, int | None] = {}

    async def post(self, path: str, body: bytes, **options: Any) -> Answer:
        self.affinities[json.loads(bytes(body))["id"]] = options["affinity"]
        return await super().post(path, body, **options)


def sent_in_order(lines: int) -> list[str]:
    return [f"id-{number}" for last in range(3) for number in range(lines - 1 - last, -1, -3)]


async def test_lines_are_sent_in_order_and_results_are_the_files(tmp_path: Path) -> None:
    work = MixedWork(tmp_path, lines=30, lines_per_shard=30)
    transport = await finish(work)
    assert list(transport.arrived) == sent_in_order(30)
    assert work.results() == work.ids


async def test_results_are_in_order_over_many_shards(tmp_path: Path) -> None:
    work = MixedWork(tmp_path, lines=100, lines_per_shard=13)
    await finish(work)
    assert work.results() == work.ids


async def test_a_resumed_shard_sends_the_rest_in_the_same_order(tmp_path: Path) -> None:
    work = MixedWork(tmp_path, lines=30, lines_per_shard=30)
    first = ScriptedTransport(lambda custom_id: answer() if len(first.arrived) <= 12 else None)
    runner = work.runner(first)
    async with running(runner) as task:
        await until(lambda: first.in_flight == 4 and len(first.arrived) > 12)
        runner.abandon()
        await task
    done = work.segment_ids()
    assert 0 < len(done) < 30
    last = await finish(work)
    assert list(last.arrived) == [one for one in sent_in_order(30) if one not in done]
    assert work.results() == work.ids


async def test_lines_with_one_prefix_have_one_affinity_in_every_shard(tmp_path: Path) -> None:
    work = MixedWork(tmp_path, lines=30, lines_per_shard=10)
    transport = AffinityTransport()
    async with running(work.runner(transport)) as task:
        await task
    by_prefix = [{transport.affinities[f"id-{number}"] for number in range(first, 30, 3)} for first in range(3)]
    assert [len(found) for found in by_prefix] == [1, 1, 1]
    assert len(set[int | None]().union(*by_prefix) - {None}) == 3
