"""/v1/models, in vLLM's shape."""

import time
from typing import Any

MAX_MODEL_LENGTH = 32_768


def model_list(served: tuple[str, ...], longest: int) -> dict[str, Any]:
    """List the served models, each as a base model of its own that holds so many tokens."""
    return {"object": "list", "data": [_card(name, longest) for name in served]}


def _card(name: str, longest: int) -> dict[str, Any]:
    now = int(time.time())
    return {
        "id": name,
        "object": "model",
        "created": now,
        "owned_by": "vllm",
        "root": name,
        "parent": None,
        "max_model_len": longest,
        "permission": [
            {
                "id": f"modelperm-{name}",
                "object": "model_permission",
                "created": now,
                "allow_create_engine": False,
                "allow_sampling": True,
                "allow_logprobs": True,
                "allow_search_indices": False,
                "allow_view": True,
                "allow_fine_tuning": False,
                "organization": "*",
                "group": None,
                "is_blocking": False,
            }
        ],
    }
