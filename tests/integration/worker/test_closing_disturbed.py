"""A closing merge that is stopped, run again, or not alone: what it publishes stays the same."""

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport, Progress
from batchwright.api.undone import Undone
from batchwright.worker import merge as merge_module
from batchwright.worker.failures import StageFailed
from batchwright.worker.merge import merge
from fixtures.closing import (
    CANCELLED,
    LINES,
    LINES_PER_SHARD,
    close,
    commit,
    every_request_ended_once,
    failure,
    keep,
    once,
    start_closing,
    success,
    work_of,
)
from fixtures.fault_proxy import Before, FaultProxy, IgnoreConditions
from fixtures.worker import (
    WAIT_SECONDS,
    JobUnderTest,
    StageProcess,
    chat_line,
    chat_lines,
    wait_until,
)
from stub.harness import StubProcess


class TestAgain:
    """It may be run again at any time, with the same result."""

    def test_after_its_own_end(self, small_job: JobUnderTest) -> None:
        planned = small_job.plan()
        commit(small_job, planned, 2)
        first = close(small_job, planned)
        content = {name: small_job.published_bytes(name) for name in ("results.jsonl", "errors.jsonl", "retry.jsonl")}
        for report in (close(small_job, planned), close(small_job, planned, Undone.EXPIRED), small_job.merge(planned)):
            assert report == first
        assert content == {name: small_job.published_bytes(name) for name in content}

    @pytest.mark.parametrize(
        ("stop", "moments"), [(StageProcess.kill, (1, 5, 9, 4, 2)), (StageProcess.terminate, (6,))]
    )
    def test_after_it_was_stopped_at_any_moment(
        self,
        proxied_job: JobUnderTest,
        s3_proxy: FaultProxy,
        stop: Callable[[StageProcess], None],
        moments: tuple[int, ...],
    ) -> None:
        job = proxied_job
        planned = job.plan()
        commit(job, planned, 0)
        keep(job, planned, success(planned, 5), failure(planned, 6), shard=1)
        ended = []
        for writes in moments:
            with stopped_before(s3_proxy, writes) as reached:
                process = start_closing(job, planned)
                wait_until(
                    lambda process=process, reached=reached: reached.is_set() or process.process.poll() is not None
                )
                if reached.is_set():
                    stop(process)
            ended.append(process.wait())
        assert len({*ended} - {ExitCode.DONE}) == 1, "it was stopped in its midst"
        report = start_closing(job, planned).report(MergeReport)
        assert report.error_codes == {"request_timeout": 1, CANCELLED: LINES - LINES_PER_SHARD - 2}
        every_request_ended_once(job, report)
        store, layout = work_of(job, planned)
        assert not list(store.list(layout.shard_files)), "what was written by killed attempts is gone"

    def test_by_two_at_once(self, either_job: JobUnderTest) -> None:
        planned = either_job.plan()
        commit(either_job, planned, 0)
        keep(either_job, planned, success(planned, 9), shard=2)
        both_began = threading.Barrier(2, timeout=WAIT_SECONDS)
        with ThreadPoolExecutor(2) as both:
            closing = [both.submit(close, either_job, planned, closed=once(both_began.wait)) for _ in range(2)]
            reports = [future.result(60) for future in closing]
        assert reports[0] == reports[1]
        every_request_ended_once(either_job, reports[0])


@contextmanager
def stopped_before(proxy: FaultProxy, writes: int) -> Iterator[threading.Event]:
    """The store takes one write less than that, and hangs at the next one, of which the event tells."""
    reached, released, numbers = threading.Event(), threading.Event(), itertools.count(1)

    def hang() -> None:
        if next(numbers) >= writes:
            reached.set()
            released.wait(WAIT_SECONDS)

    proxy.inject("PutObject", Before(hang))
    try:
        yield reached
    finally:
        proxy.clear()
        released.set()


class TestZombies:
    """Workers that should be gone by then. Whoever writes a shard's record first wins, and nothing is mixed."""

    def test_one_that_commits_first_wins(self, either_job: JobUnderTest) -> None:
        job = either_job
        planned = job.plan()
        report = close(job, planned, closed=once(lambda: job.work(planned)))
        assert (report.request_counts.completed, report.errors) == (LINES, None)
        every_request_ended_once(job, report)

    def test_one_that_commits_first_wins_on_a_store_without_conditional_put(
        self, proxied_job: JobUnderTest, s3_proxy: FaultProxy
    ) -> None:
        job = proxied_job
        s3_proxy.inject("PutObject", IgnoreConditions())
        planned = job.plan()
        report = close(job, planned, closed=once(lambda: job.work(planned)))
        assert (report.request_counts.completed, report.errors) == (LINES, None)
        every_request_ended_once(job, report)

    def test_one_that_wakes_up_later_changes_nothing(self, proxied_job: JobUnderTest, stub: StubProcess) -> None:
        lines = [line | chat_line(line["custom_id"], "delay=4,times=1") for line in chat_lines(LINES)]
        job = proxied_job.with_spec(requests={"maxConcurrency": LINES}).input(lines)
        planned = job.plan()
        zombie = job.start_worker(planned, spool="zombie")
        wait_until(lambda: stub.arrivals().total == LINES)
        zombie.process.send_signal(signal.SIGSTOP)
        first = close(job, planned)
        assert first.error_codes == {CANCELLED: first.request_counts.failed}
        assert first.request_counts.failed
        errors = job.published_bytes("errors.jsonl")

        zombie.process.send_signal(signal.SIGCONT)
        assert zombie.wait() == ExitCode.DONE, zombie.log.read_text()
        assert zombie.report(Progress).completed == first.request_counts.completed, "it has lost the others"
        assert close(job, planned) == first
        assert job.published_bytes("errors.jsonl") == errors
        store, layout = work_of(job, planned)
        assert not list(store.list(layout.shard_files))


class TestTakenOver:
    """The BatchJob was deleted and applied again, while the pod of its closing merge is still there."""

    @pytest.mark.parametrize("moment", ["closed", "progressed"])
    def test_it_gives_up_nothing_of_the_new_ones_work(
        self, small_job: JobUnderTest, stub: StubProcess, monkeypatch: pytest.MonkeyPatch, moment: str
    ) -> None:
        monkeypatch.setattr(merge_module, "OWNER_SECONDS", 0.0)
        old, new = (replace(small_job, metadata={"uid": uid}) for uid in ("uid-1", "uid-2"))
        planned = old.plan()
        taken_over = once(lambda: new.work(new.plan()))
        with pytest.raises(StageFailed) as failed:
            merge(old.stage(), fingerprint=planned.fingerprint, undone=Undone.CANCELLED, **{moment: taken_over})
        assert failed.value.report.reason is Reason.OUTPUT_OWNED_BY_ANOTHER
        report = new.merge(new.plan())
        assert (report.request_counts.completed, report.errors) == (LINES, None)
        every_request_ended_once(new, report)
        assert stub.arrivals().total == LINES
