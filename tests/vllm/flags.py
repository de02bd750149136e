"""With which flags the tests' servers are started."""

from typing import Final

from hack.vllm.installation import Installation
from hack.vllm.serving import lora_flags

MODEL: Final = "tiny"
EMBEDDING_MODEL: Final = "tiny-embedding"
ADAPTER: Final = "tiny-lora"
KEY: Final = "a-key-of-tests"
"""The server that embeds asks for it."""
MAX_MODEL_LENGTH: Final = 1024
FEW_SPACES: Final = {"frequency_penalty": 2.0}
"""Of a guided request. A model that knows nothing fills every place where JSON allows white space with no end of it."""
SLOTS: Final = 16
"""Requests that the engine works on at once: so few that a test can fill them."""

_COMMON: Final = (
    *("--max-model-len", str(MAX_MODEL_LENGTH), "--max-num-seqs", str(SLOTS)),
    "--enable-request-id-headers",
    "--enable-log-requests",
)
EMBEDDING_FLAGS: Final = _COMMON


def generation_flags(installation: Installation) -> tuple[str, ...]:
    """Flags of a server that generates text, with the adapter and priorities."""
    return (
        *_COMMON,
        "--enable-prompt-tokens-details",
        "--enable-log-outputs",
        *("--scheduling-policy", "priority"),
        *lora_flags(installation),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    )
