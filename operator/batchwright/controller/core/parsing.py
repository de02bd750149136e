"""Objects as the API server sends them, turned into views. Absent fields mean what Kubernetes says they mean."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from batchwright.api import names
from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.reports import decode_report
from batchwright.api.status import BatchJobStatus
from batchwright.api.undone import Undone
from batchwright.controller.core.observed import (
    ConfigMapView,
    Disruption,
    Identity,
    JobEnd,
    JobView,
    Occurrence,
    PodView,
    Stage,
    Termination,
    Waiting,
)

Raw = Mapping[str, Any]
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_MESSAGE = 500


def parse_time(text: str | None) -> datetime:
    """An RFC 3339 time; the epoch where there is none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else _LONG_AGO


def parse_identity(raw: Raw) -> Identity:
    """Which BatchJob this is."""
    metadata = raw["metadata"]
    return Identity(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        created_at=parse_time(metadata.get("creationTimestamp")),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def parse_spec(raw: Raw) -> tuple[BatchJobSpec | None, str]:
    """The spec, or what is wrong with it, naming the field: a schema can't say everything that our models do."""
    try:
        return BatchJobSpec.model_validate(raw.get("spec") or {}), ""
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)[:3]
        return None, "; ".join(_problem(problem["loc"], problem["msg"]) for problem in problems)


def parse_status(raw: Raw) -> BatchJobStatus:
    """The status as last written.

    Raises:
        pydantic.ValidationError: it is none of ours. Nothing may be decided then: a finished BatchJob would run again.
    """
    return BatchJobStatus.model_validate(raw.get("status") or {})


def parse_config_map(raw: Raw | None) -> ConfigMapView | None:
    """The workers' ConfigMap."""
    if raw is None:
        return None
    metadata = raw["metadata"]
    return ConfigMapView(
        name=metadata["name"],
        uid=metadata["uid"],
        data=raw.get("data") or {},
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def parse_jobs(items: Iterable[Raw]) -> tuple[JobView, ...]:
    """The Jobs that are ours; one without our labels is none."""
    return tuple(job for raw in items if (job := _job(raw)) is not None)


def parse_pods(items: Iterable[Raw]) -> tuple[PodView, ...]:
    """The pods that are ours."""
    return tuple(pod for raw in items if (pod := _pod(raw)) is not None)


def parse_occurrences(items: Iterable[Raw]) -> tuple[Occurrence, ...]:
    """Warnings among Events."""
    return tuple(_occurrence(raw) for raw in items if raw.get("type") == "Warning")


def _occurrence(raw: Raw) -> Occurrence:
    first = raw.get("firstTimestamp") or raw.get("eventTime")
    last = (raw.get("series") or {}).get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("eventTime")
    return Occurrence(
        uid=(raw.get("involvedObject") or {}).get("uid", ""),
        reason=raw.get("reason") or "",
        message=raw.get("message") or "",
        at=parse_time(last),
        first_at=parse_time(first) if first else None,
    )


def node_is_ready(raw: Raw | None) -> bool:
    """Whether the node's kubelet is heard; a node that is gone is not ready."""
    conditions = ((raw or {}).get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _problem(place: Iterable[int | str], message: str) -> str:
    return f"{'.'.join(['spec', *map(str, place)])}: {message.removeprefix('Value error, ')}"


def _stage(raw: Raw) -> tuple[Stage, int, int] | None:
    labels = raw["metadata"].get("labels") or {}
    try:
        return (
            Stage(labels.get(names.LABEL_STAGE, "")),
            int(labels.get(names.LABEL_RUN, 0)),
            int(labels.get(names.LABEL_ATTEMPT, 1)),
        )
    except ValueError:
        return None


def _job(raw: Raw) -> JobView | None:
    stage = _stage(raw)
    if stage is None:
        return None
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    annotations = metadata.get("annotations") or {}
    return JobView(
        name=metadata["name"],
        uid=metadata["uid"],
        stage=stage[0],
        run=stage[1],
        attempt=stage[2],
        created_at=parse_time(metadata.get("creationTimestamp")),
        completions=spec.get("completions") or 1,
        active=status.get("active") or 0,
        ready=status.get("ready") or 0,
        failed=status.get("failed") or 0,
        suspended=bool(spec.get("suspend")),
        suspended_by_us=names.ANNOTATION_SUSPENDED in annotations,
        queue_name=(metadata.get("labels") or {}).get(names.LABEL_QUEUE_NAME, ""),
        template=annotations.get(names.ANNOTATION_TEMPLATE, ""),
        undone=_undone(annotations.get(names.ANNOTATION_UNDONE)),
        deleting=bool(metadata.get("deletionTimestamp")),
        end=_job_end(status.get("conditions") or []),
    )


def _undone(text: str | None) -> Undone | None:
    """The code of a closing merge. One that a newer operator wrote still means that the BatchJob was stopped."""
    if text is None:
        return None
    return Undone(text) if text in set(Undone) else Undone.FAILED


def _job_end(conditions: Iterable[Raw]) -> JobEnd | None:
    for condition in conditions:
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return JobEnd(
                succeeded=condition["type"] == "Complete",
                at=parse_time(condition.get("lastTransitionTime")),
                reason=condition.get("reason") or "",
                message=condition.get("message") or "",
            )
    return None


def _pod(raw: Raw) -> PodView | None:
    stage = _stage(raw)
    if stage is None:
        return None
    metadata, status = raw["metadata"], raw.get("status") or {}
    container = _worker(status.get("containerStatuses") or [])
    state = container.get("state") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or []}
    scheduled, ready = conditions.get("PodScheduled") or {}, conditions.get("Ready") or {}
    index = (metadata.get("annotations") or {}).get(INDEX_ANNOTATION)
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        job_uid=next((owner["uid"] for owner in metadata.get("ownerReferences") or [] if owner.get("controller")), ""),
        stage=stage[0],
        run=stage[1],
        phase=status.get("phase") or "Pending",
        created_at=parse_time(metadata.get("creationTimestamp")),
        index=int(index) if index is not None and str(index).isdigit() else None,
        node=(raw.get("spec") or {}).get("nodeName") or "",
        address=status.get("podIP") or "",
        started_at=_started_at(state),
        ready=ready.get("status") == "True",
        waiting=_waiting(state.get("waiting")),
        unschedulable=_unschedulable(scheduled),
        termination=_termination(state.get("terminated") or (container.get("lastState") or {}).get("terminated")),
        delete_by=parse_time(metadata["deletionTimestamp"]) if metadata.get("deletionTimestamp") else None,
        disruption=_disruption(status, conditions.get("DisruptionTarget") or {}),
        memory_limit=_memory_limit(_worker((raw.get("spec") or {}).get("containers") or [])),
    )


def _disruption(status: Raw, target: Raw) -> Disruption | None:
    """The condition DisruptionTarget, or what the kubelet says of a pod that it ended or didn't take."""
    if target.get("status") == "True":
        return Disruption(target.get("reason") or "", target.get("message") or status.get("message") or "")
    if status.get("phase") == "Failed" and status.get("reason"):
        return Disruption(status["reason"], status.get("message") or "")
    return None


def _memory_limit(container: Raw) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get("memory") or "")


def _worker(containers: Iterable[Raw]) -> Raw:
    return next((item for item in containers if item.get("name") == names.CONTAINER), {})


def _started_at(state: Raw) -> datetime | None:
    for kind in ("running", "terminated"):
        if kind in state:
            at = parse_time((state[kind] or {}).get("startedAt"))
            return at if at != _LONG_AGO else None  # the runtime couldn't start it
    return None


def _waiting(raw: Raw | None) -> Waiting | None:
    return Waiting(raw.get("reason") or "", raw.get("message") or "") if raw else None


def _unschedulable(scheduled: Raw) -> str:
    if scheduled.get("status") != "False":
        return ""
    return scheduled.get("message") or scheduled.get("reason") or "the scheduler finds no node"


def _termination(raw: Raw | None) -> Termination | None:
    if not raw:
        return None
    message = raw.get("message") or ""
    report = decode_report(message)
    return Termination(
        exit_code=raw.get("exitCode", 1),
        at=parse_time(raw.get("finishedAt")),
        reason=raw.get("reason") or "",
        report=report,
        message=message.strip()[-_LONGEST_MESSAGE:] if report is None else "",
    )
