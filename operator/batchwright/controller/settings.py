"""The operator's settings: environment variables, read and checked once at the start."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, get_type_hints
from urllib.parse import urlsplit

from batchwright.api import rules
from batchwright.api.duration import parse_duration
from batchwright.api.worker_job import MAX_BODY_BYTES
from batchwright.election.candidate import Timing

_LONGEST_URL = 2048
_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|(SERVICE_)?PORT(_.*)?)$")
"""What Kubernetes sets for every Service of a namespace, unless a pod has enableServiceLinks: false."""


class SecretValueError(ValueError):
    """A value that can't be used and must not be shown."""


class InvalidSettings(Exception):  # noqa: N818
    """Environment variables that can't be used; the message names every one of them."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The environment variable of a setting, and how its text is read."""

    name: str
    read: Callable[[str], object]


def _text(value: str) -> str:
    return value.strip()


def _log_level(value: str) -> str:
    level = value.strip().upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError("must be DEBUG, INFO, WARNING or ERROR")
    return level


def _boolean(value: str) -> bool:
    match value.strip().lower():
        case "true" | "1" | "yes":
            return True
        case "false" | "0" | "no":
            return False
    raise ValueError("must be true or false")


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise ValueError("must be a whole number from 1")
    return number


def _user_id(value: str) -> int:
    number = int(value)
    if number < 1:
        raise ValueError("must be a user id other than root's")
    return number


def _duration(value: str) -> timedelta:
    duration = parse_duration(value.strip())
    if duration <= timedelta(0):
        raise ValueError("must be more than zero")
    return duration


def _url(value: str) -> str:
    url = value.strip()
    if not re.fullmatch(rules.HTTP_URL_PATTERN, url) or len(url) > _LONGEST_URL or not _has_host(url):
        # Not repeated: what stands before an @ may be a password.
        raise SecretValueError("must be a URL such as http://vllm.models.svc:8000, without user, query and fragment")
    return url.rstrip("/")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator may choose. Every field is one environment variable; an empty one means the default."""

    worker_image: Annotated[str, Variable("BATCHWRIGHT_WORKER_IMAGE", _text)] = "batchwright.local/worker:dev"
    """Image of the worker pods, of the same version as the operator."""
    worker_user_id: Annotated[int, Variable("BATCHWRIGHT_WORKER_USER_ID", _user_id)] = 65532
    """User, group and file system group of the worker pods."""
    default_server_url: Annotated[str | None, Variable("BATCHWRIGHT_DEFAULT_SERVER_URL", _url)] = None
    """Model server of the BatchJobs that name none. Default: none."""
    cluster_id: Annotated[str | None, Variable("BATCHWRIGHT_CLUSTER_ID", _text)] = None
    """Identity of the cluster in owner records. Default: the UID of the namespace kube-system."""

    max_lines: Annotated[int | None, Variable("BATCHWRIGHT_MAX_LINES", _positive)] = None
    """Lines that an input may have. Default: no bound."""
    max_file_bytes: Annotated[int | None, Variable("BATCHWRIGHT_MAX_FILE_BYTES", _positive)] = None
    """Bytes that an input may have. Default: no bound."""
    max_body_bytes: Annotated[int, Variable("BATCHWRIGHT_MAX_BODY_BYTES", _positive)] = MAX_BODY_BYTES
    """Bytes that one request's body may have. Default: 10 MiB."""
    allow_host_path: Annotated[bool, Variable("BATCHWRIGHT_ALLOW_HOST_PATH", _boolean)] = False
    """Whether spec.worker.volumes may hold hostPath volumes: they open the node's files to whoever writes BatchJobs."""
    keep_work_objects: Annotated[bool, Variable("BATCHWRIGHT_KEEP_WORK_OBJECTS", _boolean)] = False
    """Whether segments and shard files stay after the merge, for looking into a problem."""

    resync_interval: Annotated[timedelta, Variable("BATCHWRIGHT_RESYNC_INTERVAL", _duration)] = timedelta(minutes=1)
    """How often everything is read anew, whatever the watches say."""
    status_interval: Annotated[timedelta, Variable("BATCHWRIGHT_STATUS_INTERVAL", _duration)] = timedelta(seconds=2)
    """The least time between two writes of a status in which only progress changed."""
    poll_interval: Annotated[timedelta, Variable("BATCHWRIGHT_POLL_INTERVAL", _duration)] = timedelta(seconds=2)
    """How often the workers of a run are asked for their progress, within the budget of polls."""
    polls_per_second: Annotated[int, Variable("BATCHWRIGHT_POLLS_PER_SECOND", _positive)] = 50
    """Budget of polls for the whole operator."""
    start_deadline: Annotated[timedelta, Variable("BATCHWRIGHT_START_DEADLINE", _duration)] = timedelta(minutes=2)
    """How long pods may take to start before the BatchJob is Stalled."""
    missing_deadline: Annotated[timedelta, Variable("BATCHWRIGHT_MISSING_DEADLINE", _duration)] = timedelta(seconds=15)
    """How long a Secret, a ConfigMap, a service account or the admission of a Job may be missing before the BatchJob
    is Stalled: things that are applied together don't arrive at the same moment."""
    merge_deadline: Annotated[timedelta, Variable("BATCHWRIGHT_MERGE_DEADLINE", _duration)] = timedelta(hours=6)
    """How long a merge may take, waiting for its pod included. Nothing is published where it takes longer, and what was
    finished is kept for a BatchJob of the same name, input and output."""
    node_loss_margin: Annotated[timedelta, Variable("BATCHWRIGHT_NODE_LOSS_MARGIN", _duration)] = timedelta(seconds=30)
    """How long after its grace period a pod on a node that is not ready is taken as lost."""

    leader_election: Annotated[bool | None, Variable("BATCHWRIGHT_LEADER_ELECTION", _boolean)] = None
    """Whether the operator works only while it holds the Lease `batchwright-operator`, so that several may run.
    Default: true in a pod, false elsewhere."""
    lease_namespace: Annotated[str | None, Variable("BATCHWRIGHT_LEASE_NAMESPACE", _text)] = None
    """Namespace of the Lease, the same for all operators of a cluster. Default: the pod's own, and outside of a pod
    `batchwright-system`."""
    lease_duration: Annotated[timedelta, Variable("BATCHWRIGHT_LEASE_DURATION", _duration)] = timedelta(seconds=15)
    """How long a Lease that is not renewed is left alone, before another operator takes it: whole seconds, 5s to 5m."""
    lease_renew_deadline: Annotated[timedelta, Variable("BATCHWRIGHT_LEASE_RENEW_DEADLINE", _duration)] = timedelta(
        seconds=10
    )
    """How long after its last renewal the working operator ends its process: at most four fifths of the duration."""
    lease_retry_period: Annotated[timedelta, Variable("BATCHWRIGHT_LEASE_RETRY_PERIOD", _duration)] = timedelta(
        seconds=2
    )
    """How often the Lease is renewed; who waits for it looks twice as often. At most half of the deadline."""

    concurrency: Annotated[int, Variable("BATCHWRIGHT_CONCURRENCY", _positive)] = 16
    """Calls to the Kubernetes API at once."""
    liveness_port: Annotated[int, Variable("BATCHWRIGHT_LIVENESS_PORT", _positive)] = 8080
    """Port of /healthz."""
    metrics_port: Annotated[int, Variable("BATCHWRIGHT_METRICS_PORT", _positive)] = 9090
    """Port of /metrics and /readyz."""
    log_level: Annotated[str, Variable("BATCHWRIGHT_LOG_LEVEL", _log_level)] = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    @property
    def timing(self) -> Timing:
        """The times of the Lease, in seconds."""
        return Timing(
            duration=self.lease_duration.total_seconds(),
            renew_deadline=self.lease_renew_deadline.total_seconds(),
            retry_period=self.lease_retry_period.total_seconds(),
        )

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> "Settings":
        """Read the settings.

        Raises:
            InvalidSettings: a variable can't be read, or one of our prefix is none of ours.
        """
        known = _variables()
        problems = [
            f"{variable} is no setting of the operator"
            for variable in sorted(environment)
            if variable.startswith("BATCHWRIGHT_") and variable not in known and not _SERVICE_LINK.search(variable)
        ]
        values: dict[str, Any] = {}
        for name, (field, read) in known.items():
            text = environment.get(name, "")
            if not text.strip():
                continue
            try:
                values[field] = read(text)
            except ValueError as error:
                shown = name if isinstance(error, SecretValueError) else f"{name}={text!r}"
                problems.append(f"{shown}: {error}")
        settings = Settings(**values)
        if problem := settings.timing.problem():
            problems.append(f"BATCHWRIGHT_LEASE_*: {problem}")
        if problems:
            raise InvalidSettings("; ".join(problems))
        return settings


def variables() -> dict[str, str]:
    """The environment variable of each field."""
    return {field: name for name, (field, _) in _variables().items()}


def _variables() -> dict[str, tuple[str, Callable[[str], object]]]:
    """The field and the reader of each variable."""
    found = {}
    for field, hint in get_type_hints(Settings, include_extras=True).items():
        for extra in hint.__metadata__:
            if isinstance(extra, Variable):
                found[extra.name] = (field, extra.read)
    return found
