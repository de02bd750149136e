"""The merge of a run that has ended: results are published, or missing shards are sent back to the run."""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.api.reports import ShardsMissingReport
from batchwright.controller.core import completion, merging, reports, running, stopping
from batchwright.controller.core.merging import Due, Failed, Missing, Published, Working
from batchwright.controller.core.observed import Observed, Stage
from batchwright.controller.core.reports import Failure
from batchwright.controller.core.step import Advance, Step, failed
from batchwright.controller.core.stops import Stop
from batchwright.controller.settings import Settings

MAX_REPAIRS = 3


def step(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings) -> Step | Advance:
    """Start the merge, wait for it, read its totals."""
    merge = merging.look(observed)
    match merge:
        case Published(report):
            return completion.completed(observed, report, now)
        case Failed(failure, reported):
            return failed(failure if reported else _as_merge_failure(failure))
        case Missing(report):
            repair = _repair(observed, report)
            return stopping.step(observed, spec, repair, now, settings) if isinstance(repair, Stop) else repair
        case Working():
            return replace(merging.waiting(observed, merge, now, settings), facts=_facts(observed))
        case Due() if spec.suspend:
            message = "Suspended before the results are merged."
            return Step(Phase.FINALIZING, Reason.SUSPENDED, message, facts=_facts(observed))
        case Due(attempt):
            create = merging.creation(observed, spec, settings, attempt)
            waiting = merging.waiting(observed, merge, now, settings)
            return replace(waiting, actions=(create,), facts=_facts(observed))
        case _:
            assert_never(merge)


def _facts(observed: Observed) -> dict[str, object]:
    return {"run": running.number(observed), "rate": None, "eta": None, "estimated_completion_time": None}


def _as_merge_failure(failure: Failure) -> Failure:
    return Failure(Reason.MERGE_FAILED, f"The results could not be published: {failure.message}", failure.report)


def _repair(observed: Observed, missing: ShardsMissingReport) -> Advance | Stop:
    """Another run for the missing shards, or the end, with what there is."""
    run = running.number(observed)
    job = observed.job(Stage.RUN, run)
    last = reports.last_failure(observed, job, Reason.RUN_FAILED) if job else None
    detail = f" The last failure: {last.message}" if last else ""
    if missing.count >= running.shards_to_do(observed):
        # Nothing was ever committed: what stops every worker would stop those of a repair too.
        return Stop.failing(Failure(Reason.RUN_FAILED, f"No worker finished a shard.{detail}"))
    if run > MAX_REPAIRS:
        text = f"{missing.count} shards ({missing.shards}) are not done after {MAX_REPAIRS} repairs.{detail}"
        return Stop.failing(Failure(Reason.SHARDS_MISSING, text))
    return Advance({"run": run + 1})
