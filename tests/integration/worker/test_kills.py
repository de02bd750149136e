"""Workers killed at random moments, twenty times in one job: each line ends once, and little is paid for twice."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import pytest

from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import PlanReport
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import decode_record
from batchwright.batchfile.result_line import read_finished_line
from batchwright.batchfile.shard_record import OpeningRecord, ShardRecord
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, StageProcess, bucket_place, chat_lines, ids, wait_until
from stub.harness import StubProcess

KILLS = 20
WORKERS = 3
LINES = 1600
SHARD_LINES = 40
IN_FLIGHT = 4
"""Of each worker."""
ANSWER_SECONDS = 0.25
SEGMENT_SECONDS = 0.5
SEGMENT_LINES = round(2 * IN_FLIGHT * SEGMENT_SECONDS / ANSWER_SECONDS)
"""What a worker finishes at most from one segment to the next, and as much again for the time that writing takes."""


@dataclass
class Pods:
    """The workers of a run. Each pod that is killed is followed by the next one of its index, with an empty disk."""

    job: JobUnderTest
    planned: PlanReport
    running: dict[int, StageProcess] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, index: int) -> None:
        self.running[index] = self.job.start(
            *("run", "--fingerprint", self.planned.fingerprint, "--workers", str(WORKERS), "--index", str(index)),
            *("--port", "0", "--segment-seconds", str(SEGMENT_SECONDS)),
            spool=f"spool-{next(self._numbers)}",
        )

    def kill(self, index: int) -> None:
        self.running[index].kill()

    def all_run(self) -> bool:
        """Whether each pod has work left, as it should while some are killed."""
        for worker in self.running.values():
            assert worker.process.poll() is None, worker.log.read_text()
        return True


@dataclass(frozen=True)
class WorkObjects:
    """What stands in the bucket of a run that goes on."""

    bucket: S3Bucket
    planned: PlanReport
    _read: dict[str, Collection[str]] = field(default_factory=dict)
    """What is finished by objects that were read before: none of them changes."""

    def finished(self) -> set[str]:
        """Requests that no later worker may send again: they stand in a segment, or their shard is committed."""
        return {
            *self._finished_by("segments/", ".jsonl", ids_of_segment),
            *self._finished_by("records/", "", ids_of_record),
        }

    def suspects(self) -> set[int]:
        """Shards over which a worker was killed, and of which nothing was finished since: three such kills in a row
        would be the end of one.
        """
        folder = self.planned.plan_uri.removeprefix(f"s3://{self.bucket.name}/").removesuffix("plan.json")
        layout = WorkLayout(folder)
        keys = sorted(self._keys("segments/", ".json"))
        last = {shard: key for key in keys if (shard := layout.shard_of_opening(key)) is not None}
        finished = self.finished()
        found = set()
        for shard, key in last.items():
            opening = decode_record(self._data(key), OpeningRecord)
            if opening.kills and len(finished.intersection(ids_of_shards(shard, shard + 1))) <= opening.finished:
                found.add(shard)
        return found

    def _finished_by(self, folder: str, suffix: str, read: Callable[[bytes], Collection[str]]) -> Iterator[str]:
        for key in self._keys(folder, suffix):
            if key not in self._read:
                self._read[key] = read(self._data(key))
            yield from self._read[key]

    def _keys(self, folder: str, suffix: str) -> list[str]:
        prefix = self.planned.plan_uri.removeprefix(f"s3://{self.bucket.name}/").removesuffix("plan.json") + folder
        listed = self.bucket.client.list_objects_v2(Bucket=self.bucket.name, Prefix=prefix).get("Contents", [])
        return [entry["Key"] for entry in listed if entry["Key"].endswith(suffix)]

    def _data(self, key: str) -> bytes:
        data: bytes = self.bucket.client.get_object(Bucket=self.bucket.name, Key=key)["Body"].read()
        return data


def ids_of_segment(data: bytes) -> list[str]:
    return [read_finished_line(line).custom_id for line in data.splitlines()]


def ids_of_record(data: bytes) -> list[str]:
    number = decode_record(data, ShardRecord).shard
    return ids_of_shards(number, number + 1)


def ids_of_shards(first: int, end: int) -> list[str]:
    return [f"request-{number}" for number in range(first * SHARD_LINES, min(end * SHARD_LINES, LINES))]


@pytest.mark.parametrize("seed", [20260729])
def test_workers_killed_at_random_send_little_twice_and_lose_nothing(
    seed: int, job: JobUnderTest, stub: StubProcess, s3_bucket: S3Bucket
) -> None:
    chance = random.Random(seed)
    stub.switch(delay=str(ANSWER_SECONDS))
    job = job.quick_to_start().at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))
    job = job.with_spec(
        sharding={"linesPerShard": SHARD_LINES, "parallelism": WORKERS}, requests={"maxConcurrency": IN_FLIGHT}
    )
    lines = chat_lines(LINES)
    planned = job.input(lines).plan()
    pods, objects = Pods(job, planned), WorkObjects(s3_bucket, planned)
    for index in range(WORKERS):
        pods.start(index)

    lost_at_kills: Counter[str] = Counter()
    for _ in range(KILLS):
        wanted = stub.arrivals().total + chance.randint(1, 40)
        wait_until(lambda wanted=wanted: pods.all_run() and stub.arrivals().total >= wanted)
        victim = chance.randrange(WORKERS)
        wait_until(lambda: pods.all_run() and not objects.suspects())
        pods.kill(victim)
        arrived = set(stub.arrivals().arrived)
        lost_at_kills.update(arrived - objects.finished())
        pods.start(victim)
    stub.switch(delay="0")
    for worker in pods.running.values():
        assert worker.wait() == ExitCode.DONE, worker.log.read_text()
    sent = Counter(stub.arrivals().arrived)
    report = job.merge(planned)

    assert report.request_counts.model_dump() == {"total": LINES, "completed": LINES, "failed": 0}
    assert ids(job.published("results.jsonl")) == ids(lines)
    again = Counter({custom_id: times - 1 for custom_id, times in sent.items() if times > 1})
    assert again <= lost_at_kills, "a request was sent again although it was kept"
    assert again.total() <= KILLS * (IN_FLIGHT + SEGMENT_LINES)
