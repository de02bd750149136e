"""`batchwright-worker`: one stage in one pod, from a mounted job file to a report and an exit code."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvloop
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from batchwright.allocator import return_large_blocks
from batchwright.api import defaults, names
from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import InterruptedReport, Progress, Report, ShardsMissingReport, encode_report
from batchwright.api.undone import Undone
from batchwright.api.worker_job import WorkerJob
from batchwright.storage.errors import CredentialsRevoked, EndpointUnreachable
from batchwright.storage.patience import Patience
from batchwright.worker.failures import Interrupted, failure_of, final
from batchwright.worker.http import Served, serving
from batchwright.worker.merge_stage import merge_patiently
from batchwright.worker.plan import plan
from batchwright.worker.run.drain import Drain
from batchwright.worker.run.saving import SEGMENT_SECONDS
from batchwright.worker.run.stage_run import run
from batchwright.worker.stage import Mounts, Stage, open_stage

logger = logging.getLogger("batchwright.worker")

FLUSH_SECONDS = 15.0
"""What is kept of the grace period for the last flush."""
PLAN_PATIENCE_SECONDS = 60.0
"""How long the plan tries again while the store is away. Nothing was paid for yet, and an address that is wrong must
show soon."""
INTERRUPTED_SECONDS = 5.0
"""How long the plan or the merge may take to come to its end after SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a stage; the exit code is one of ExitCode."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    return_large_blocks()
    interruption = _Interruption(options.termination_log)
    try:
        signal.signal(signal.SIGTERM, interruption.interrupt)
        stage = open_stage(_read_job(options.job), Mounts(spool=options.spool))
        code, report = _run_stage(stage, options)
    except Interrupted:
        interruption.leave()
    except Exception as error:
        code, report = _failed(error)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end has come anyway
    _write_report(options.termination_log, report)
    return int(code)


class _Interruption:
    """SIGTERM to a stage without a drain of its own: it ends at once, and begins anew next time."""

    def __init__(self, termination_log: Path) -> None:
        self._termination_log = termination_log

    def interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        """The handler: raises Interrupted, and sees to the end where that doesn't get through in time.

        Parts of a join run in threads, and who leaves the pool waits for them, for minutes if the store hangs.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        timer = threading.Timer(INTERRUPTED_SECONDS, self.leave)
        timer.daemon = True
        timer.start()
        raise Interrupted

    def leave(self) -> NoReturn:
        """Write the report and end the process, whatever its threads are at."""
        _write_report(self._termination_log, InterruptedReport(message="stopped by SIGTERM; the stage begins anew"))
        _exit_interrupted()


def _exit_interrupted() -> NoReturn:
    # A thread may hang in a call to a store that is away, and the end of Python would wait for it.
    logging.shutdown()
    os._exit(ExitCode.INTERRUPTED)


def _failed(error: Exception) -> tuple[ExitCode, Report]:
    failure = failure_of(error)
    if failure.report.reason is Reason.UNEXPECTED:
        logger.error("the stage failed", exc_info=error)
    else:
        logger.error("%s: %s", failure.report.reason, failure.report.message)
    return failure.code, failure.report


def _parser() -> argparse.ArgumentParser:
    environment = os.environ.get
    parser = argparse.ArgumentParser(prog="batchwright-worker", description="One stage of a BatchJob.")
    parser.add_argument("--job", type=Path, default=Path(names.JOB_DIRECTORY, names.JOB_FILE), help="job file")
    parser.add_argument("--spool", type=Path, default=Path(environment("BATCHWRIGHT_SPOOL", names.SPOOL_DIRECTORY)))
    parser.add_argument(
        "--termination-log",
        type=Path,
        default=Path(environment("BATCHWRIGHT_TERMINATION_LOG", names.TERMINATION_LOG)),
    )
    parser.add_argument("--log-level", default=environment("BATCHWRIGHT_LOG_LEVEL", "INFO"))
    stages = parser.add_subparsers(dest="stage", required=True)
    stages.add_parser("plan", help="check the input and split it")
    for name, text in (("run", "send requests until no shard is left"), ("merge", "publish the results")):
        stage = stages.add_parser(name, help=text)
        stage.add_argument("--fingerprint", required=True, help="identity of the work, from the plan")
        stage.add_argument("--run", type=int, default=1, help="number of the run Job")
        stage.add_argument("--port", type=int, default=names.WORKER_PORT, help="port of /progress")
    worker = stages.choices["run"]
    worker.add_argument("--workers", type=int, required=True, help="indexes of the run Job")
    worker.add_argument("--index", type=int, default=int(environment("JOB_COMPLETION_INDEX", "0")))
    worker.add_argument(
        "--segment-seconds",
        type=float,
        default=float(environment("BATCHWRIGHT_SEGMENT_SECONDS", str(SEGMENT_SECONDS))),
        help="seconds between two segments: the finished work that a killed worker loses at most",
    )
    stages.choices["merge"].add_argument(
        "--began",
        type=datetime.fromisoformat,
        metavar="TIME",
        help="when the run began, RFC 3339, for the final progress object; by default what the records tell",
    )
    stages.choices["merge"].add_argument(
        "--undone",
        type=Undone,
        choices=list(Undone),
        metavar="CODE",
        help="close a batch that was stopped: requests without an outcome get error lines of this code"
        f" ({', '.join(Undone)})",
    )
    return parser


def _read_job(path: Path) -> WorkerJob:
    try:
        return WorkerJob.model_validate_json(path.read_bytes())
    except OSError as error:
        cause = error.strerror or str(error)
    except ValidationError as error:
        cause = "; ".join(_described(one) for one in error.errors(include_url=False, include_input=False))
    raise final(ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC, f"The job file {path} can't be used: {cause}")


def _described(error: ErrorDetails) -> str:
    place = ".".join(str(part) for part in error["loc"])
    return f"{place}: {error['msg']}" if place else error["msg"]


def _run_stage(stage: Stage, options: argparse.Namespace) -> tuple[ExitCode, Report]:
    if options.stage == "run":
        return uvloop.run(_run_worker(stage, options))
    if options.stage == "plan":
        patience = Patience(PLAN_PATIENCE_SECONDS)
        return ExitCode.DONE, patience.call(lambda: plan(stage), unless=(EndpointUnreachable, CredentialsRevoked))
    report = merge_patiently(
        stage,
        fingerprint=options.fingerprint,
        run=options.run,
        port=options.port,
        undone=options.undone,
        began=options.began,
    )
    return ExitCode.SHARDS_MISSING if isinstance(report, ShardsMissingReport) else ExitCode.DONE, report


async def _run_worker(stage: Stage, options: argparse.Namespace) -> tuple[ExitCode, Report]:
    drain = Drain(defaults.grace_period(stage.job.batchjob.spec).total_seconds() - FLUSH_SECONDS)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, drain.request)
    names_of_arguments = ("fingerprint", "run", "index", "workers", "segment_seconds")
    arguments = {name: getattr(options, name) for name in names_of_arguments}
    nothing = Progress(index=options.index, run=options.run)
    async with serving(Served(lambda: drain.progress() or nothing), options.port):
        report = await drain.run(lambda started: run(stage, **arguments, started=started))
    if not drain.interrupted:
        return ExitCode.DONE, report or nothing
    interrupted = InterruptedReport(progress=report, message="stopped by SIGTERM; work is kept")
    _write_report(options.termination_log, interrupted)
    _exit_interrupted()


def _write_report(path: Path, report: Report) -> None:
    text = encode_report(report)
    try:
        path.write_text(text)
    except OSError as error:
        logger.warning("the report can't be written to %s: %s", path, error)
    logger.info("report: %s", text)


if __name__ == "__main__":
    sys.exit(main())
