"""The stage `run`, put together: from the job and the plan to a running worker."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial

from batchwright.api.defaults import RequestPolicy
from batchwright.api.reports import Progress
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlanRecord, RecordError, decode_record
from batchwright.batchfile.shard_record import WorkerState
from batchwright.storage.errors import NotFound
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.published import progress_key
from batchwright.worker.run.claims import ShardQueue, WorkerIdentity
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.progress_keeper import ProgressKeeper, seconds_between_turns
from batchwright.worker.run.runner import Companion, Runner, line_queue
from batchwright.worker.run.saving import SEGMENT_SECONDS
from batchwright.worker.run.sender import Sender
from batchwright.worker.run.shard_input import ShardInput
from batchwright.worker.run.spool_folder import own_folder
from batchwright.worker.run.stopping import sleep_unless
from batchwright.worker.server.adaptive_limit import AdaptiveLimit
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit, Limit
from batchwright.worker.server.findings import WatchTimes
from batchwright.worker.server.gate import Gate
from batchwright.worker.server.sampling import Sampling
from batchwright.worker.server.watch import Watch
from batchwright.worker.stage import Stage, open_server

logger = logging.getLogger(__name__)

Started = Callable[[Runner, RunProgress], None]
"""Called once the worker is about to begin."""


async def run(
    stage: Stage,
    *,
    fingerprint: str,
    run: int,
    index: int,
    workers: int,
    started: Started,
    segment_seconds: float = SEGMENT_SECONDS,
    times: WatchTimes | None = None,
) -> Progress:
    """Do shards until none is left, as worker `index` of `workers` in the given run.

    Raises:
        StageFailed, StorageError, RecordError, OSError: the work can't go on.
    """
    layout = stage.layout.work(fingerprint)
    plan = await patiently(partial(read_plan, stage.output_store, layout))
    identity = WorkerIdentity(run=run, index=index, workers=workers, attempt=secrets.token_hex(4))
    lines = line_queue(stage.policy.max_concurrency)
    gate = Gate(Availability(times, has_untried=lambda: lines.left), limit_for(stage.policy), lines)
    earlier = await patiently(partial(_earlier_state, stage.output_store, layout, identity))
    progress_object = progress_key(stage)
    progress = RunProgress(identity, earlier, gate, tells_open=progress_object is not None)
    logger.info("worker %d of %d, attempt %s, %d shards", index, workers, identity.attempt, len(plan.shards))
    stopping = asyncio.Event()
    sleep = sleep_unless(stopping)
    transport = open_server(stage)
    watch = Watch(transport, gate, stage.api_key, plan.model)
    sampling = Sampling(transport, gate, workers=workers)
    companions: list[Companion] = [watch.run, *([sampling.run] if stage.policy.adaptive else [])]
    tell_seconds = seconds_between_turns(segment_seconds, workers)
    if progress_object is not None:
        keeper = ProgressKeeper(
            store=stage.output_store,
            layout=layout,
            key=progress_object,
            plan=plan,
            identity=identity,
            seconds=tell_seconds,
        )
        companions.append(partial(keeper.run, progress))
    try:
        with own_folder(stage.mounts.spool, identity.attempt) as spool:
            runner = Runner(
                plan=plan,
                layout=layout,
                output=stage.output_store,
                source=ShardInput(stage.input_store, stage.input_key, plan, stage.job.limits.max_body_bytes, sleep),
                queue=ShardQueue(
                    store=stage.output_store,
                    layout=layout,
                    identity=identity,
                    shards=len(plan.shards),
                    exclusive=plan.conditional_put,
                ),
                lines=lines,
                sender=Sender(transport, stage.policy, stage.api_key, gate, watch, sleep=sleep),
                progress=progress,
                identity=identity,
                spool=spool,
                stopping=stopping,
                segment_seconds=segment_seconds,
                tell_seconds=tell_seconds,
                companions=companions,
            )
            started(runner, progress)
            return await runner.run()
    finally:
        await transport.close()


def limit_for(policy: RequestPolicy) -> Limit:
    """The rule for requests in flight that `spec.requests` asks for."""
    return AdaptiveLimit(policy.max_concurrency) if policy.adaptive else FixedLimit(policy.max_concurrency)


def read_plan(store: ObjectStore, layout: WorkLayout) -> PlanRecord:
    """The plan record.

    Raises:
        RecordError: it is missing or can't be read.
        StorageError: the storage refuses or is away.
    """
    try:
        return decode_record(store.read(layout.plan), PlanRecord)
    except NotFound as error:
        raise RecordError(f"the plan record is missing: {error}") from error


def _earlier_state(store: ObjectStore, layout: WorkLayout, identity: WorkerIdentity) -> WorkerState | None:
    key = layout.worker(identity.run, identity.index)
    if find(store, key) is None:
        return None
    return decode_record(store.read(key), WorkerState)
