"""A BatchJob that is applied again, while something is killed or another one is at work: nothing is mixed."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.plan import plan
from fixtures.resubmission import PASSING, is_exact, sent, work_objects
from fixtures.worker import JobUnderTest, chat_line, wait_until
from stub.harness import StubProcess


class Killed(Exception):  # noqa: N818 - no error: the process is gone
    """The process ends here."""


class KilledStore(FileStore):
    """A volume whose user is killed when it writes or joins for the n-th time."""

    def __init__(self, root: Path, left: int) -> None:
        super().__init__(root)
        self._left = itertools.count(left, -1)

    def _live(self) -> None:
        if next(self._left) <= 0:
            raise Killed

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        self._live()
        return super().write(key, data, if_none_match=if_none_match, if_match=if_match)

    def join(self, key: str, *arguments: Any, **options: Any) -> ObjectInfo:
        self._live()
        return super().join(key, *arguments, **options)


def plan_and_be_killed(job: JobUnderTest, writes: int) -> bool:
    """Plan, and be killed after so many writes; whether that was before the end."""
    stage = job.stage()
    root = Path(stage.output_store.uri("").removeprefix("file://"))
    try:
        plan(replace(stage, output_store=KilledStore(root, writes)), server_patience=0.0)
    except Killed:
        return True
    return False


def kills_until_it_is_through(job: JobUnderTest) -> int:
    """How often a plan is killed that is let write once more each time."""
    return next(number for number in itertools.count() if not plan_and_be_killed(job, number))


class TestKilledPlan:
    """At whatever write the plan is killed, the next one makes it whole, or leaves it alone."""

    def test_the_next_one_goes_on(self, failing: JobUnderTest, stub: StubProcess) -> None:
        failing.complete()
        kills = kills_until_it_is_through(failing)
        assert kills > 5, "each attempt found what those before it had written, and came further"
        planned = failing.plan()
        assert planned.reused is not None
        assert planned.fingerprint[-2:] == "-2"
        failing.work(planned)
        assert is_exact(failing, failing.merge(planned))
        assert sent(stub).total() == 24 + 2

    def test_what_is_half_seeded_is_never_taken_for_whole(self, failing: JobUnderTest) -> None:
        """The results are gone by the next plan, which even cuts the input into other shards."""
        lines = [chat_line(f"id-{n}", "status=500" if n == 0 else None) for n in range(12)]
        job = failing.with_spec(sharding={"parallelism": 2}).input(lines)
        generations, left = set(), set()
        for writes in itertools.count():
            job = replace(job, name=f"killed-after-{writes}")
            job.complete()
            if not plan_and_be_killed(job, writes):
                break
            Path(job.place.output_uri.removeprefix("file://"), job.name, "results.jsonl").unlink()
            planned = job.with_spec(sharding={"parallelism": 3}).plan()
            assert (planned.reused, planned.shards) == (None, 3), f"killed after {writes} writes"
            generations.add(planned.fingerprint[16:])
            if planned.fingerprint.endswith("-3"):
                left |= work_objects(job, f"{planned.fingerprint[:16]}-2")
            job.work(planned)
            assert is_exact(job, job.merge(planned), lines)
        assert writes > 7
        assert generations == {"-2", "-3"}, "one that was half seeded is left alone"
        assert left == {"origin.json"}, "and the copies in it are deleted"


def test_two_plans_at_once(failing: JobUnderTest, stub: StubProcess) -> None:
    failing.complete()
    with ThreadPoolExecutor(2) as both:
        plans = [future.result(60) for future in [both.submit(failing.plan) for _ in range(2)]]
    assert plans[0] == plans[1]
    failing.work(plans[0])
    assert is_exact(failing, failing.merge(plans[0]))
    assert sent(stub).total() == 24 + 2


class MergedMeanwhile(FileStore):
    """A volume where another BatchJob's merge comes to its end just before shard records are listed."""

    def __init__(self, root: Path, publish: Callable[[], object]) -> None:
        super().__init__(root)
        self._publish = [publish]

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        if prefix.endswith("/records/") and self._publish:
            self._publish.pop()()
        return super().list(prefix, start_after=start_after)


def test_what_a_merge_publishes_in_the_midst_of_the_plan_stands(failing: JobUnderTest, stub: StubProcess) -> None:
    """A BatchJob is deleted and applied again at once: its merge may still be at work."""
    first = failing.plan()
    failing.work(first)
    stage = failing.stage()
    root = Path(stage.output_store.uri("").removeprefix("file://"))
    store = MergedMeanwhile(root, lambda: failing.merge(first))
    again = plan(replace(stage, output_store=store), server_patience=0.0)
    assert again.reused is not None
    assert (again.reused.completed, again.reused.failed) == (20, 2)
    failing.work(again)
    assert is_exact(failing, failing.merge(again))
    assert sent(stub).total() == 24 + 2


def test_a_worker_that_is_killed_in_a_shard_that_stands_in_part(job: JobUnderTest, stub: StubProcess) -> None:
    job = job.with_spec(sharding={"linesPerShard": 40}, requests={"retries": 0, "maxConcurrency": 2})
    lines = [chat_line(f"id-{n}", PASSING if n % 2 else None) for n in range(40)]
    job = job.input(lines).quick_to_start()
    job.complete()
    planned = job.plan()
    assert planned.reused is not None
    assert planned.reused.shards == 0
    stub.switch(delay="0.1")
    worker = job.start_worker(planned)
    wait_until(lambda: sent(stub).total() > 46)
    worker.kill()
    job.start_worker(planned).wait()
    assert is_exact(job, job.merge(planned), lines)
    assert {times for name, times in sent(stub).items() if not int(name[3:]) % 2} == {1}, "what stood is not sent"
