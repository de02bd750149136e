"""The Jobs of the three stages. One of a kind is created once and never changed, but for its suspension.

The run is one Indexed Job: an index is a worker, not a shard. Every stage reads a pod's exit code alike:

    interrupted, disruption   Ignore    nothing is counted, another pod follows
    what no retry can mend    FailJob   the stage is over
    anything else             counted   up to the backoff limit
"""

import hashlib
import json
from datetime import datetime
from typing import Any

from batchwright.api import defaults, names
from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.exit_codes import FINAL_EXIT_CODES, ExitCode
from batchwright.api.undone import Undone
from batchwright.controller.core import child_names, pods
from batchwright.controller.core.observed import Identity, JobView, Stage
from batchwright.controller.core.plan_of_actions import Manifest
from batchwright.controller.settings import Settings

BACKOFF_LIMIT = 6
"""Retries of plan and merge, and of each index of the run. Kubernetes waits 10 s before the first, doubling."""


def plan_job(identity: Identity, spec: BatchJobSpec, settings: Settings, attempt: int) -> Manifest:
    """The Job that checks and splits the input."""
    return _signed(_job(identity, spec, settings, stage=Stage.PLAN, attempt=attempt, arguments=[]))


def run_job(
    identity: Identity, spec: BatchJobSpec, settings: Settings, *, fingerprint: str, run: int, workers: int
) -> Manifest:
    """The Indexed Job of the workers."""
    manifest = _job(
        identity,
        spec,
        settings,
        stage=Stage.RUN,
        run=run,
        arguments=["--fingerprint", fingerprint, "--run", str(run), "--workers", str(workers)],
    )
    del manifest["spec"]["backoffLimit"]
    manifest["spec"] |= {
        "completionMode": "Indexed",
        "completions": workers,
        "parallelism": workers,
        "backoffLimitPerIndex": BACKOFF_LIMIT,
    }
    if spec.queue_name:
        manifest["metadata"]["labels"][names.LABEL_QUEUE_NAME] = spec.queue_name
    return _signed(manifest)


def merge_job(
    identity: Identity,
    spec: BatchJobSpec,
    settings: Settings,
    *,
    fingerprint: str,
    run: int,
    attempt: int,
    undone: Undone | None = None,
    began: datetime | None = None,
) -> Manifest:
    """The Job that publishes the results. With `undone` it closes a batch that was stopped: requests that are not
    finished get this code. `began` is when the run began, for the progress object."""
    closing = ["--undone", undone.value] if undone else []
    if began is not None and defaults.published_names(spec.output).progress is not None:
        closing += ["--began", began.isoformat()]
    manifest = _job(
        identity,
        spec,
        settings,
        stage=Stage.MERGE,
        run=run,
        attempt=attempt,
        arguments=["--fingerprint", fingerprint, "--run", str(run), *closing],
    )
    manifest["spec"]["activeDeadlineSeconds"] = max(1, int(settings.merge_deadline.total_seconds()))
    manifest = _signed(manifest)
    if undone is not None:
        manifest["metadata"]["annotations"][names.ANNOTATION_UNDONE] = undone.value
    return manifest


def replaces(manifest: Manifest, job: JobView) -> bool:
    """Whether the spec asks for another Job than the one that is there. A Job's template can't be changed, so one that
    doesn't start is made anew once the spec was mended."""
    return bool(job.template) and manifest["metadata"]["annotations"][names.ANNOTATION_TEMPLATE] != job.template


def workers(spec: BatchJobSpec, shards: int) -> int:
    """Worker pods of a run: no more than there are shards."""
    return max(1, min(defaults.parallelism(spec), shards))


def child_metadata(identity: Identity, name: str) -> dict[str, Any]:
    """Metadata of a child: ours alone. Nothing is copied from the BatchJob's labels, which belong to other tools."""
    return {
        "name": name,
        "namespace": identity.namespace,
        "labels": {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_NAME: "batchwright-worker",
            names.LABEL_BATCHJOB_UID: identity.uid,
        },
        "annotations": {names.ANNOTATION_BATCHJOB_NAME: identity.name},
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": identity.name,
                "uid": identity.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _job(
    identity: Identity,
    spec: BatchJobSpec,
    settings: Settings,
    *,
    stage: Stage,
    arguments: list[str],
    run: int = 0,
    attempt: int = 1,
) -> Manifest:
    metadata = child_metadata(identity, child_names.job_name(identity, stage, run, attempt))
    metadata["labels"] |= {
        names.LABEL_STAGE: stage.value,
        names.LABEL_RUN: str(run),
        names.LABEL_ATTEMPT: str(attempt),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _POD_FAILURE_POLICY,
            "template": pods.pod_template(
                spec,
                settings,
                stage=stage,
                arguments=arguments,
                config_map=child_names.config_map_name(identity),
                labels=dict(metadata["labels"]),
                annotations=metadata["annotations"],
            ),
        },
    }


def _signed(manifest: Manifest) -> Manifest:
    text = json.dumps([manifest["metadata"]["labels"], manifest["spec"]], sort_keys=True)
    manifest["metadata"]["annotations"] = {
        **manifest["metadata"]["annotations"],
        names.ANNOTATION_TEMPLATE: hashlib.sha256(text.encode()).hexdigest()[:16],
    }
    return manifest


_POD_FAILURE_POLICY: dict[str, Any] = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "Ignore",
            "onExitCodes": {
                "containerName": names.CONTAINER,
                "operator": "In",
                "values": [int(ExitCode.INTERRUPTED)],
            },
        },
        {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": names.CONTAINER,
                "operator": "In",
                "values": sorted(int(code) for code in FINAL_EXIT_CODES),
            },
        },
    ]
}
