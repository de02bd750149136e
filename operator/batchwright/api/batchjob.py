"""What a person writes: the spec of a BatchJob.

The CRD is generated from these models, so a description here is what `kubectl explain` prints. Defaults stand in the
descriptions and not in the CRD: a defaulted field makes GitOps tools see a difference for ever.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StringConstraints, model_validator

from batchwright.api import rules
from batchwright.api.duration import Duration
from batchwright.api.model import Model
from batchwright.api.names import ERRORS_OBJECT, RESULTS_OBJECT, RETRY_OBJECT
from batchwright.api.references import ConfigMapKeyReference, DNSName, SecretKeyReference, SecretReference
from batchwright.api.running import Requests, Sharding
from batchwright.api.worker_pods import Worker

LARGEST_LIMIT = 2**53 - 1
"""Every reader of JSON takes a number of this size as it is."""

MAX_SHARDS = 10_000
"""More shards than this make no job faster, and the plan record long."""

FileName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=rules.FILE_NAME_PATTERN)]
HTTPURL = Annotated[str, StringConstraints(max_length=2048, pattern=rules.HTTP_URL_PATTERN)]
HeaderValue = Annotated[str, StringConstraints(max_length=1024, pattern=rules.HEADER_VALUE_PATTERN)]


class Endpoint(StrEnum):
    """The endpoints of a model server that take batch requests."""

    CHAT_COMPLETIONS = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"
    RESPONSES = "/v1/responses"
    SCORE = "/v1/score"
    RERANK = "/v1/rerank"


class ServerSideEncryption(Model):
    """Encryption of what is written, by the object store."""

    kms_key_id: Annotated[str, StringConstraints(min_length=1, max_length=2048)] = Field(
        alias="kmsKeyID", description="Key of the key management service (SSE-KMS) for every object written."
    )


class Storage(Model):
    """How an object store is reached."""

    endpoint_url: HTTPURL | None = Field(
        None,
        alias="endpointURL",
        description="URL of an S3-compatible store, such as http://minio.storage:9000. Default: AWS S3 in the region.",
    )
    region: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = Field(
        None,
        description="Region of the bucket. Default: what the SDK finds in its environment, else us-east-1.",
    )
    addressing_style: Literal["auto", "path", "virtual"] | None = Field(
        None,
        description="Whether the bucket stands in the path or in the host name. Default: path with an endpointURL,"
        " auto without.",
    )
    signature_version: Literal["s3v4", "s3"] | None = Field(
        None, description="How requests are signed. Only very old stores need s3. Default: s3v4."
    )
    ca_bundle_config_map_ref: ConfigMapKeyReference | None = Field(
        None,
        description="ConfigMap with the PEM certificates that the store's certificate is checked against."
        " Default: the public ones of the worker image.",
    )
    credentials_secret_ref: SecretReference | None = Field(
        None,
        description="Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and"
        " AWS_SESSION_TOKEN where there is"
        " one. Mounted as files, so that a rotated Secret reaches running workers. Default: the SDK's own chain,"
        " such as web identity of the worker's service account or an instance role.",
    )
    server_side_encryption: ServerSideEncryption | None = Field(
        None, description="Encryption of what is written. Default: the bucket's own."
    )


class InputLimits(Model):
    """What an input may have. A face that takes requests from others sets them: see docs/adr/0008."""

    lines: Annotated[int, Field(strict=True, ge=1, le=LARGEST_LIMIT, json_schema_extra={"format": "int64"})] | None = (
        Field(
            None,
            description="Requests that the input may have; with more it is invalid (too_many_tasks). Default: the"
            " operator's setting.",
        )
    )
    bytes: Annotated[int, Field(strict=True, ge=1, le=LARGEST_LIMIT, json_schema_extra={"format": "int64"})] | None = (
        Field(
            None,
            description="Bytes that the input may have; with more it is invalid (file_too_large). Default: the"
            " operator's setting.",
        )
    )
    endpoints: Annotated[list[Endpoint], Field(min_length=1, max_length=len(Endpoint))] | None = Field(
        None,
        description="Endpoints that the lines may name where spec.endpoint is absent, since the server has no others; a"
        " line that names another one is invalid (invalid_url). Default: all.",
    )


class Input(Model):
    """The requests."""

    uri: Annotated[str, StringConstraints(max_length=2048, pattern=rules.INPUT_URI_PATTERN)] = Field(
        description="The JSONL object of requests: s3://bucket/key or file:///path on a mounted volume."
        " Taken literally: nothing is percent-decoded. Can't be changed.",
        json_schema_extra={"x-kubernetes-validations": [rules.INPUT_SCHEME.schema()]},
    )
    storage: Storage | None = Field(None, description="How the input's store is reached. Default: spec.storage.")
    limits: InputLimits | None = Field(
        None,
        description="What the input may have. For faces such as the gateway, which promise limits to their users and"
        " can't count a file that they don't read. Of a limit and the operator's setting the smaller one counts."
        " Default: the operator's settings. Can't be changed.",
    )


class OutputNames(Model):
    """File names of what is published."""

    results: FileName | None = Field(None, description="Name of the results object. Default: results.jsonl.")
    errors: FileName | None = Field(None, description="Name of the errors object. Default: errors.jsonl.")
    retry: FileName | None = Field(
        None, description="Name of the object of request lines to submit again. Default: retry.jsonl."
    )
    progress: FileName | None = Field(
        None,
        description="Name of a JSON object that is kept current during the run (lines_processed, total_tokens_so_far,"
        " num_responses_so_far) and has metrics of the run at its end. Default: none is written.",
    )

    @model_validator(mode="after")
    def _differ(self) -> Self:
        names = [self.results or RESULTS_OBJECT, self.errors or ERRORS_OBJECT, self.retry or RETRY_OBJECT]
        names += [self.progress] if self.progress else []
        if len(set(names)) < len(names):
            raise ValueError(rules.OUTPUT_NAMES_DIFFER.message)
        return self


class Output(Model):
    """Where the results go."""

    uri: Annotated[str, StringConstraints(max_length=2048, pattern=rules.OUTPUT_URI_PATTERN)] = Field(
        description="A prefix, s3://bucket/prefix/ or file:///folder/. The BatchJob writes under <prefix>/<its name>/,"
        " or under <prefix>/<folder>/. Taken literally. Can't be changed.",
        json_schema_extra={"x-kubernetes-validations": [rules.OUTPUT_SCHEME.schema()]},
    )
    folder: FileName | None = Field(
        None,
        description="Name of the folder under the prefix that the BatchJob writes in. One BatchJob alone writes there:"
        " another one that names the same folder is refused. Taken literally. Default: the BatchJob's name. Can't be"
        " changed.",
    )
    storage: Storage | None = Field(None, description="How the output's store is reached. Default: spec.storage.")
    names: OutputNames | None = Field(
        None,
        description="Names of the published objects. Default: results.jsonl, errors.jsonl, retry.jsonl, and no progress"
        " object. Can't be changed.",
        json_schema_extra={"x-kubernetes-validations": [rules.OUTPUT_NAMES_DIFFER.schema()]},
    )


class ServiceReference(Model):
    """A Service in front of the model server."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")] = (
        Field(description="Name of the Service, in the namespace of the BatchJob.")
    )
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] | None = Field(
        None, description="Port of the Service, a number. Default: 8000."
    )


class Server(Model):
    """The OpenAI-compatible model server."""

    url: HTTPURL | None = Field(
        None,
        description="Base URL of the server, without /v1, such as http://vllm:8000. Either url or service."
        " Default: the operator's setting.",
    )
    service: ServiceReference | None = Field(
        None,
        description="A Service of the BatchJob's namespace in front of the server, reached by plain HTTP. Either url or"
        " service. Default: the operator's setting.",
    )
    api_key_secret_ref: SecretKeyReference | None = Field(
        None, description="Secret with the server's API key, sent as a bearer token. Default: no key is sent."
    )
    ca_bundle_config_map_ref: ConfigMapKeyReference | None = Field(
        None,
        description="ConfigMap with the PEM certificates that the server's certificate is checked against."
        " Default: the public ones of the worker image.",
    )
    headers: Annotated[dict[str, HeaderValue], Field(max_length=32)] | None = Field(
        None,
        description="Headers added to every request, name to value. Not for secrets. Default: none.",
        json_schema_extra={"x-kubernetes-validations": [rules.HEADER_NAMES.schema()]},
    )

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if self.url is not None and self.service is not None:
            raise ValueError(rules.SERVER_ONE_ADDRESS.message)
        for name in self.headers or {}:
            if not re.fullmatch(rules.HEADER_NAME_PATTERN, name):
                raise ValueError(f"{name[:64]!r} can't be sent: {rules.HEADER_NAMES.message}")
        return self


MetadataValue = Annotated[str, StringConstraints(max_length=512)]


class BatchJobSpec(Model):
    """A batch of requests, and how it is run."""

    endpoint: Endpoint | None = Field(
        None,
        description="API path of every request. Default: the one url that all lines name, put into the status."
        " Can't be changed.",
    )
    model: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = Field(
        None,
        description="Model that every line must name. A check: it is never put into a line. Default: the"
        " one model that all"
        " lines name, put into the status. Can't be changed.",
    )
    input: Input = Field(description="The requests, a JSONL object.")
    output: Output = Field(description="Where results, errors and lines to retry are published.")
    server: Server | None = Field(
        None, description="The OpenAI-compatible model server. Default: the operator's setting."
    )
    storage: Storage | None = Field(
        None,
        description="How object stores are reached; input.storage and output.storage override it as a whole. Default:"
        " AWS S3, with the SDK's own chain of credentials.",
    )
    completion_window: Duration | None = Field(
        None,
        description="Time from creation to expiry, a Go duration such as 24h, at least 1s; suspended and queued"
        " time count. What is finished by then is published. Default: never expires.",
        json_schema_extra={"x-kubernetes-validations": [rules.COMPLETION_WINDOW.schema()]},
    )
    sharding: Sharding | None = Field(
        None, description="How the input is split over worker pods. Default: as each field says."
    )
    requests: Requests | None = Field(
        None,
        description="How requests are sent: time limit, tries, concurrency, priority. Default: as each field says.",
    )
    suspend: StrictBool | None = Field(None, description="true pauses the work, false goes on. Default: false.")
    cancel: StrictBool | None = Field(
        None,
        description="true stops for good, in every phase; what is finished is published. Can't be undone."
        " Default: false.",
    )
    resume: Literal["Auto", "Never"] | None = Field(
        None,
        description="Auto reuses the work of an earlier BatchJob of the same name, input and settings under the same"
        " output, failed requests too; Never starts anew. Default: Auto.",
    )
    ttl_seconds_after_finished: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = Field(
        None,
        description="Seconds from the end to the deletion of the BatchJob; results stay. Default: never deleted.",
    )
    queue_name: (
        Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=rules.DNS_NAME_PATTERN)] | None
    ) = Field(None, description="Local queue of Kueue in which the run Job waits. Default: none.")
    worker: Worker | None = Field(
        None, description="The worker pods: image, resources, placement, volumes. Default: as each field says."
    )
    metadata: Annotated[dict[str, MetadataValue], Field(max_length=16)] | None = Field(
        None,
        description="Up to 16 pairs of your own, keys up to 64 and values up to 512 characters, as in OpenAI's API."
        " Default: none.",
        json_schema_extra={"x-kubernetes-validations": [rules.METADATA_KEYS.schema()]},
    )

    @model_validator(mode="after")
    def _values(self) -> Self:
        if self.completion_window is not None and self.completion_window < timedelta(seconds=1):
            raise ValueError(rules.COMPLETION_WINDOW.message)
        if any(len(key) > rules.METADATA_KEY_LENGTH for key in self.metadata or {}):
            raise ValueError(rules.METADATA_KEYS.message)
        return self


class Metadata(Model):
    """What Batchwright reads of an object's metadata."""

    name: DNSName
    namespace: str = "default"
    uid: str = ""
    generation: int = 0

    model_config = Model.model_config | {"extra": "ignore"}


class BatchJob(Model):
    """A BatchJob as far as its maker writes it."""

    api_version: Literal["batchwright.dev/v1alpha1"] = "batchwright.dev/v1alpha1"
    kind: Literal["BatchJob"] = "BatchJob"
    metadata: Metadata
    spec: BatchJobSpec

    model_config = Model.model_config | {"extra": "ignore"}
