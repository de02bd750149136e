"""Carrying out a plan: the children, then the status, then the Events about it. Calls block."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never

from batchwright.api.status import BatchJobStatus
from batchwright.controller.core import new_status
from batchwright.controller.core.observed import Identity, Observed, Refusal
from batchwright.controller.core.plan_of_actions import (
    Action,
    CreateConfigMap,
    CreateJob,
    DeleteJob,
    DeletePod,
    MarkPodFailed,
    Plan,
    SuspendJob,
    UpdateConfigMap,
)
from batchwright.kube import errors
from batchwright.kube.batchjobs import BatchJobs
from batchwright.kube.children import Children


class Applier:
    """Writes what a plan asks for."""

    def __init__(self, batchjobs: BatchJobs, children: Children) -> None:
        self._batchjobs = batchjobs
        self._children = children

    def act(self, observed: Observed, plan: Plan, now: datetime) -> tuple[Refusal, ...]:
        """Carry out the actions; what the API server doesn't let us do is returned, for the next look.

        Raises:
            KubernetesError: the API server didn't answer. What was done stays done, and the next pass sees it.
        """
        refusals: list[Refusal] = []
        for action in plan.actions:
            refusal = self._act(observed, action, now)
            if refusal is not None:
                refusals.append(refusal)
        return tuple(refusals)

    def write_status(self, observed: Observed, version: str, status: BatchJobStatus) -> dict[str, Any]:
        """Write what differs in the status, and return the BatchJob as stored. `version` is the one that was read.

        Raises:
            errors.NotFound, errors.Conflict: this BatchJob is gone, or was changed since.
        """
        identity = observed.identity
        changes = merge_patch(new_status.as_written(observed.status), new_status.as_written(status))
        return self._batchjobs.patch_status(identity.namespace, identity.name, identity.uid, version, changes)

    def _act(self, observed: Observed, action: Action, now: datetime) -> Refusal | None:
        try:
            self._carry_out(observed.identity, action, now)
        except errors.BeingDeleted:
            return None
        except errors.KubernetesError as error:
            if not errors.is_verdict(error, creating=isinstance(action, CreateConfigMap | CreateJob)):
                raise
            return _refusal(observed, action, error.message, now)
        return None

    def _carry_out(self, identity: Identity, action: Action, now: datetime) -> None:
        namespace = identity.namespace
        match action:
            case CreateConfigMap(manifest):
                self._children.create_config_map(namespace, identity.uid, manifest)
            case CreateJob(manifest):
                self._children.create_job(namespace, identity.uid, manifest)
            case UpdateConfigMap(name, uid, data):
                self._children.update_config_map(namespace, name, uid, data)
            case SuspendJob(name, uid, suspended):
                self._children.suspend_job(namespace, name, uid, suspended=suspended)
            case DeleteJob(name, uid):
                self._children.delete_job(namespace, name, uid)
            case MarkPodFailed(name, uid, message):
                moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
                self._children.mark_pod_failed(namespace, name, uid, message, moment)
            case DeletePod(name, uid):
                self._children.delete_pod(namespace, name, uid)
            case _:
                assert_never(action)


def _refusal(observed: Observed, action: Action, message: str, now: datetime) -> Refusal:
    what, verb = _named(action)
    child = f"{what} in namespace {observed.identity.namespace}"
    known = (one.since for one in observed.refusals if (one.child, one.verb) == (child, verb))
    return Refusal(child, message, next(known, now), verb)


def _named(action: Action) -> tuple[str, str]:
    """What an action is done to, and the word for what is done."""
    match action:
        case CreateConfigMap(manifest) | CreateJob(manifest):
            return f"{manifest['kind']} {manifest['metadata']['name']}", "created"
        case UpdateConfigMap(name):
            return f"ConfigMap {name}", "updated"
        case SuspendJob(name, suspended=suspended):
            return f"Job {name}", "suspended" if suspended else "resumed"
        case DeleteJob(name):
            return f"Job {name}", "deleted"
        case MarkPodFailed(name):
            return f"Pod {name}", "marked as failed"
        case DeletePod(name):
            return f"Pod {name}", "deleted"
        case _:
            assert_never(action)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7396) that makes one object of the other: lists are replaced whole."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            changes = merge_patch(old, value)
            if changes:
                patch[name] = changes
        elif name not in before or old != value:
            patch[name] = value
    return patch
