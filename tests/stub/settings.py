"""The switches of the whole server, as values: what `/stub/switches` takes and the start sets."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stub.delays import parse_delay
from stub.errors import SwitchError
from stub.models import MAX_MODEL_LENGTH
from stub.switches import parse_switches

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
ErrorStatus = Annotated[int, Meta(ge=400, le=599)]
Seconds = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1)]


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be switched while the server runs."""

    models: tuple[Name, ...] = ("stub-model",)
    """Names under which the model is served; a request for another one gets 404."""
    max_model_len: Positive = MAX_MODEL_LENGTH
    """Tokens of a prompt and its answer together, at most; a request for more gets 400."""
    api_keys: tuple[Name, ...] = ()
    """Accepted bearer tokens; empty: none is asked for."""
    request_id_headers: bool = True
    """Answer with X-Request-Id, as vLLM does with --enable-request-id-headers."""
    delay: str = "0.05"
    """How long an answer takes, unless a request says otherwise: see stub.delays."""
    requests: str = ""
    """Switches of every request that brings none itself: see stub.switches."""
    slots: Positive | None = None
    """Requests worked on at once; more wait, the lowest priority value first. None: any number."""
    queue: Count | None = None
    """Requests that may wait for a slot; one more is refused with `queue_status`. None: any number."""
    queue_status: ErrorStatus = 429
    """vLLM itself answers 503 at --max-num-queued-reqs; gateways in front of it 429."""
    queue_retry_after: str | None = None
    """The header Retry-After of a request that was refused for the queue."""
    health: Annotated[int, Meta(ge=200, le=599)] = 200
    """What /health answers."""
    drain: bool = False
    """Shutting down: /health 503, new connections refused, what still comes in aborted, as in vLLM."""
    drain_error: bool = False
    """With `drain`, what still comes in gets a 500, as from a vLLM whose requests in flight may end."""
    freeze: bool = False
    """Nothing is answered any more, though /health says 200; what is in flight stays so until it is lifted."""
    idle_close: Seconds | None = None
    """Close a connection that has been idle for so many seconds."""
    waiting: Count | None = None
    """Shown as vllm:num_requests_waiting, instead of the true number: other people's traffic."""
    kv_cache_usage: Fraction | None = None
    """Shown as vllm:kv_cache_usage_perc, instead of slots taken over slots."""

    def __post_init__(self) -> None:
        # What does not parse must be refused when it is set, not when a request arrives.
        parse_delay(self.delay)
        if any(step.reset == "before_read" for step in parse_switches(self.requests).steps[1:]):
            raise SwitchError("reset=before_read must be the only step: what is not read cannot be counted")

    def merged(self, changes: dict[str, Any]) -> "Settings":
        """Return these settings with some of them changed. Raises SwitchError, naming the field."""
        try:
            return msgspec.convert({**msgspec.structs.asdict(self), **changes}, Settings)
        except msgspec.ValidationError as error:
            raise SwitchError(str(error)) from None

    def shown(self) -> dict[str, Any]:
        """Return the settings as JSON values, with the keys left out."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        values["api_keys"] = len(self.api_keys)
        return values
