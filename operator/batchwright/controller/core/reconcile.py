"""From what is to what is to be done. Pure, and the same for the same input: a second call plans nothing new.

stopped (see stops) ─▶ stopping ────────────▶ cancelled, expired, failed
spec can't be used ─────────────────────────▶ failed (stalled, once requests are running)
no plan yet ─────────▶ validating ─┐
workers not done ────▶ running   ◀─┴─────┐ repair
workers done ────────▶ finalizing ───────┴──▶ completed, failed
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import TERMINAL_PHASES, Phase, Reason
from batchwright.api.exit_codes import FINAL_EXIT_CODES, ExitCode
from batchwright.api.undone import Undone
from batchwright.controller.core import (
    conditions,
    finalizing,
    merging,
    new_status,
    notices,
    replacement,
    running,
    spec_check,
    stopping,
    stops,
    stray_pods,
    validating,
    window,
    worker_config,
)
from batchwright.controller.core.blockers import Blocker, ServerState
from batchwright.controller.core.merging import Published
from batchwright.controller.core.observed import JobView, Observed, Stage
from batchwright.controller.core.plan_of_actions import Action, CreateJob, DeleteJob, Plan, Wait
from batchwright.controller.core.step import Advance, Step, failed
from batchwright.controller.core.stops import Stop
from batchwright.controller.settings import Settings

_SOONEST = timedelta(milliseconds=500)
_MOST_STAGES = 2 + finalizing.MAX_REPAIRS * 2


def reconcile(observed: Observed, now: datetime, settings: Settings) -> Plan:
    """What to do about a BatchJob now."""
    if observed.identity.deleting:
        return Plan()
    if conditions.is_finished(observed.status):
        return _absorb(observed)
    problem = spec_check.problem_of(observed, settings)
    step = _decide(observed, problem, now, settings)
    status = new_status.after(observed, step, now, settings)
    delay = new_status.write_in(observed, status, now, settings)
    write = delay is not None and delay == timedelta(0)
    return Plan(
        actions=_actions(observed, step, now, settings, usable=problem is None),
        status=status if write else None,
        notices=notices.between(observed.status, status) if write else (),
        wait=_wait(observed, step, now, settings, delay if not write else None),
    )


def _absorb(observed: Observed) -> Plan:
    """A finished BatchJob stays as it ended. A newer spec is only taken note of, so that nobody waits for it."""
    if observed.status.observed_generation == observed.identity.generation:
        return Plan()
    return Plan(status=new_status.for_newer_spec(observed))


def _decide(observed: Observed, problem: str | None, now: datetime, settings: Settings) -> Step:
    spec = observed.spec
    if spec is None or (problem is not None and not _ends_anyway(observed, spec, now)):
        return _unusable(observed, problem or "", now)
    return _work(observed, spec, now, settings, usable=problem is None)


def _ends_anyway(observed: Observed, spec: BatchJobSpec, now: datetime) -> bool:
    """Whether a BatchJob whose spec can't be used ends all the same: since everything is published, or by a cancel or
    the end of the window. One that was never usable fails with what is wrong with it, and one that fails otherwise
    waits for the spec to be mended."""
    if observed.status.phase is None and not observed.jobs:
        return False
    if isinstance(merging.look(observed), Published):
        return True
    stop = stops.cause(observed, spec, now)
    return stop is not None and stop.undone is not Undone.FAILED


def _unusable(observed: Observed, problem: str, now: datetime) -> Step:
    message = f"{problem}."
    if observed.status.fingerprint is None:
        return Step(Phase.FAILED, Reason.INVALID_SPEC, message)
    # Requests are running, and paid for: what runs goes on, and the next step waits until the field is mended.
    blocker = Blocker(Reason.INVALID_SPEC, f"{message} Mend it, and the work goes on.", observed.identity.created_at)
    spec, job = observed.spec, observed.job(Stage.RUN, running.number(observed))
    return Step(
        phase=observed.status.phase or Phase.IN_PROGRESS,
        reason=Reason.INVALID_SPEC,
        message=blocker.message,
        actions=running.pause_or_resume(job, spec) if spec is not None and job is not None else (),
        blocker=blocker,
        suspended=spec is not None and bool(spec.suspend),
        wait=Wait(timedelta(seconds=30)),
    )


def _work(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings, *, usable: bool) -> Step:
    """Stage after stage, until one has to wait. What the earlier ones found is written with it."""
    outdated = replacement.outdated(observed, spec, settings) if usable else ()
    observed = replacement.without(observed, outdated)
    facts: dict[str, Any] = {}
    planned = observed.status.fingerprint is not None
    outcome = _stage(observed, spec, now, settings)
    for _ in range(_MOST_STAGES):
        if isinstance(outcome, Step):
            break
        facts |= outcome.facts
        observed = observed.with_facts(outcome.facts)
        outcome = _stage(observed, spec, now, settings)
    assert isinstance(outcome, Step), "stages follow each other in a circle"
    server = outcome.server
    if server is None and not planned and outcome.phase is not Phase.FAILED and observed.status.fingerprint is not None:
        server = ServerState(available=True)  # the plan has just asked it for its models
    suspended = bool(spec.suspend) and outcome.phase not in TERMINAL_PHASES
    deletions = tuple(DeleteJob(job.name, job.uid) for job in outdated)
    return replace(
        outcome,
        actions=(*outcome.actions, *deletions),
        facts=facts | dict(outcome.facts),
        server=server,
        suspended=suspended,
    )


def _stage(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings) -> Step | Advance:
    stop = stops.cause(observed, spec, now)
    if stop is not None:
        return _stopped(observed, spec, stop, now, settings)
    if observed.status.fingerprint is None:
        return validating.step(observed, spec, now, settings)
    if not running.is_over(observed):
        return running.step(observed, spec, now, settings)
    failure = running.failure(observed)
    if failure is not None:
        step = failed(failure)
        return replace(step, facts=dict(step.facts) | running.counted(observed))
    return finalizing.step(observed, spec, now, settings)


def _stopped(observed: Observed, spec: BatchJobSpec, stop: Stop, now: datetime, settings: Settings) -> Step | Advance:
    ended = validating.failure(observed) if observed.status.fingerprint is None else None
    if ended is not None and stop.undone is Undone.EXPIRED:
        return ended  # which tells more than that time went by
    problem = spec_check.problem_of_worker(spec, settings)
    if problem is None and observed.config_map is None:
        problem = spec_check.problem_of(observed, settings)
    return stopping.step(observed, spec, stop, now, settings, unusable=problem or "")


def _actions(observed: Observed, step: Step, now: datetime, settings: Settings, *, usable: bool) -> tuple[Action, ...]:
    actions = (*step.actions, *stray_pods.actions(observed, now, settings))
    deleted = {action.uid for action in actions if isinstance(action, DeleteJob)}
    if step.phase in TERMINAL_PHASES:
        left = [job for job in observed.jobs if _would_go_on(observed, job) and job.uid not in deleted]
        return (*actions, *(DeleteJob(job.name, job.uid) for job in left))
    spec = observed.spec
    stays = any(not job.deleting and job.uid not in deleted for job in observed.jobs)
    needs_config = stays or any(isinstance(action, CreateJob) for action in actions)
    if spec is None or not usable or not needs_config:
        return actions
    return (*worker_config.actions(observed, spec, settings), *actions)


def _would_go_on(observed: Observed, job: JobView) -> bool:
    """Whether a Job of a finished BatchJob would start more pods. One that is about to end by itself stays: people
    read its pods' logs."""
    if job.end is not None or job.deleting:
        return False
    last_codes = {ExitCode.DONE, *FINAL_EXIT_CODES}
    pods = observed.pods_of(job)
    return not any(pod.termination is not None and pod.termination.exit_code in last_codes for pod in pods)


def _wait(observed: Observed, step: Step, now: datetime, settings: Settings, delay: timedelta | None) -> Wait | None:
    """The earliest of: what the stage wants, the delayed write, the end of the completion window."""
    if step.phase in TERMINAL_PHASES:
        return None
    wait = step.wait
    if delay is not None and (wait is None or delay < wait.after):
        wait = Wait(delay, refresh=False)
    if wait is not None and stray_pods.suspects(observed.pods, now, settings):
        wait = replace(wait, refresh=True)  # with a look at their nodes
    expiry = window.expires_at(observed, observed.spec)
    if expiry is not None and expiry > now and (wait is None or expiry - now < wait.after):
        wait = Wait(expiry - now)
    return replace(wait, after=max(wait.after, _SOONEST)) if wait else None
