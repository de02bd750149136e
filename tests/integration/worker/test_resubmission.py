"""Applying a BatchJob again: what was answered for good stands, the rest is done, and nothing is mixed."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchwright.api.reports import MergeReport, PlanReport
from batchwright.api.status import Reused
from batchwright.api.undone import Undone
from batchwright.batchfile.plan_record import PlanRecord, decode_record
from batchwright.storage.errors import StorageUnavailable
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import DeleteFailure
from batchwright.worker.merge import merge
from batchwright.worker.plan import plan
from fixtures.fault_proxy import FaultProxy, IgnoreConditions
from fixtures.resubmission import FINAL, LINES, PASSING, is_exact, sent, work_objects
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, Place, bucket_place, chat_line, chat_lines, folder_place, ids
from stub.harness import StubProcess


@pytest.fixture(params=["volume", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "volume":
        return folder_place(tmp_path / "volume")
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    return bucket_place(bucket, bucket.server.endpoint_url)


def test_what_may_succeed_now_is_sent_again_and_nothing_else(
    failing: JobUnderTest, place: Place, stub: StubProcess
) -> None:
    job = failing.at(place).input(LINES)
    first = job.complete()
    assert first.request_counts.failed == 4
    again = job.plan()
    assert again.reused is not None
    assert (again.reused.completed, again.reused.failed, again.reused.shards) == (20, 2, 4)
    assert again.reused.usage == first.usage
    assert again.reused.finish_reasons == first.finish_reasons
    assert job.plan() == again, "a second attempt of the plan says the same"

    progress = job.work(again, workers=2)
    assert sum(one.completed for one in progress) == 2, "workers count what they did"
    assert sum(one.shards_completed for one in progress) == 2
    report = job.merge(again)
    assert is_exact(job, report)
    assert report.request_counts.completed == again.reused.completed + 2
    assert {name for name, times in sent(stub).items() if times > 1} == {"id-5", "id-8"}
    kept = {"plan.json", "origin.json", "records", "claims", "workers", "summary.json"}
    assert work_objects(job, again.fingerprint) == kept
    assert job.merge(again) == report


def test_once_nothing_is_left_that_may_succeed_it_is_done_at_once(failing: JobUnderTest, stub: StubProcess) -> None:
    failing.complete()
    report = failing.complete()
    before = sent(stub)
    planned = failing.plan()
    assert planned.reused == Reused(
        completed=22, failed=2, shards=6, usage=report.usage, finish_reasons=report.finish_reasons
    )
    failing.work(planned)
    assert failing.merge(planned) == report
    assert sent(stub) == before


def test_each_time_less_is_left(job: JobUnderTest, stub: StubProcess) -> None:
    """A seeded generation is itself what the next one is seeded from."""
    job = job.with_spec(sharding={"linesPerShard": 3}, requests={"retries": 0})
    lines = [chat_line(f"id-{n}", f"status=500,times={n % 4}" if n % 4 else None) for n in range(16)]
    lines[7]["body"]["metadata"] = {"id": "id-7", "stub": FINAL}
    job.input(lines)
    reused = []
    for generation in ("", "-2", "-3", "-4", "-4"):
        planned = job.plan()
        assert planned.fingerprint.removeprefix(planned.fingerprint[:16]) == generation
        reused.append(planned.reused and (planned.reused.completed, planned.reused.failed))
        job.work(planned)
        assert is_exact(job, job.merge(planned), lines)
    assert reused == [None, (4, 1), (8, 1), (12, 1), (15, 1)]
    assert sent(stub) == {f"id-{n}": 1 if n == 7 else n % 4 + 1 for n in range(16)}


def test_a_stopped_batchjob_goes_on_where_it_stood(failing: JobUnderTest, stub: StubProcess) -> None:
    """Published with `batch_cancelled` for what was not done: shards that are whole, in part, and not at all."""
    job = failing
    planned = job.plan()
    job.work(planned)
    folder = work_folder(planned)
    keep_in_segments(job, planned, shard=2, lines=3)
    for shard in (2, 4, 5):
        (folder / "records" / f"{shard:06d}.json").unlink()
    stopped = merge(job.stage(), fingerprint=planned.fingerprint, undone=Undone.CANCELLED)
    assert isinstance(stopped, MergeReport)
    assert is_exact(job, stopped)
    assert stopped.error_codes == {"batch_cancelled": 9, "400": 2, "500": 2}

    before = sent(stub)
    again = job.plan()
    assert again.reused is not None
    assert (again.reused.completed, again.reused.failed, again.reused.shards) == (11, 2, 2)
    job.work(again)
    report = job.merge(again)
    assert is_exact(job, report)
    assert report.error_codes == {"400": 2}
    unfinished = {"id-11", *(f"id-{n}" for n in range(16, 24)), "id-5", "id-8"}
    assert sent(stub) - before == dict.fromkeys(unfinished, 1)


class RefusingDeletes(FileStore):
    """A volume on which nothing can be deleted just now."""

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        return tuple(DeleteFailure(key, "away", None, retryable=True) for key in keys)


def test_a_stop_that_was_never_published_is_taken_back(failing: JobUnderTest, stub: StubProcess) -> None:
    """The BatchJob was deleted while its closing merge was at work."""
    job = failing
    planned = job.plan()
    job.work(planned)
    for shard in (4, 5):
        (work_folder(planned) / "records" / f"{shard:06d}.json").unlink()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge(job.stage(), fingerprint=planned.fingerprint, undone=Undone.EXPIRED, progressed=killed)
    stage = job.stage()
    refusing = RefusingDeletes(Path(stage.output_store.uri("").removeprefix("file://")))
    with pytest.raises(StorageUnavailable, match=r"records/000004\.json"):
        plan(replace(stage, output_store=refusing), server_patience=0.0)
    again = job.plan()
    assert again.fingerprint == planned.fingerprint
    job.work(again)
    report = job.merge(again)
    assert is_exact(job, report)
    assert report.error_codes == {"400": 2, "500": 2}


def keep_in_segments(job: JobUnderTest, planned: PlanReport, *, shard: int, lines: int) -> None:
    """Put a part of what a shard's files hold into a segment, as a worker had left it."""
    store, layout = job.stage().output_store, job.stage().layout.work(planned.fingerprint)
    keys = [
        info.key for info in store.list(f"{layout.shard_files}{shard:06d}/") if not info.key.endswith("retry.jsonl")
    ]
    finished = [one for key in keys for one in store.read(key).splitlines(keepends=True)]
    finished.sort(key=lambda one: int(one.partition(b'"custom_id":"id-')[2].partition(b'"')[0]))
    store.write(layout.segment(shard, "left", 0), b"".join(finished[:lines]))


def work_folder(planned: PlanReport) -> Path:
    return Path(planned.plan_uri.removeprefix("file://")).parent


class TestNames:
    """spec.output.names may be others by then."""

    def renamed(self, job: JobUnderTest, **names: str) -> JobUnderTest:
        return job.with_spec(output={"uri": job.place.output_uri, "names": names})

    def test_other_names(self, failing: JobUnderTest, stub: StubProcess) -> None:
        failing.complete()
        earlier = failing.published_bytes("results.jsonl")
        job = self.renamed(failing, results="answers.jsonl", errors="failures.jsonl")
        report = job.complete()
        assert report.output is not None
        assert report.output.uri.endswith("/answers.jsonl")
        assert is_exact(job, report)
        assert failing.published_bytes("results.jsonl") == earlier, "the earlier objects stay"
        assert sent(stub).total() == 24 + 2

    @pytest.mark.parametrize("passing", [PASSING, None], ids=["some run again", "all stand"])
    def test_names_that_change_places(self, failing: JobUnderTest, stub: StubProcess, passing: str | None) -> None:
        lines = [chat_line(f"id-{n}", {3: FINAL, 6: passing}.get(n)) for n in range(8)]
        failing.input(lines).complete()
        before = sent(stub)
        job = self.renamed(failing, results="errors.jsonl", errors="results.jsonl")
        assert is_exact(job, job.complete(), lines)
        assert sent(stub) - before == ({"id-6": 1} if passing else {})


class TestGone:
    """What the earlier BatchJob published is deleted or overwritten: the work is done again."""

    @pytest.mark.parametrize("name", ["results.jsonl", "errors.jsonl", "retry.jsonl"])
    @pytest.mark.parametrize("content", [None, b"x"], ids=["deleted", "overwritten"])
    def test_before_the_plan(self, failing: JobUnderTest, stub: StubProcess, name: str, content: bytes | None) -> None:
        failing.complete()
        path = Path(failing.place.output_uri.removeprefix("file://"), "job", name)
        path.unlink() if content is None else path.write_bytes(content)
        planned = failing.plan()
        assert (planned.reused, planned.fingerprint[-2:]) == (None, "-2")
        failing.work(planned)
        assert is_exact(failing, failing.merge(planned))
        assert sent(stub) == dict.fromkeys(ids(LINES), 2)

    def test_after_the_plan_it_matters_no_more(self, failing: JobUnderTest, stub: StubProcess) -> None:
        failing.complete()
        planned = failing.plan()
        for name in ("results.jsonl", "errors.jsonl", "retry.jsonl"):
            Path(failing.place.output_uri.removeprefix("file://"), "job", name).unlink()
        assert failing.plan() == planned
        failing.work(planned)
        assert is_exact(failing, failing.merge(planned))
        assert sent(stub).total() == 24 + 2

    def test_a_copy_that_is_gone(self, failing: JobUnderTest) -> None:
        failing.complete()
        planned = failing.plan()
        (work_folder(planned) / "earlier" / "results.jsonl").unlink()
        again = failing.plan()
        assert (again.reused, again.fingerprint[-2:]) == (None, "-3")
        failing.work(again)
        assert is_exact(failing, failing.merge(again))

    def test_a_record_that_is_gone(self, failing: JobUnderTest) -> None:
        first = failing.plan()
        failing.work(first)
        failing.merge(first)
        (work_folder(first) / "records" / "000003.json").unlink()
        again = failing.plan()
        assert (again.reused, again.fingerprint[-2:]) == (None, "-2")
        failing.work(again)
        assert is_exact(failing, failing.merge(again))


def test_nothing_failed_so_there_are_no_errors_to_copy(job: JobUnderTest, stub: StubProcess) -> None:
    """A stop is what leaves requests undone then."""
    job = job.with_spec(sharding={"linesPerShard": 2}).input(chat_lines(6))
    planned = job.plan()
    job.work(planned)
    (work_folder(planned) / "records" / "000001.json").unlink()
    merge(job.stage(), fingerprint=planned.fingerprint, undone=Undone.FAILED)
    assert is_exact(job, job.complete(), chat_lines(6))
    assert sent(stub).total() == 8
    assert not (Path(job.place.output_uri.removeprefix("file://")) / "job" / "errors.jsonl").exists()


def test_on_a_store_without_conditional_put(
    failing: JobUnderTest, stub: StubProcess, s3_bucket: S3Bucket, s3_proxy: FaultProxy
) -> None:
    s3_proxy.inject("PutObject", IgnoreConditions())
    job = failing.at(bucket_place(s3_bucket, s3_proxy.endpoint_url)).input(LINES)
    job.complete(workers=2)
    planned = job.plan()
    assert not decode_record(job.place.get(planned.plan_uri), PlanRecord).conditional_put
    job.work(planned, workers=3)
    assert is_exact(job, job.merge(planned))
    assert sent(stub).total() == 24 + 2


def test_with_work_objects_kept(failing: JobUnderTest, stub: StubProcess) -> None:
    job = failing.with_settings(keepWorkObjects=True)
    job.complete()
    report = job.complete()
    assert is_exact(job, report)
    assert sent(stub).total() == 24 + 2
    Path(job.place.output_uri.removeprefix("file://"), "job", "results.jsonl").unlink()
    assert job.complete() == report, "its parts stand still"


def test_never_begins_anew(failing: JobUnderTest, stub: StubProcess) -> None:
    fresh: Callable[[str], JobUnderTest] = lambda uid: replace(  # noqa: E731
        failing.with_spec(resume="Never"), metadata={"uid": uid}
    )
    first, second = fresh("uid-1"), fresh("uid-2")
    assert is_exact(first, first.complete())
    planned = second.plan()
    assert planned.reused is None
    assert second.plan() == planned, "its own work it goes on with"
    second.work(planned)
    assert is_exact(second, second.merge(planned))
    assert sent(stub) == dict.fromkeys(ids(LINES), 2)
