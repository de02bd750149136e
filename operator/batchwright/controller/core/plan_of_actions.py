"""What `reconcile` decided: changes of children, the new status, Events, and when to look again."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from batchwright.api.status import BatchJobStatus

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CreateConfigMap:
    """Create the workers' ConfigMap."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class UpdateConfigMap:
    """Replace entries of the workers' ConfigMap."""

    name: str
    uid: str
    data: dict[str, str]


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of a stage."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """Suspend a Job, or resume it."""

    name: str
    uid: str
    suspended: bool


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a Job and its pods."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class MarkPodFailed:
    """Declare a pod of a lost node Failed, so that its index gets another one."""

    name: str
    uid: str
    message: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod whose Job is gone."""

    name: str
    uid: str


Action = CreateConfigMap | UpdateConfigMap | CreateJob | SuspendJob | DeleteJob | MarkPodFailed | DeletePod


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event to post, once the status is written."""

    severity: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again after this time; `refresh` when the children are to be read anew, and not only their progress."""

    after: timedelta
    refresh: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one reconcile. `status` is None where it stays as it is; `wait` where only a change wakes."""

    actions: tuple[Action, ...] = ()
    status: BatchJobStatus | None = None
    notices: tuple[Notice, ...] = ()
    wait: Wait | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether applying this plan leaves the cluster as it is."""
        return not self.actions and self.status is None and not self.notices
