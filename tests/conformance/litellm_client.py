"""A batch by LiteLLM: upload, create, wait, download; and one that is cancelled.

litellm_client.py BASE_URL KEY INPUT SLOW_INPUT
"""

import json
import os
import sys
import time
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it asks the internet for prices when it is imported

import litellm

ENDED = {"completed", "failed", "expired", "cancelled"}
PATIENCE_SECONDS = 240


def main(base_url: str, key: str, path: str, slow_path: str) -> dict[str, Any]:
    there: dict[str, Any] = {"custom_llm_provider": "openai", "api_base": base_url, "api_key": key}
    slow = litellm.create_batch(
        input_file_id=_uploaded(slow_path, there), endpoint="/v1/chat/completions", completion_window="24h", **there
    )
    litellm.cancel_batch(batch_id=slow.id, **there)
    batch = litellm.create_batch(
        input_file_id=_uploaded(path, there),
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"client": "litellm"},
        **there,
    )
    ended = _wait(batch.id, there)
    listed = [one.id for one in litellm.list_batches(limit=100, **there).data]
    lines = litellm.file_content(file_id=ended.output_file_id, **there).content.splitlines()
    return {
        "id": batch.id,
        "status": ended.status,
        "metadata": dict(ended.metadata),
        "counts": {name: getattr(ended.request_counts, name) for name in ("total", "completed", "failed")},
        "listed": batch.id in listed and slow.id in listed,
        "answers": {
            line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
            for line in map(json.loads, lines)
        },
        "bytes": litellm.file_retrieve(file_id=ended.output_file_id, **there).bytes,
        "cancelled": _wait(slow.id, there).status,
    }


def _uploaded(path: str, there: dict[str, Any]) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return str(litellm.create_file(file=file, purpose="batch", **there).id)


def _wait(identity: str, there: dict[str, Any]) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        batch = litellm.retrieve_batch(batch_id=identity, **there)
        if batch.status in ENDED:
            return batch
        if time.monotonic() > end:
            raise TimeoutError(f"{identity} is {batch.status} after {PATIENCE_SECONDS} s")
        time.sleep(1)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
