"""What an absent field of the spec means. The CRD carries no defaults: they are applied here."""

from dataclasses import dataclass
from datetime import timedelta

from batchwright.api.batchjob import BatchJob, BatchJobSpec, Output, Storage
from batchwright.api.names import ERRORS_OBJECT, RESULTS_OBJECT, RETRY_OBJECT

DEFAULT_PARALLELISM = 8
DEFAULT_TIMEOUT = timedelta(minutes=3)
DEFAULT_RETRIES = 3
DEFAULT_MAX_CONCURRENCY = 64
DEFAULT_SERVICE_PORT = 8000
DEFAULT_API_KEY = "api-key"
DEFAULT_CA_KEY = "ca.crt"
DEFAULT_REGION = "us-east-1"
DRAIN_MARGIN = timedelta(seconds=30)
MAX_GRACE_PERIOD = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How requests are sent, with every default applied."""

    timeout: timedelta
    retries: int
    max_concurrency: int
    priority: int | None = None
    adaptive: bool = True
    """Whether `max_concurrency` is only the most that the worker may come to."""


def request_policy(spec: BatchJobSpec) -> RequestPolicy:
    """The effective `spec.requests`."""
    requests = spec.requests
    if requests is None:
        return RequestPolicy(DEFAULT_TIMEOUT, DEFAULT_RETRIES, DEFAULT_MAX_CONCURRENCY)
    return RequestPolicy(
        timeout=requests.timeout or DEFAULT_TIMEOUT,
        retries=DEFAULT_RETRIES if requests.retries is None else requests.retries,
        max_concurrency=requests.max_concurrency or DEFAULT_MAX_CONCURRENCY,
        priority=requests.priority,
        adaptive=requests.concurrency != "Fixed",
    )


def parallelism(spec: BatchJobSpec) -> int:
    """Workers at once, before it is known that there are fewer shards."""
    return (spec.sharding.parallelism if spec.sharding else None) or DEFAULT_PARALLELISM


def lines_per_shard(spec: BatchJobSpec) -> int | None:
    """The size of a shard that the user asked for, or None where the plan is to choose it."""
    return spec.sharding.lines_per_shard if spec.sharding else None


def input_storage(spec: BatchJobSpec) -> Storage:
    """How the input's store is reached."""
    return spec.input.storage or spec.storage or Storage()


def output_storage(spec: BatchJobSpec) -> Storage:
    """How the output's store is reached."""
    return spec.output.storage or spec.storage or Storage()


def output_folder(batchjob: BatchJob) -> str:
    """Name of the folder under the output's prefix that a BatchJob writes in."""
    return batchjob.spec.output.folder or batchjob.metadata.name


@dataclass(frozen=True, slots=True)
class PublishedNames:
    """Names of the published objects under `<output>/<folder>/`."""

    results: str
    errors: str
    retry: str
    progress: str | None


def published_names(output: Output) -> PublishedNames:
    """The effective `spec.output.names`."""
    names = output.names
    return PublishedNames(
        results=(names and names.results) or RESULTS_OBJECT,
        errors=(names and names.errors) or ERRORS_OBJECT,
        retry=(names and names.retry) or RETRY_OBJECT,
        progress=names.progress if names else None,
    )


def server_url(spec: BatchJobSpec, namespace: str, operator_default: str | None) -> str | None:
    """Base URL of the model server, or None where neither the spec nor the operator names one."""
    server = spec.server
    if server is not None and server.url is not None:
        return server.url.rstrip("/")
    if server is not None and server.service is not None:
        return f"http://{server.service.name}.{namespace}.svc:{server.service.port or DEFAULT_SERVICE_PORT}"
    return operator_default.rstrip("/") if operator_default else None


def grace_period(spec: BatchJobSpec) -> timedelta:
    """Time to drain after SIGTERM: a request's time limit and a margin for the last flush, at most 5 minutes."""
    return min(request_policy(spec).timeout + DRAIN_MARGIN, MAX_GRACE_PERIOD)
