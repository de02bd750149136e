"""How many calls to the store a job costs. They grow with the shards, and with nothing else; docs/performance.md tells
these figures.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from batchwright.api.reports import PlanReport
from batchwright.api.undone import Undone
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.result_line import result_line
from batchwright.batchfile.shard_record import RESULTS, ShardFile, ShardRecord, Totals
from batchwright.storage.s3 import S3Store
from batchwright.worker.merge import merge
from batchwright.worker.run.stage_run import run
from batchwright.worker.stage import Stage
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_line, chat_lines, ids

LINES_PER_SHARD = 3
FEW, MANY = 4, 10
"""Shards of the two jobs whose calls are compared."""


@pytest.fixture
def bucket_job(job: JobUnderTest, s3_bucket: S3Bucket) -> JobUnderTest:
    return job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))


@contextmanager
def counting(stage: Stage) -> Iterator[Counter[str]]:
    """The calls that the stage's stores make while the body runs, by operation. Tries after a failure count once."""
    calls: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        calls[model.name] += 1

    stores = [store for store in (stage.input_store, stage.output_store) if isinstance(store, S3Store)]
    clients = {client for store in stores for client in (store._clients.default, store._clients.patient)}
    for client in clients:
        client.meta.events.register("before-call.s3", count)
    try:
        yield calls
    finally:
        for client in clients:
            client.meta.events.unregister("before-call.s3", count)


def calls_of(job: JobUnderTest, shards: int, stub_switch: str | None = None) -> dict[str, Counter[str]]:
    """The calls of each stage of a job with so many shards, by one worker, in a place of its own."""
    job = replace(job, name=f"job-{shards}").with_spec(sharding={"linesPerShard": LINES_PER_SHARD})
    job = job.input(chat_lines(shards * LINES_PER_SHARD, stub_switch))
    calls: dict[str, Counter[str]] = {}
    with counting(job.stage()) as calls["plan"]:
        planned = job.plan()
    with counting(job.stage()) as calls["run"]:
        work_without_segments(job, planned)
    with counting(job.stage()) as calls["merge"]:
        job.merge(planned)
    return calls


def work_without_segments(job: JobUnderTest, planned: PlanReport) -> None:
    """One worker, to whom no shard is open for so long that it would keep what is finished."""
    beginning = {"fingerprint": planned.fingerprint, "run": 1, "index": 0, "workers": 1}
    asyncio.run(run(job.stage(), **beginning, started=lambda *_: None, segment_seconds=3600.0))


def for_each_shard(few: Counter[str], many: Counter[str]) -> dict[str, float]:
    more = Counter(many)
    more.subtract(few)
    return {name: count / (MANY - FEW) for name, count in more.items() if count}


def test_a_shard_costs_four_calls_in_the_run_and_two_in_the_merge(bucket_job: JobUnderTest) -> None:
    few, many = (calls_of(bucket_job, shards) for shards in (FEW, MANY))
    assert for_each_shard(few["plan"], many["plan"]) == {}
    # Its claim, its results, its record; and its part of the input.
    assert for_each_shard(few["run"], many["run"]) == {"PutObject": 3, "GetObject": 1}
    # Its record and its results. Deleting takes a thousand objects at a time.
    assert for_each_shard(few["merge"], many["merge"]) == {"GetObject": 2}


def test_a_shard_with_failed_requests_costs_its_errors_and_retry_lines_too(bucket_job: JobUnderTest) -> None:
    few, many = (calls_of(bucket_job, shards, "status=400") for shards in (FEW, MANY))
    assert for_each_shard(few["run"], many["run"]) == {"PutObject": 4, "GetObject": 1}
    assert for_each_shard(few["merge"], many["merge"]) == {"GetObject": 3}


def test_a_merge_of_results_and_errors_costs_four_calls_more(bucket_job: JobUnderTest) -> None:
    all_good = calls_of(bucket_job, FEW)["merge"]
    job = replace(bucket_job, name="mixed").with_spec(sharding={"linesPerShard": FEW * LINES_PER_SHARD})
    planned = job.input([*chat_lines(2), chat_line("bad", "status=400")]).plan()
    work_without_segments(job, planned)
    with counting(job.stage()) as mixed:
        job.merge(planned)
    all_good.subtract({"GetObject": 2 * FEW})
    mixed.subtract({"GetObject": 4})
    mixed.subtract(all_good)
    assert {name: count for name, count in mixed.items() if count} == {
        "PutObject": 4,
        "HeadObject": 2,
        "ListObjectsV2": -2,
    }


def test_beside_its_shards_a_worker_costs_seven_calls_and_the_merge_a_dozen(bucket_job: JobUnderTest) -> None:
    calls = calls_of(bucket_job, FEW)
    run, merge = calls["run"], calls["merge"]
    run.subtract({"PutObject": 3 * FEW, "GetObject": FEW})
    merge.subtract({"GetObject": 2 * FEW})
    # The plan; an earlier state, records, segments and claims; claims again at the end; its state.
    assert +run == {"GetObject": 1, "ListObjectsV2": 5, "PutObject": 1}
    assert +merge == {
        "GetObject": 1,
        "ListObjectsV2": 6,
        "PutObject": 2,
        "HeadObject": 1,
        "ListMultipartUploads": 1,
        "DeleteObjects": 1,
    }


def test_a_shard_costs_two_calls_in_the_plan_that_goes_on_from_an_earlier_batchjob(bucket_job: JobUnderTest) -> None:
    """What it had become, and its new record; no result is read, however many there are."""
    plans, runs = [], []
    for shards in (FEW, MANY):
        job = replace(bucket_job, name=f"job-{shards}").with_spec(
            sharding={"linesPerShard": LINES_PER_SHARD}, requests={"retries": 0}
        )
        count = shards * LINES_PER_SHARD
        job.input([*chat_lines(count - 1), chat_line(f"request-{count - 1}", "status=500,times=1")]).complete()
        with counting(job.stage()) as calls:
            planned = job.plan()
        plans.append(calls)
        with counting(job.stage()) as calls:
            work_without_segments(job, planned)
        runs.append(calls)
        job.merge(planned)
    assert for_each_shard(*plans) == {"GetObject": 1, "PutObject": 1}
    assert for_each_shard(*runs) == {}, "only the shard with the failure is worked on"


class TestClosing:
    """What is not finished when a batch is stopped."""

    def calls_of(
        self, job: JobUnderTest, shards: int, begin: Callable[[JobUnderTest, PlanReport], None]
    ) -> Counter[str]:
        job = replace(job, name=f"job-{shards}").with_spec(sharding={"linesPerShard": LINES_PER_SHARD})
        planned = job.input(chat_lines(shards * LINES_PER_SHARD)).plan()
        begin(job, planned)
        stage = job.stage()
        with counting(stage) as calls:
            merge(stage, fingerprint=planned.fingerprint, undone=Undone.CANCELLED)
        return calls

    def test_a_shard_that_nobody_began_costs_four_calls_and_three_to_be_merged(self, bucket_job: JobUnderTest) -> None:
        few, many = (self.calls_of(bucket_job, shards, lambda *_: None) for shards in (FEW, MANY))
        # Its part of the input; its errors, its retry lines, its record; and these three again.
        assert for_each_shard(few, many) == {"GetObject": 4, "PutObject": 3}
        few.subtract({"GetObject": 4 * FEW, "PutObject": 3 * FEW})
        # Errors, retry lines and a note between them. One listing tells what was begun, however many shards there are.
        # Twice it is looked whose output it is, which takes a listing and a read.
        assert +few == {
            "GetObject": 3,
            "ListObjectsV2": 8,
            "PutObject": 4,
            "HeadObject": 2,
            "ListMultipartUploads": 1,
            "DeleteObjects": 1,
        }

    def test_a_shard_that_was_begun_costs_its_listing_and_its_segments_too(self, bucket_job: JobUnderTest) -> None:
        def begin(job: JobUnderTest, planned: PlanReport) -> None:
            stage = job.stage()
            layout = stage.layout.work(planned.fingerprint)
            for shard in range(planned.shards):
                line = result_line(
                    request_id=f"batch_req_x_{shard * LINES_PER_SHARD + 1}",
                    custom_id=f"request-{shard * LINES_PER_SHARD}",
                    status=200,
                    server_request_id="s",
                    body=b"{}",
                )
                stage.output_store.write(layout.segment(shard, "a", 0), line + b"\n")

        few, many = (self.calls_of(bucket_job, shards, begin) for shards in (FEW, MANY))
        # Beside the above: its listing, its segment; its results, to be written and merged.
        assert for_each_shard(few, many) == {"ListObjectsV2": 1, "GetObject": 6, "PutObject": 4}


class TestManyShards:
    """Shards of one line, committed as a worker would have done it."""

    PADDING = "x" * 9_000

    def plan_and_commit(self, job: JobUnderTest, shards: int) -> PlanReport:
        job = job.with_spec(sharding={"linesPerShard": 1})
        planned = job.input(chat_lines(shards)).plan()
        assert planned.shards == shards
        with ThreadPoolExecutor(16) as writers:
            list(writers.map(self.commit(job.stage(), planned), range(shards)))
        return planned

    def commit(self, stage: Stage, planned: PlanReport) -> Callable[[int], None]:
        """Writes what a worker would have written of a shard of one line."""
        store, layout, now = stage.output_store, stage.layout.work(planned.fingerprint), datetime.now(UTC)

        def commit(shard: int) -> None:
            line = result_line(
                request_id=f"r{shard}",
                custom_id=f"request-{shard}",
                status=200,
                server_request_id="s",
                body=f'{{"text":"{self.PADDING}"}}'.encode(),
            )
            key = layout.shard_file(shard, "a", RESULTS)
            store.write(key, line + b"\n")
            record = ShardRecord(
                shard=shard,
                run=1,
                index=0,
                attempt="a",
                lines=1,
                totals=Totals(1, 0, Usage(total_tokens=1)),
                started_at=now,
                finished_at=now,
                results=ShardFile(key, len(line) + 1, 1),
            )
            store.write(layout.record(shard), encode_record(record))

        return commit

    def assert_merged_in_order(self, job: JobUnderTest, planned: PlanReport) -> None:
        report = job.merge(planned)
        assert report.request_counts.completed == report.usage.total_tokens == planned.shards
        assert ids(job.published("results.jsonl")) == [f"request-{number}" for number in range(planned.shards)]

    def test_two_thousand_are_merged_in_order(self, job: JobUnderTest) -> None:
        self.assert_merged_in_order(job, self.plan_and_commit(job, 2000))

    def test_more_than_a_page_of_a_bucket_are_merged_with_a_known_number_of_calls(
        self, bucket_job: JobUnderTest, s3_bucket: S3Bucket
    ) -> None:
        """A listing gives 1,000 keys at a time, and no more may be deleted at once."""
        shards = 1010
        planned = self.plan_and_commit(bucket_job, shards)
        with counting(bucket_job.stage()) as calls:
            self.assert_merged_in_order(bucket_job, planned)
        # A part of the joined object may begin or end in the midst of a file, which is read twice then.
        assert 2 * shards <= calls["GetObject"] <= 2 * shards + 10
        assert calls.total() - calls["GetObject"] < 30
        work = f"out/job/.batchwright/{planned.fingerprint}/"
        left = s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name, Prefix=f"{work}shards/")
        assert left["KeyCount"] == 0
