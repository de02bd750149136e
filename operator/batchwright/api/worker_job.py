"""What the operator tells a worker: the file job.json, mounted from a ConfigMap."""

from typing import Annotated, Literal

from pydantic import Field

from batchwright.api.batchjob import HTTPURL, BatchJob
from batchwright.api.model import Model

MAX_BODY_BYTES = 10 * 1024 * 1024


class Limits(Model):
    """Bounds of an input. Absent: no bound. They belong to faces, so the operator's settings hold them."""

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
