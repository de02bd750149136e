"""Several replicas of the gateway at once: what one is told, the other knows."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import openai
import pytest

from e2e.gateway import PORT, gateway_access, gateway_pods, wait_status
from e2e.quickstart import CHAT, Quickstart, chat_line, jsonl
from fixtures.cluster import eventually

LINES = [chat_line(f"slow-{number}", stub="delay=60") for number in range(2)]


@pytest.fixture
def replicas(quickstart: Quickstart) -> Iterator[list[openai.OpenAI]]:
    """A client for each of the two pods."""
    with ExitStack() as stack:
        clients = []
        for pod in eventually(lambda: _two(gateway_pods(quickstart.cluster))):
            access = stack.enter_context(gateway_access(f"pod/{pod}", PORT))
            clients.append(
                stack.enter_context(openai.OpenAI(base_url=access.base_url, api_key=access.key, max_retries=0))
            )
        yield clients


def _two(pods: list[str]) -> list[str]:
    assert len(pods) == 2
    return pods


def test_what_one_replica_took_the_other_gives(replicas: list[openai.OpenAI]) -> None:
    one, other = replicas
    upload = one.files.create(file=("requests.jsonl", jsonl(LINES)), purpose="batch")
    assert other.files.content(upload.id).content == jsonl(LINES)
    assert other.files.retrieve(upload.id) == one.files.retrieve(upload.id)

    batch = other.batches.create(input_file_id=upload.id, endpoint=CHAT, completion_window="24h")
    assert one.batches.retrieve(batch.id).id == batch.id
    assert [next(iter(client.batches.list(limit=1))).id for client in replicas] == [batch.id, batch.id]

    assert one.batches.cancel(batch.id).status == "cancelling"
    asked: Any = itertools.cycle(replicas)  # each in turn: neither goes back behind what the other said
    ended = wait_status(lambda: next(asked).batches.retrieve(batch.id), lambda found: found.status)
    assert ended.status == "cancelled"
    assert one.batches.retrieve(batch.id) == other.batches.retrieve(batch.id) == ended

    assert other.files.delete(upload.id).deleted
    for client in replicas:
        with pytest.raises(openai.NotFoundError):
            client.files.retrieve(upload.id)


def test_a_key_sent_twice_to_two_replicas_makes_one_batch(replicas: list[openai.OpenAI]) -> None:
    upload = replicas[0].files.create(file=b"no JSON\n", purpose="batch")
    made = {
        client.batches.create(
            input_file_id=upload.id,
            endpoint=CHAT,
            completion_window="24h",
            extra_headers={"Idempotency-Key": upload.id},
        ).id
        for client in replicas
    }
    assert len(made) == 1
