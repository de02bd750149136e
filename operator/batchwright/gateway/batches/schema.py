"""What goes in and out of the routes of batches, for checks and for the OpenAPI document."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from batchwright.api.rules import METADATA_KEY_LENGTH
from batchwright.gateway import errors
from batchwright.gateway.records.batch_record import Status

METADATA_PAIRS: Final = 16
METADATA_VALUE_LENGTH: Final = 512
_SHOWN: Final = 80

Metadata = dict[
    Annotated[str, Field(max_length=METADATA_KEY_LENGTH)], Annotated[str, Field(max_length=METADATA_VALUE_LENGTH)]
]


class OutputExpiresAfter(BaseModel):
    """When what the batch publishes is deleted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    anchor: Literal["created_at"] = Field(description="From when on: the creation of the output file.")
    seconds: Annotated[int, Field(strict=True, ge=3600, le=2_592_000, description="One hour to 30 days.")]


class CreateBatch(BaseModel):
    """A batch to be made.

    Fields that nobody knows are refused, as OpenAI refuses them (`unknown_parameter`): one that is misspelt would
    otherwise go unnoticed for the 24 hours of its batch.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_file_id: str = Field(max_length=512, description="An uploaded file of purpose `batch`.")
    endpoint: str = Field(description="API path of every request, such as /v1/chat/completions.")
    completion_window: str | None = Field(None, description="24h, which is also the default.")
    metadata: Metadata | None = Field(
        None, max_length=METADATA_PAIRS, description="Up to 16 pairs of strings: keys up to 64 characters, values 512."
    )
    output_expires_after: OutputExpiresAfter | None = Field(
        None, description="When output and error file are deleted. Default: never."
    )

    @field_validator("metadata", mode="before")
    @classmethod
    def _metadata(cls, value: Any) -> Any:
        """The messages name the pair, without repeating what may be long."""
        if value is None:
            return None
        if not isinstance(value, dict):
            raise errors.invalid_type("metadata", "an object with strings as values")
        if len(value) > METADATA_PAIRS:
            raise errors.invalid_value("metadata", f"'metadata' has {len(value)} pairs; {METADATA_PAIRS} are allowed.")
        for key, text in value.items():
            name = f"metadata.{key[:_SHOWN]}"
            if len(key) > METADATA_KEY_LENGTH:
                message = f"The key '{name}' has {len(key)} characters; {METADATA_KEY_LENGTH} are allowed."
                raise errors.invalid_value("metadata", message)
            if not isinstance(text, str):
                raise errors.invalid_type(name, "a string")
            if len(text) > METADATA_VALUE_LENGTH:
                message = f"'{name}' has {len(text)} characters; {METADATA_VALUE_LENGTH} are allowed."
                raise errors.invalid_value(name, message)
        return value


class BatchErrorObject(BaseModel):
    """One error."""

    code: str
    message: str
    param: str | None
    line: int | None


class BatchErrors(BaseModel):
    """Errors of the input, or the one reason why a batch failed later."""

    object: Literal["list"]
    data: list[BatchErrorObject]


class RequestCounts(BaseModel):
    """Requests by outcome."""

    total: int
    completed: int
    failed: int


class InputTokensDetails(BaseModel):
    """Part of the input."""

    cached_tokens: int


class OutputTokensDetails(BaseModel):
    """Part of the output."""

    reasoning_tokens: int


class BatchUsage(BaseModel):
    """Tokens."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class Batch(BaseModel):
    """A batch. Every field is always there; times are Unix seconds, null until they are reached."""

    id: str
    object: Literal["batch"]
    endpoint: str
    model: str | None
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: Status
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: BatchUsage
    metadata: dict[str, str] | None


class BatchList(BaseModel):
    """A page of batches, the newest first."""

    object: Literal["list"]
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool
