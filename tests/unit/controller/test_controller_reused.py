"""A BatchJob that is applied again shows what stands from the one before it, and counts it from the plan on."""

from batchwright.api.conditions import Phase
from batchwright.api.reports import PlanReport, Progress
from batchwright.api.status import BatchJobStatus, Metrics, RequestCounts, Reused, ShardCounts, Usage
from builders import BatchJobBuilder, ago, batchjob, job
from fixtures.reconciling import MERGED, PLANNED, created, plan_for, status_of

REUSED = Reused(completed=2990, failed=10, shards=2, usage=Usage(total_tokens=6), finish_reasons={"stop": 2990})
SENTENCE = "3000 of 4000 requests stand from an earlier BatchJob of this name."


def planned(reused: Reused | None) -> BatchJobBuilder:
    """The plan has just ended."""
    report: PlanReport = PLANNED.model_copy(update={"reused": reused})
    return batchjob().with_job(job("plan").ended_pod(report).complete())


def running(reused: Reused | None = REUSED) -> BatchJobBuilder:
    """The run goes on with what the plan found."""
    counts = RequestCounts(total=4000, completed=2990, failed=10)
    return batchjob().planned().with_status(reused=reused, request_counts=counts, in_progress_at=ago(seconds=100))


def test_it_is_in_the_status_once_the_plan_is_done() -> None:
    plan = plan_for(planned(REUSED))
    assert created(plan) == ["run-1"]
    status = plan.status
    assert status is not None
    assert status.reused == REUSED
    assert status.request_counts == RequestCounts(total=4000, completed=2990, failed=10)
    assert status.shards == ShardCounts(total=4, completed=2)
    assert (status.usage, status.finish_reasons) == (REUSED.usage, REUSED.finish_reasons)
    assert status.progress == "3000/4000"
    assert status.message == f"Running with 2 workers. {SENTENCE}", "no worker for a shard that stands"


def test_where_everything_stands_one_worker_finds_it_so() -> None:
    everything = Reused(completed=3990, failed=10, shards=4)
    assert status_of(planned(everything)).parallelism == 1


def test_nothing_is_said_of_it_where_nothing_stands() -> None:
    status = status_of(planned(None))
    assert status.reused is None
    assert status.request_counts == RequestCounts(total=4000)
    assert status.message == "Running with 4 workers."


def test_workers_add_to_it() -> None:
    builder = (
        running().with_job(job("run", 1).running_pod(index=0)).with_progress(Progress(index=0, run=1, completed=7))
    )
    status = status_of(builder)
    assert status.request_counts == RequestCounts(total=4000, completed=2997, failed=10)
    assert status.progress == "3007/4000"


def merged(reused: Reused | None) -> BatchJobStatus:
    builder = running(reused).with_status(finalizing_at=ago(seconds=50))
    return status_of(builder.with_job(job("run", 1).complete(), job("merge", 1).ended_pod(MERGED)))


def test_at_the_end_the_message_tells_it_and_the_totals_are_the_merges() -> None:
    status = merged(REUSED)
    assert status.phase is Phase.COMPLETED
    assert status.message is not None
    assert status.message.endswith(f"errors.jsonl. {SENTENCE}")
    assert (status.request_counts, status.usage) == (MERGED.request_counts, MERGED.usage)
    assert status.reused == REUSED


def test_how_fast_the_run_was_is_told_by_what_it_did_itself() -> None:
    assert merged(REUSED).metrics == Metrics(
        response_time_seconds="50", requests_per_second="20.0", throughput_tokens_per_second="0.1"
    )
    everything = REUSED.model_copy(update={"completed": 3990})
    assert merged(everything).metrics == Metrics(response_time_seconds="50")
