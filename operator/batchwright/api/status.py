"""The status of a BatchJob: counts, times and pointers; never a list that grows with the input."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field, PlainSerializer, StringConstraints, WithJsonSchema

from batchwright.api.conditions import Phase
from batchwright.api.model import TolerantModel
from batchwright.api.text import CountsByName, Message, Sentence, Word

Count = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
MAX_VALIDATION_ERRORS = 100
MAX_MESSAGE_LENGTH = 2048
URI = Annotated[str, StringConstraints(max_length=4096)]
EndpointPath = Annotated[str, StringConstraints(max_length=64)]
ModelName = Annotated[str, StringConstraints(max_length=512)]
Fingerprint = Annotated[str, StringConstraints(max_length=64)]


def _whole_seconds(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def _rfc3339(moment: datetime) -> str:
    return _whole_seconds(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[
    AwareDatetime,
    AfterValidator(_whole_seconds),
    PlainSerializer(_rfc3339, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment in UTC, in whole seconds as metav1.Time, so that a status that was written and read is the same."""


class Condition(TolerantModel):
    """A metav1.Condition."""

    type: Annotated[str, StringConstraints(max_length=316, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*$")] = Field(
        description="Type of the condition, in CamelCase."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: Count = Field(description="The spec's generation that the condition was found for.")
    last_transition_time: Time = Field(description="When the status of the condition last changed.")
    reason: Annotated[
        str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ] = Field(description="Why, in one CamelCase word for programs.")
    message: Message = Field(description="Why, for people: the cause, the place and the remedy.")


class RequestCounts(TolerantModel):
    """Requests of the input. At the end completed and failed make up the total, those that were never sent because the
    BatchJob was stopped being among the failed: see error_codes."""

    total: Count = Field(0, description="Requests in the input.")
    completed: Count = Field(0, description="Requests answered with a 2xx status.")
    failed: Count = Field(0, description="Requests that ended in another status, in none, or not at all.")


class ShardCounts(TolerantModel):
    """Shards of the input."""

    total: Count = Field(0, description="Shards in the plan.")
    completed: Count = Field(0, description="Shards with a committed record.")
    failed: Count = Field(0, description="Shards given up by their workers.")
    active: Count = Field(0, description="Shards that a worker is running.")


class Usage(TolerantModel):
    """Tokens that the server reported. A count that no answer reported is absent: unknown is not zero."""

    input_tokens: Count | None = Field(None, description="Tokens read.")
    cached_tokens: Count | None = Field(None, description="Tokens read from the prefix cache; part of inputTokens.")
    output_tokens: Count | None = Field(None, description="Tokens written.")
    reasoning_tokens: Count | None = Field(None, description="Tokens of reasoning; part of outputTokens.")
    total_tokens: Count | None = Field(None, description="Tokens read and written.")


class Reused(TolerantModel):
    """What stands from an earlier BatchJob of the same name and the same work: it is not sent again. The other counts
    include it."""

    completed: Count = Field(0, description="Requests whose answer stands.")
    failed: Count = Field(0, description="Requests whose failure stands: a 4xx answer that would come again.")
    shards: Count = Field(0, description="Shards all of whose requests stand.")
    usage: Usage | None = Field(None, description="Tokens of the answers that stand.")
    finish_reasons: CountsByName | None = Field(None, description="Answers that stand by their finish reason.")


class PublishedObject(TolerantModel):
    """A published object."""

    uri: URI = Field(description="URI of the object.")
    bytes: Count | None = Field(None, description="Size of the object in bytes.")
    lines: Count | None = Field(None, description="Lines of the object.")


class Metrics(TolerantModel):
    """How fast the run was. Strings, since Kubernetes has no portable fractions."""

    response_time_seconds: Word | None = Field(None, description="Seconds from the start of the run to its end.")
    throughput_tokens_per_second: Word | None = Field(None, description="totalTokens over responseTimeSeconds.")
    requests_per_second: Word | None = Field(
        None, description="Requests completed and failed over responseTimeSeconds."
    )


class ValidationError(TolerantModel):
    """An error of the input file, as OpenAI's batch object lists it."""

    code: Word = Field(description="Kind of the error.")
    line: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = Field(
        None, description="Line of the input, from 1. Absent when the file as a whole is wrong."
    )
    param: Word | None = Field(None, description="Field that is wrong.")
    message: Sentence = Field(description="What is wrong.")


class BatchJobStatus(TolerantModel):
    """The state of a BatchJob. Conditions are the truth, phase is derived from them."""

    phase: Phase | None = Field(
        None,
        description="Where the BatchJob stands: pending, validating, in_progress, finalizing, completed, failed,"
        " cancelling, cancelled or expired.",
    )
    observed_generation: Count | None = Field(None, description="The spec's generation that this status is of.")
    message: Message | None = Field(None, description="What is going on, for people.")
    conditions: Annotated[list[Condition], Field(max_length=16)] | None = Field(
        None,
        description="Complete, Failed, FailureTarget, Suspended, Reconciling, ServerAvailable and Stalled.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    endpoint: EndpointPath | None = Field(
        None, description="API path of the requests: of the spec, else the one that all lines name."
    )
    model: ModelName | None = Field(
        None, description="Model of the requests: of the spec, else the one that all lines name."
    )
    progress: Word | None = Field(None, description="Requests done of all, such as 1234/5000.")
    rate: Word | None = Field(None, description="Requests done a second, lately, such as 412/s.")
    eta: Word | None = Field(None, description="Time left at that rate, such as 3m.")
    estimated_completion_time: Time | None = Field(None, description="When the run ends at that rate.")
    request_counts: RequestCounts | None = Field(None, description="Requests by outcome.")
    shards: ShardCounts | None = Field(None, description="Shards by state.")
    reused: Reused | None = Field(
        None,
        description="Requests that stand from an earlier BatchJob of the same name. Absent where nothing does.",
    )
    usage: Usage | None = Field(None, description="Tokens that the server reported.")
    finish_reasons: CountsByName | None = Field(
        None, description="Answers by their finish reason, such as stop and length."
    )
    error_codes: CountsByName | None = Field(
        None,
        description="Failed requests by HTTP status or error code, the most frequent ones. batch_cancelled,"
        " batch_expired and batch_failed count those that the BatchJob ended without.",
    )
    output: PublishedObject | None = Field(
        None, description="Results, in input order. Absent when no request succeeded."
    )
    errors: PublishedObject | None = Field(
        None, description="Error lines, in input order. Absent when no request failed."
    )
    retry: PublishedObject | None = Field(
        None,
        description="Request lines of what failed, to submit again as they are. Absent when no request failed.",
    )
    metrics: Metrics | None = Field(None, description="How fast the run was, once it ended.")
    validation_errors: Annotated[list[ValidationError], Field(max_length=MAX_VALIDATION_ERRORS)] | None = Field(
        None,
        description="The first errors of an invalid input.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    validation_error_count: Count | None = Field(None, description="All errors of an invalid input.")
    validation_errors_uri: URI | None = Field(
        None,
        alias="validationErrorsURI",
        description="URI of the object with the errors of an invalid input.",
    )
    plan_uri: URI | None = Field(
        None, alias="planURI", description="URI of the plan record; the work objects lie beside it."
    )
    fingerprint: Fingerprint | None = Field(
        None,
        description="Identity of the work: input, endpoint, model and sharding. The same fingerprint, the same work.",
    )
    run: Count | None = Field(None, description="Number of the run Job: 1, then one more for every repair.")
    parallelism: Count | None = Field(None, description="Workers of the run.")
    created_at: Time | None = Field(None, description="When the BatchJob was created.")
    validating_at: Time | None = Field(None, description="When its input began to be checked.")
    in_progress_at: Time | None = Field(None, description="When requests began to be sent.")
    expires_at: Time | None = Field(None, description="When the completion window ends.")
    finalizing_at: Time | None = Field(
        None, description="When the last request had ended, or the work was stopped otherwise than by a cancel."
    )
    completed_at: Time | None = Field(None, description="When everything was published.")
    failed_at: Time | None = Field(None, description="When the BatchJob failed.")
    cancelling_at: Time | None = Field(None, description="When cancelling began.")
    cancelled_at: Time | None = Field(None, description="When the BatchJob was cancelled.")
    expired_at: Time | None = Field(None, description="When the completion window had ended.")
