from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from hack.vllm.serving import VllmServer

from stub.harness import StubProcess
from vllm.flags import EMBEDDING_MODEL, KEY, MAX_MODEL_LENGTH, MODEL
from vllm.shapes.both import Both

ANSWER_SECONDS = 120.0


def _clients(stack: ExitStack, *urls: str, **headers: str) -> Iterator[httpx.Client]:
    for url in urls:
        client = httpx.Client(base_url=url, headers=headers, timeout=ANSWER_SECONDS, trust_env=False)
        yield stack.enter_context(client)


@pytest.fixture
def both(vllm: VllmServer, stub: StubProcess) -> Iterator[Both]:
    """A real server that generates text, and the stub."""
    stub.switch(delay="0", models=[MODEL], max_model_len=MAX_MODEL_LENGTH)
    with ExitStack() as stack:
        yield Both(*_clients(stack, vllm.url, stub.url))


@pytest.fixture
def both_embedding(vllm_embedding: VllmServer, stub: StubProcess) -> Iterator[Both]:
    """A real server that embeds, and the stub."""
    stub.switch(delay="0", models=[EMBEDDING_MODEL], max_model_len=MAX_MODEL_LENGTH, api_keys=[KEY])
    with ExitStack() as stack:
        yield Both(*_clients(stack, vllm_embedding.url, stub.url, Authorization=f"Bearer {KEY}"))
