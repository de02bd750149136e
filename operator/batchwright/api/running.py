"""How the work of a BatchJob is split, and how its requests are sent."""

import re
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from batchwright.api import rules
from batchwright.api.duration import Duration
from batchwright.api.model import Model


class Sharding(Model):
    """How the input is split."""

    lines_per_shard: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        None,
        description="Lines of a shard, the unit of commit. Default: the number nearest to 1,000 within 500"
        " to 2,000 that"
        " makes the number of shards a multiple of parallelism. Can't be changed.",
    )
    parallelism: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = Field(
        None, description="Worker pods at once. Default: 8, or the number of shards where that is less."
    )


class Requests(Model):
    """How requests are sent to the model server."""

    timeout: Duration | None = Field(
        None,
        description="Time that one try of a request may take, a Go duration such as 90s, 3m or 1.5h, at least 1ms."
        " Default: 3m.",
        json_schema_extra={"x-kubernetes-validations": [rules.TIMEOUT.schema()]},
    )
    retries: Annotated[int, Field(strict=True, ge=0, le=100)] | None = Field(
        None,
        description="Tries after the first one of a request that failed. Default: 3, so at most four tries.",
    )
    max_concurrency: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = Field(
        None, description="Requests in flight at once, at most, for each worker. Default: 64."
    )
    concurrency: Literal["Adaptive", "Fixed"] | None = Field(
        None,
        description="Adaptive: a worker finds by itself how many requests in flight keep the server full, up to"
        " maxConcurrency, and gives way to other users of the server. Fixed: always maxConcurrency. Default: Adaptive.",
    )
    priority: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)] | None = Field(
        None,
        description="Sent to vLLM as X-Vllm-Priority: a lower number is served first. Counts only where the server runs"
        " with --scheduling-policy priority, and for text: embeddings, scores and ranks need it in their bodies."
        " Default: not sent.",
    )
    max_failures: StrictInt | Annotated[str, StringConstraints(max_length=4)] | None = Field(
        None,
        description='Failed requests that are allowed, a number or a part of all such as "5%". With one more the'
        " BatchJob stops early and fails (TooManyFailures), and what is finished is published. Default: it never stops"
        " early.",
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "maxLength": 4,
            "x-kubernetes-validations": [rules.MAX_FAILURES.schema()],
        },
    )

    @model_validator(mode="after")
    def _values(self) -> Self:
        if self.timeout is not None and self.timeout < timedelta(milliseconds=1):
            raise ValueError(rules.TIMEOUT.message)
        if isinstance(self.max_failures, str) and not re.fullmatch(rules.PERCENTAGE_PATTERN, self.max_failures):
            raise ValueError(rules.MAX_FAILURES.message)
        if isinstance(self.max_failures, int) and self.max_failures < 0:
            raise ValueError(rules.MAX_FAILURES.message)
        return self
