"""What the operator tells a worker: the file job.json, mounted from a ConfigMap."""

from typing import Annotated, Literal

from pydantic import Field

from batchwright.api.batchjob import HTTPURL, BatchJob, Endpoint
from batchwright.api.model import Model

MAX_BODY_BYTES = 10 * 1024 * 1024


class Limits(Model):
    """Bounds of an input, as the operator's settings have them. Absent: no bound."""

    max_lines: Annotated[int, Field(ge=1)] | None = None
    max_file_bytes: Annotated[int, Field(ge=1)] | None = None
    max_body_bytes: Annotated[int, Field(ge=1)] = MAX_BODY_BYTES
    """Bytes of one request body as it stands in its line; the line's envelope doesn't count."""


class WorkerJob(Model):
    """Everything that the three stages need to know, beside their arguments and their Secrets."""

    version: Literal[1] = 1
    batchjob: BatchJob
    cluster: str = ""
    """Identity of the cluster (UID of kube-system), so that two clusters never write under one output."""
    server_url: HTTPURL
    """Base URL without /v1."""
    limits: Limits = Limits()
    keep_work_objects: bool = False
    """Keep segments and shard files after the merge, for looking into a problem."""

    @property
    def max_lines(self) -> int | None:
        """Requests that the input may have: the smaller of what the settings and the spec allow. None: no bound."""
        own = self.batchjob.spec.input.limits
        return _smaller(self.limits.max_lines, own.lines if own is not None else None)

    @property
    def max_file_bytes(self) -> int | None:
        """Bytes that the input may have: the smaller of what the settings and the spec allow. None: no bound."""
        own = self.batchjob.spec.input.limits
        return _smaller(self.limits.max_file_bytes, own.bytes if own is not None else None)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that lines may name, where the spec names none."""
        own = self.batchjob.spec.input.limits
        return tuple(endpoint.value for endpoint in (own.endpoints if own and own.endpoints else Endpoint))


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
