"""The merge publishes once all is there, and can be run again at any time with the same result."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport, PlanReport, Progress, ShardsMissingReport
from batchwright.worker.failures import StageFailed
from batchwright.worker.merge import merge
from batchwright.worker.plan import plan
from fixtures.fault_proxy import Before, FaultProxy
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_line, chat_lines, ids
from stub.harness import StubProcess


@pytest.fixture
def done(job: JobUnderTest) -> tuple[JobUnderTest, PlanReport]:
    job = job.with_spec(sharding={"linesPerShard": 4})
    job.input([chat_line(f"id-{n}", "status=400" if n % 5 == 3 else None) for n in range(20)])
    planned = job.plan()
    job.work(planned, workers=2)
    return job, planned


def work_objects(planned: PlanReport) -> set[str]:
    folder = Path(planned.plan_uri.removeprefix("file://")).parent
    return {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}


def test_afterwards_only_what_a_resubmission_needs_is_left(done: tuple[JobUnderTest, PlanReport]) -> None:
    job, planned = done
    assert work_objects(planned) > {"shards", "records"}
    job.merge(planned)
    assert work_objects(planned) == {"plan.json", "records", "claims", "workers", "summary.json"}


def test_after_its_own_end(done: tuple[JobUnderTest, PlanReport]) -> None:
    job, planned = done
    first = job.merge(planned)
    content = {name: job.published_bytes(name) for name in ("results.jsonl", "errors.jsonl", "retry.jsonl")}
    assert job.merge(planned) == first
    assert content == {name: job.published_bytes(name) for name in content}


def test_with_work_objects_kept(done: tuple[JobUnderTest, PlanReport]) -> None:
    job, planned = done
    job = job.with_settings(keepWorkObjects=True)
    first = job.merge(planned)
    Path(job.place.output_uri.removeprefix("file://"), "job", "errors.jsonl").unlink()
    assert job.merge(planned) == first
    assert len(job.published("errors.jsonl")) == 4


def test_of_which_another_merge_comes_to_its_end_meanwhile(job: JobUnderTest) -> None:
    """The slower one replaces an object of the same content, which has another ETag on a volume, and finds the rest
    gone.
    """
    job = job.with_spec(sharding={"linesPerShard": 20})
    planned = job.input([chat_line(f"id-{n}", "status=400" if n % 5 == 3 else None) for n in range(20)]).plan()
    job.work(planned)
    faster: list[MergeReport] = []

    def overtaken(done: int, _total: int) -> None:
        if done and not faster:
            faster.append(job.merge(planned))

    assert merge(job.stage(), fingerprint=planned.fingerprint, progressed=overtaken) == faster[0]
    assert (len(job.published("results.jsonl")), len(job.published("errors.jsonl"))) == (16, 4)
    assert job.merge(planned) == faster[0], "it still stands"


def test_by_two_at_once(done: tuple[JobUnderTest, PlanReport]) -> None:
    job, planned = done
    job = job.with_settings(keepWorkObjects=True)
    with ThreadPoolExecutor(2) as both:
        reports = [future.result(60) for future in [both.submit(job.merge, planned) for _ in range(2)]]
    assert reports[0] == reports[1]
    assert len(job.published("results.jsonl")) == 16


def test_what_another_run_published_since_is_not_taken_for_ones_own(done: tuple[JobUnderTest, PlanReport]) -> None:
    job, planned = done
    first = job.merge(planned)
    size = len(job.published_bytes("results.jsonl"))
    job.place.put(f"{job.place.output_uri}job/results.jsonl", b"x" * size)
    with pytest.raises(StageFailed, match="Create the BatchJob anew") as failure:
        job.merge(planned)
    assert failure.value.report.reason is Reason.MERGE_FAILED
    assert job.complete().request_counts == first.request_counts, "and that remedy helps"
    assert len(job.published("results.jsonl")) == 16


class TestSecondLife:
    """The same work again, when the merge of the first time has cleaned up."""

    def test_it_is_found_done_as_long_as_its_results_stand(
        self, done: tuple[JobUnderTest, PlanReport], stub: StubProcess
    ) -> None:
        job, planned = done
        first, sent = job.merge(planned), stub.arrivals().total
        again = job.plan()
        assert again.fingerprint == planned.fingerprint
        assert again.reused is not None
        assert (again.reused.completed, again.reused.failed, again.reused.shards) == (16, 4, 5)
        assert job.complete() == first
        assert stub.arrivals().total == sent

    @pytest.mark.parametrize("name", ["results.jsonl", "errors.jsonl", "retry.jsonl"])
    def test_it_is_done_again_when_results_were_deleted(self, done: tuple[JobUnderTest, PlanReport], name: str) -> None:
        job, planned = done
        first = job.merge(planned)
        folder(job).joinpath(name).unlink()
        again = job.plan()
        assert again.fingerprint == f"{planned.fingerprint}-2"
        assert job.plan() == again, "a second attempt of the plan finds the same"
        job.work(again)
        assert job.merge(again).request_counts == first.request_counts
        assert ids(job.published("results.jsonl")) == [f"id-{n}" for n in range(20) if n % 5 != 3]
        folder(job).joinpath(name).unlink()
        assert job.plan().fingerprint == f"{planned.fingerprint}-3"

    def test_it_goes_on_where_it_stood_before_the_merge(
        self, done: tuple[JobUnderTest, PlanReport], stub: StubProcess
    ) -> None:
        job, planned = done
        sent = stub.arrivals().total
        assert job.plan() == planned
        job.complete()
        assert stub.arrivals().total == sent

    def test_it_is_joined_anew_where_the_shard_files_were_kept(
        self, done: tuple[JobUnderTest, PlanReport], stub: StubProcess
    ) -> None:
        job, planned = done
        job = job.with_settings(keepWorkObjects=True)
        first, sent = job.merge(planned), stub.arrivals().total
        folder(job).joinpath("results.jsonl").unlink()
        assert job.complete() == first
        assert stub.arrivals().total == sent

    def test_an_input_that_was_another_in_between(self, job: JobUnderTest, s3_bucket: S3Bucket) -> None:
        job = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))
        for prefix in ("a", "b", "a", "b"):
            report = job.input(chat_lines(3, prefix=prefix)).complete()
            assert report.request_counts.completed == 3
            assert ids(job.published("results.jsonl")) == ids(chat_lines(3, prefix=prefix))


class TestOtherNames:
    """The same work, and spec.output.names are others than when it was published."""

    def test_the_results_are_copied_to_them(self, done: tuple[JobUnderTest, PlanReport], stub: StubProcess) -> None:
        job, planned = done
        first, sent = job.merge(planned), stub.arrivals().total
        renamed = job.with_spec(output={"uri": job.place.output_uri, "names": {"results": "answers.jsonl"}})
        report = renamed.complete()
        assert report.output is not None
        assert report.output.uri == f"{job.place.output_uri}job/answers.jsonl"
        assert report.errors == first.errors
        assert renamed.published("answers.jsonl") == job.published("results.jsonl")
        assert renamed.merge(planned) == report
        assert stub.arrivals().total == sent

    def test_names_that_change_places_cost_no_request_and_no_result(
        self, done: tuple[JobUnderTest, PlanReport], stub: StubProcess
    ) -> None:
        job, planned = done
        first, sent = job.merge(planned), stub.arrivals().total
        names = {"results": "errors.jsonl", "errors": "results.jsonl"}
        report = job.with_spec(output={"uri": job.place.output_uri, "names": names}).complete()
        assert report.request_counts == first.request_counts
        assert (len(job.published("errors.jsonl")), len(job.published("results.jsonl"))) == (16, 4)
        assert stub.arrivals().total == sent


class TestKilledBetweenTwoObjects:
    """What was published by then counts, as long as it stands."""

    @pytest.fixture
    def killed(self, job: JobUnderTest, s3_bucket: S3Bucket, s3_proxy: FaultProxy) -> tuple[JobUnderTest, PlanReport]:
        """The results are published, and the merge was killed over the errors."""
        job = job.quick_to_start().at(bucket_place(s3_bucket, s3_proxy.endpoint_url))
        planned = job.input([chat_line(f"id-{n}", "status=400" if n % 5 == 3 else None) for n in range(20)]).plan()
        job.work(planned)
        s3_proxy.requests.clear()
        merging = job.start_merge(planned)

        def kill() -> None:
            if put_to(s3_proxy, "errors.jsonl"):
                merging.process.kill()

        s3_proxy.inject("PutObject", Before(kill))
        assert merging.wait() < 0
        s3_proxy.clear()
        assert put_to(s3_proxy, "results.jsonl") == 1
        s3_proxy.requests.clear()
        return job, planned

    def test_only_the_others_are_joined(self, killed: tuple[JobUnderTest, PlanReport], s3_proxy: FaultProxy) -> None:
        job, planned = killed
        report = job.merge(planned)
        assert (report.request_counts.completed, report.request_counts.failed) == (16, 4)
        assert report.output is not None
        assert (report.output.lines, report.output.bytes) == (16, len(job.published_bytes("results.jsonl")))
        assert [put_to(s3_proxy, f"{kind}.jsonl") for kind in ("results", "errors", "retry")] == [0, 1, 1]
        assert job.merge(planned) == report

    def test_what_somebody_else_put_there_is_replaced(self, killed: tuple[JobUnderTest, PlanReport]) -> None:
        job, planned = killed
        results = job.published_bytes("results.jsonl")
        job.place.put(f"{job.place.output_uri}job/results.jsonl", b"x" * len(results))
        job.merge(planned)
        assert job.published_bytes("results.jsonl") == results

    def test_under_another_name_it_is_joined_too(self, killed: tuple[JobUnderTest, PlanReport]) -> None:
        job, planned = killed
        names = {"results": "answers.jsonl"}
        renamed = job.with_spec(output={"uri": job.place.output_uri, "names": names})
        renamed.merge(planned)
        assert len(renamed.published("answers.jsonl")) == 16

    def test_a_note_that_cannot_be_read_costs_no_more_than_the_joining(
        self, killed: tuple[JobUnderTest, PlanReport], s3_proxy: FaultProxy
    ) -> None:
        job, planned = killed
        store, layout = job.stage().output_store, job.stage().layout.work(planned.fingerprint)
        store.write(layout.joined, b"{")
        report = job.merge(planned)
        assert (report.request_counts.completed, report.request_counts.failed) == (16, 4)
        assert put_to(s3_proxy, "results.jsonl") == 1

    def test_shards_that_were_done_anew_are_joined_anew(self, killed: tuple[JobUnderTest, PlanReport]) -> None:
        job, planned = killed
        store, layout = job.stage().output_store, job.stage().layout.work(planned.fingerprint)
        store.delete([layout.record(0)])
        job.work(planned, run_number=2)
        before = job.published_bytes("results.jsonl")
        report = job.merge(planned)
        assert report.request_counts.completed == 16
        assert job.published_bytes("results.jsonl") != before, "each answer has an id of its own"


def put_to(proxy: FaultProxy, name: str) -> int:
    """How often an object of this name was written."""
    return sum(
        request.operation == "PutObject" and request.target.partition("?")[0].endswith(f"/job/{name}")
        for request in proxy.requests
    )


def folder(job: JobUnderTest) -> Path:
    """Where a job on a volume publishes."""
    return Path(job.place.output_uri.removeprefix("file://"), job.name)


def test_objects_of_an_earlier_run_vanish_where_this_one_has_none(job: JobUnderTest) -> None:
    job.input([chat_line("a", "status=400")]).complete()
    assert job.published("errors.jsonl")
    job.input([chat_line("a")]).complete()
    for name in ("errors.jsonl", "retry.jsonl"):
        with pytest.raises(KeyError):
            job.published(name)


def test_shards_without_a_record_are_named(job: JobUnderTest) -> None:
    planned = job.with_spec(sharding={"linesPerShard": 1}).input(chat_lines(6)).plan()
    job.work(planned, workers=1)
    records = Path(planned.plan_uri.removeprefix("file://")).parent / "records"
    for shard in (0, 1, 2, 4):
        (records / f"{shard:06d}.json").unlink()
    process = job.start_merge(planned)
    assert process.wait() == ExitCode.SHARDS_MISSING
    report = process.report(ShardsMissingReport)
    assert (report.count, report.shards) == (4, "0-2,4")


def test_a_repair_does_what_is_missing_and_no_more(job: JobUnderTest, stub: StubProcess) -> None:
    job = job.with_spec(sharding={"linesPerShard": 1})
    planned = job.input(chat_lines(6)).plan()
    job.work(planned)
    records = Path(planned.plan_uri.removeprefix("file://")).parent / "records"
    (records / "000003.json").unlink()
    job.work(planned, run_number=2, workers=2)
    job.merge(planned)
    assert ids(job.published("results.jsonl")) == ids(chat_lines(6))
    assert {name for name, times in stub.arrivals().arrived.items() if times > 1} == {"request-3"}


def test_progress_counts_what_is_done_by_now(job: JobUnderTest) -> None:
    planned = job.input(chat_lines(5)).plan()
    (progress,) = job.work(planned)
    assert progress == Progress(
        index=0,
        run=1,
        completed=5,
        shards_completed=5,
        usage=progress.usage,
        finish_reasons={"stop": 5},
        concurrency=progress.concurrency,
    )


def test_progress_is_told_on_the_way(job: JobUnderTest) -> None:
    seen: dict[str, list[tuple[int, int]]] = {"plan": [], "merge": []}

    def note(stage: str) -> Callable[[int, int], None]:
        return lambda done, total: seen[stage].append((done, total))

    job.input(chat_lines(50))
    planned = plan(job.stage(), progressed=note("plan"))
    job.work(planned)
    merge(job.stage(), fingerprint=planned.fingerprint, progressed=note("merge"))
    for told in seen.values():
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] > 0
