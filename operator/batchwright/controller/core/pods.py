"""The pod of a worker, for all three stages. Restricted by Pod Security; without a token for the Kubernetes API."""

from collections.abc import Mapping
from typing import Any

from batchwright.api import defaults, names
from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.worker_pods import Worker
from batchwright.controller.core import volumes
from batchwright.controller.core.observed import Stage
from batchwright.controller.core.resources import worker_resources
from batchwright.controller.settings import Settings

PROGRAM = "batchwright-worker"
NODE_LOSS_SECONDS = 60
"""A worker on a node that is not heard is replaced after this time, and not after Kubernetes' five minutes: another
worker takes over where it stood."""

_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def pod_template(
    spec: BatchJobSpec,
    settings: Settings,
    *,
    stage: Stage,
    arguments: list[str],
    config_map: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    """A stage's pod. The user's labels and annotations don't replace ours."""
    worker = spec.worker or Worker()
    resources = worker_resources(worker.resources or {})
    grace = {"terminationGracePeriodSeconds": int(defaults.grace_period(spec).total_seconds())}
    return {
        "metadata": {
            "labels": {**(worker.labels or {}), **labels},
            "annotations": {**(worker.annotations or {}), **annotations},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "serviceAccountName": worker.service_account_name or "default",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": settings.worker_user_id,
                "runAsGroup": settings.worker_user_id,
                "fsGroup": settings.worker_user_id,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "tolerations": _tolerations(worker),
            "volumes": volumes.volumes(spec, config_map, str(resources["limits"]["ephemeral-storage"])),
            "containers": [_container(spec, settings, stage, arguments, resources)],
            **(grace if stage is Stage.RUN else {}),
            **_placement(worker),
        },
    }


def _container(
    spec: BatchJobSpec,
    settings: Settings,
    stage: Stage,
    arguments: list[str],
    resources: dict[str, Any],
) -> dict[str, Any]:
    worker = spec.worker or Worker()
    run_only: dict[str, Any] = {
        "ports": [{"name": "http", "containerPort": names.WORKER_PORT}],
        # For people who look at the pods: nothing is decided from it, since a pod that is only starting, ending or
        # busy is not ready either.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 5,
            "timeoutSeconds": 3,
            "failureThreshold": 3,
        },
    }
    return {
        "name": names.CONTAINER,
        "image": worker.image or settings.worker_image,
        "command": [PROGRAM],
        "args": [stage.value, *arguments],
        "env": [
            {"name": "HOME", "value": "/tmp"},  # noqa: S108
            {"name": "BATCHWRIGHT_SPOOL", "value": names.SPOOL_DIRECTORY},
            *(worker.env or []),
        ],
        "resources": resources,
        "volumeMounts": volumes.mounts(spec),
        "terminationMessagePath": names.TERMINATION_LOG,
        # Where no report was written, the end of the log tells why: an image of another architecture, a crash.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **(run_only if stage is Stage.RUN else {}),
    }


def _tolerations(worker: Worker) -> list[dict[str, Any]]:
    own = list(worker.tolerations or [])
    named = {toleration.get("key") for toleration in own}
    return own + [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOSS_SECONDS}
        for taint in _NODE_TAINTS
        if taint not in named
    ]


def _placement(worker: Worker) -> dict[str, Any]:
    given = {
        "nodeSelector": worker.node_selector,
        "affinity": worker.affinity,
        "priorityClassName": worker.priority_class_name,
        "imagePullSecrets": [{"name": secret.name} for secret in worker.image_pull_secrets or []],
    }
    return {name: value for name, value in given.items() if value}
