"""`batchwright run`: the three stages on this machine, from the same manifest as on a cluster."""

import asyncio
import signal
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path
from typing import Final
from uuid import uuid4

import uvloop
from rich.console import Console
from rich.markup import escape

from batchwright.api import failure_limit
from batchwright.api.batchjob import BatchJob
from batchwright.api.reports import FailureReport, MergeReport, PlanReport, Progress, ShardsMissingReport
from batchwright.api.status import RequestCounts
from batchwright.api.undone import Undone
from batchwright.api.worker_job import WorkerJob
from batchwright.batchfile.owner_record import LOCAL_CLUSTER
from batchwright.cli.display import Display, Update
from batchwright.cli.manifest import ManifestError, read_manifest, with_endpoint_url
from batchwright.worker.api_key import ApiKey
from batchwright.worker.failures import failure_of
from batchwright.worker.merge import merge
from batchwright.worker.plan import plan
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.runner import Runner
from batchwright.worker.run.stage_run import run
from batchwright.worker.stage import Mounts, Stage, open_stage

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
REFRESH_SECONDS: Final = 0.2
SHOWN_ERRORS: Final = 10
NOWHERE: Final = Path("/nonexistent")


class Finish(Enum):
    """How the run ended."""

    DONE = auto()
    INTERRUPTED = auto()
    TOO_MANY_FAILURES = auto()


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """What the command line says."""

    manifest: Path
    server: str | None = None
    endpoint_url: str | None = None
    api_key_file: Path | None = None
    spool: Path | None = None


def run_locally(options: LocalOptions, console: Console | None = None) -> int:
    """Run a BatchJob to its end; gives the exit code.

    Raises:
        ManifestError: the manifest can't be used on this machine.
    """
    console = console or Console()
    job = _worker_job(options)
    with tempfile.TemporaryDirectory(prefix="batchwright-", dir=options.spool) as spool:
        try:
            # Secrets and certificates are mounted in pods only; here the environment stands in for them.
            stage = open_stage(job, Mounts(NOWHERE, NOWHERE, NOWHERE, Path(spool)))
            return _run_stages(replace(stage, api_key=ApiKey(options.api_key_file)), console)
        except KeyboardInterrupt:
            console.print("Interrupted. The same command goes on where it stopped.")
            return EXIT_INTERRUPTED
        except Exception as error:
            failure = failure_of(error)
            _show_failure(console, failure.report)
            return EXIT_FAILED


def _worker_job(options: LocalOptions) -> WorkerJob:
    job: BatchJob = read_manifest(options.manifest)
    if options.endpoint_url:
        job = with_endpoint_url(job, options.endpoint_url)
    if job.spec.resume == "Never":
        job = job.model_copy(update={"metadata": job.metadata.model_copy(update={"uid": str(uuid4())})})
    server = options.server or (job.spec.server and job.spec.server.url)
    if not server:
        raise ManifestError("no model server is known here: give --server http://host:port")
    return WorkerJob(batchjob=job, cluster=LOCAL_CLUSTER, server_url=server.rstrip("/"))


def _run_stages(stage: Stage, console: Console) -> int:
    display = Display(console)
    with display.bytes("plan") as update:
        planned = plan(stage, progressed=update)
    console.print(f"{planned.lines:,} requests in {planned.shards:,} shards for {planned.model}, {planned.endpoint}")
    if stand := _standing(planned):
        console.print(f"{stand:,} of {planned.lines:,} requests stand from an earlier run.")
    began = datetime.now(UTC)
    with display.requests("run") as update:
        finished = uvloop.run(_run_worker(stage, planned, update))
    if finished is Finish.INTERRUPTED:
        raise KeyboardInterrupt
    undone = Undone.FAILED if finished is Finish.TOO_MANY_FAILURES else None
    with display.bytes("merge") as update:
        report = merge(stage, fingerprint=planned.fingerprint, undone=undone, began=began, progressed=update)
    if isinstance(report, ShardsMissingReport):
        console.print(f"[red]Shards {report.shards} are missing.[/] Run the same command again.")
        return EXIT_FAILED
    limit = failure_limit.exceeded(stage.job.batchjob.spec, report.request_counts)
    _show_results(console, report, "completed" if limit is None else "failed")
    if limit is not None:
        console.print(f"More requests failed than spec.requests.maxFailures ({limit}) allows.")
    return EXIT_DONE if limit is None else EXIT_FAILED


async def _run_worker(stage: Stage, planned: PlanReport, update: Update) -> Finish:
    """Send the requests."""
    loop = asyncio.get_running_loop()
    finish = Finish.DONE

    def started(runner: Runner, progress: RunProgress) -> None:
        def stop() -> None:
            nonlocal finish
            if finish is Finish.INTERRUPTED:
                runner.abandon()
            finish = Finish.INTERRUPTED
            runner.stop()

        def look(worked: Progress) -> None:
            nonlocal finish
            _show_progress(worked, planned, update)
            counts = RequestCounts(total=planned.lines, failed=_failed(worked, planned))
            if finish is Finish.DONE and failure_limit.exceeded(stage.job.batchjob.spec, counts):
                finish = Finish.TOO_MANY_FAILURES
                runner.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        stack.push_async_callback(_end, loop.create_task(_refresh(progress, look)))

    async with AsyncExitStack() as stack:
        final = await run(stage, fingerprint=planned.fingerprint, run=1, index=0, workers=1, started=started)
    _show_progress(final, planned, update)
    return finish


async def _refresh(progress: RunProgress, look: Callable[[Progress], None]) -> None:
    while True:
        look(progress.report())
        await asyncio.sleep(REFRESH_SECONDS)


def _show_progress(worked: Progress, planned: PlanReport, update: Update) -> None:
    failed = _failed(worked, planned)
    done = worked.completed + worked.failed + _standing(planned)
    update(min(done, planned.lines), planned.lines, min(failed, planned.lines))  # a run that is done tells it again


def _failed(worked: Progress, planned: PlanReport) -> int:
    return worked.failed + (planned.reused.failed if planned.reused else 0)


def _standing(planned: PlanReport) -> int:
    return planned.reused.completed + planned.reused.failed if planned.reused else 0


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _show_results(console: Console, report: MergeReport, outcome: str) -> None:
    counts, usage = report.request_counts, report.usage
    console.print(f"[bold]{outcome}[/]: {counts.completed:,} of {counts.total:,} requests, {counts.failed:,} failed")
    if usage.total_tokens is not None:
        console.print(f"tokens: {usage.input_tokens or 0:,} in, {usage.output_tokens or 0:,} out")
    if report.error_codes:
        console.print("failures: " + ", ".join(f"{code}: {count:,}" for code, count in report.error_codes.items()))
    for name, published in (("results", report.output), ("errors", report.errors), ("retry", report.retry)):
        if published is not None:
            console.print(f"{name}: {escape(published.uri)}", soft_wrap=True)
    for warning in report.warnings:
        console.print(f"[yellow]warning[/]: {escape(warning)}", soft_wrap=True)


def _show_failure(console: Console, report: FailureReport) -> None:
    console.print(f"[bold red]failed[/] ({report.reason}): {escape(report.message)}", soft_wrap=True)
    for error in report.validation_errors[:SHOWN_ERRORS]:
        place = f"line {error.line}" if error.line is not None else "file"
        console.print(f"  {place}: {error.code}: {escape(error.message)}", soft_wrap=True)
    if report.validation_errors_uri:
        console.print(f"  all errors: {escape(report.validation_errors_uri)}", soft_wrap=True)
