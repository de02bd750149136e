"""Prometheus metrics, labelled by namespace, phase and reason; never by name, or series would grow with use.

batchwright_batchjobs{namespace,phase}              BatchJobs by phase
batchwright_batchjobs_stalled{namespace,reason}     BatchJobs that wait for a person
batchwright_requests_pending{namespace}             requests not done yet of active BatchJobs: a signal to scale by
batchwright_requests_total{namespace,outcome}       requests done, as published: completed, failed
batchwright_tokens_total{namespace,kind}            tokens, as published: input, output
batchwright_transitions_total{phase}                entries into a phase
batchwright_failures_total{reason}                  BatchJobs that failed
batchwright_reconcile_seconds                       time of a pass
batchwright_reconcile_errors_total                  passes that ended in an error and are tried again
batchwright_polls_total, batchwright_poll_errors_total   questions to workers for their progress
batchwright_leader                                  1 where this operator works, 0 where it waits for another one
batchwright_build_info{version}

An operator that waits has no series of BatchJobs: they are those of the one that works.
"""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram, Info

from batchwright.api.conditions import ConditionType, Phase
from batchwright.api.status import BatchJobStatus
from batchwright.controller.core import conditions, counts

BATCHJOBS = Gauge("batchwright_batchjobs", "BatchJobs by phase", ["namespace", "phase"])
STALLED = Gauge("batchwright_batchjobs_stalled", "BatchJobs that wait for a person", ["namespace", "reason"])
PENDING_REQUESTS = Gauge("batchwright_requests_pending", "Requests not done yet of active BatchJobs", ["namespace"])
REQUESTS = Counter("batchwright_requests", "Requests done, as published", ["namespace", "outcome"])
TOKENS = Counter("batchwright_tokens", "Tokens, as published", ["namespace", "kind"])
TRANSITIONS = Counter("batchwright_transitions", "Entries into a phase", ["phase"])
FAILURES = Counter("batchwright_failures", "BatchJobs that failed", ["reason"])
RECONCILE_SECONDS = Histogram("batchwright_reconcile_seconds", "Time of a pass")
RECONCILE_ERRORS = Counter("batchwright_reconcile_errors", "Passes that ended in an error and are tried again")
POLLS = Counter("batchwright_polls", "Questions to workers for their progress")
POLL_ERRORS = Counter("batchwright_poll_errors", "Questions to workers that got no answer")
LEADER = Gauge("batchwright_leader", "1 where this operator works, 0 where it waits for another one")
BUILD = Info("batchwright_build", "Version of the operator")


def status_written(namespace: str, before: BatchJobStatus, after: BatchJobStatus) -> None:
    """Count what a written status adds to the one before it."""
    old, new = before.request_counts, after.request_counts
    if new is not None:
        REQUESTS.labels(namespace, "completed").inc(max(0, new.completed - (old.completed if old else 0)))
        REQUESTS.labels(namespace, "failed").inc(max(0, new.failed - (old.failed if old else 0)))
    if after.usage is not None:
        known = before.usage
        grown = (after.usage.input_tokens or 0) - ((known.input_tokens if known else None) or 0)
        TOKENS.labels(namespace, "input").inc(max(0, grown))
        grown = (after.usage.output_tokens or 0) - ((known.output_tokens if known else None) or 0)
        TOKENS.labels(namespace, "output").inc(max(0, grown))
    if after.phase is not None and after.phase != before.phase:
        TRANSITIONS.labels(after.phase.value).inc()
        failed = conditions.find(after, ConditionType.FAILED)
        if failed is not None and failed.status == "True":
            FAILURES.labels(failed.reason).inc()


def batchjobs_listed(items: Iterable[tuple[str, BatchJobStatus]]) -> None:
    """Set the gauges from a list of all BatchJobs: (namespace, status)."""
    phases: Tally[tuple[str, str]] = Tally()
    stalled: Tally[tuple[str, str]] = Tally()
    pending: Tally[str] = Tally()
    for namespace, status in items:
        phases[namespace, (status.phase or Phase.PENDING).value] += 1
        pending[namespace] += _pending(status)
        condition = conditions.find(status, ConditionType.STALLED)
        if condition is not None and condition.status == "True":
            stalled[namespace, condition.reason] += 1
    for gauge, values in ((BATCHJOBS, phases), (STALLED, stalled)):
        gauge.clear()
        for labels, value in values.items():
            gauge.labels(*labels).set(value)
    PENDING_REQUESTS.clear()
    for namespace, value in pending.items():
        PENDING_REQUESTS.labels(namespace).set(value)


def _pending(status: BatchJobStatus) -> int:
    if conditions.is_finished(status) or status.request_counts is None:
        return 0
    return max(0, status.request_counts.total - counts.done(status))
