"""Idempotency-Key: a request that is sent again makes no second batch."""

import threading
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from batchwright.gateway.keeper.due import ended_at
from batchwright.gateway.records.idempotency_record import expires_at
from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world
from fixtures.gateway import BOB
from fixtures.kubernetes_http import LoseAnswer

DAY = timedelta(hours=24).total_seconds()


def test_the_same_request_again_is_the_same_batch(world: BatchWorld) -> None:
    fields = {"input_file_id": world.upload(), "endpoint": ENDPOINT, "metadata": {"a": "b", "c": "d"}}
    first = world.post(key="k", **fields).json()
    world.phase(first["id"], "in_progress")
    # The same request, written otherwise: the order of keys, and a default that is named.
    again = world.post(key="k", metadata={"c": "d", "a": "b"}, completion_window="24h", **without(fields, "metadata"))

    assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, first["id"], "in_progress")
    assert len(world.batchjobs()) == 1
    assert len(world.request("GET", "/v1/batches").json()["data"]) == 1


def without(fields: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in fields.items() if key != name}


def test_without_a_key_each_request_is_a_batch(world: BatchWorld) -> None:
    file_id = world.upload()

    assert world.create(file_id) != world.create(file_id)


def test_another_request_under_the_key_is_a_400_that_nobody_repeats(world: BatchWorld) -> None:
    file_id = world.upload()
    world.post(key="k", input_file_id=file_id, endpoint=ENDPOINT)
    answer = world.post(key="k", input_file_id=file_id, endpoint="/v1/completions")

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "idempotency_key_reused"
    assert answer.json()["error"]["param"] == "Idempotency-Key"
    assert len(world.batchjobs()) == 1


def test_another_tenant_may_use_the_same_key(world: BatchWorld) -> None:
    alices = world.post(key="k", input_file_id=world.upload(), endpoint=ENDPOINT)
    bobs = world.post(BOB, key="k", input_file_id=world.upload(BOB), endpoint=ENDPOINT)

    assert alices.status_code == bobs.status_code == 200
    assert alices.json()["id"] != bobs.json()["id"]


def test_a_batch_that_failed_at_once_is_found_again_too(world: BatchWorld) -> None:
    fields = {"input_file_id": world.missing_file(1), "endpoint": ENDPOINT}
    first, again = world.post(key="k", **fields).json(), world.post(key="k", **fields).json()

    assert (again["id"], again["status"]) == (first["id"], "failed")


def test_a_request_that_was_refused_has_not_used_its_key(world: BatchWorld) -> None:
    assert world.post(key="k", input_file_id="x", endpoint="chat").status_code == 400

    assert world.post(key="k", input_file_id=world.upload(), endpoint=ENDPOINT).status_code == 200


def test_after_a_day_the_key_is_a_new_one(world: BatchWorld) -> None:
    fields = {"input_file_id": world.upload(), "endpoint": ENDPOINT}
    first = world.post(key="k", **fields).json()["id"]
    world.pass_by(DAY - 60)
    assert world.post(key="k", **fields).json()["id"] == first

    world.pass_by(120)
    other = world.post(key="k", **fields).json()["id"]
    assert other != first
    assert world.post(key="k", **fields).json()["id"] == other


def test_two_that_arrive_at_the_same_moment_are_one_batch(world: BatchWorld) -> None:
    fields = {"input_file_id": world.upload(), "endpoint": ENDPOINT}
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(world.post(key="k", **fields))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status_code for answer in answers] == [200] * 6
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(world.batchjobs()) == 1


@pytest.mark.parametrize("key", ["k" * 256, "tab\tkey", "schlüssel".encode("latin-1")])
def test_a_key_that_is_none_is_a_400(shared: BatchWorld, key: str | bytes) -> None:
    fields = {"input_file_id": shared.missing_file(1), "endpoint": ENDPOINT}
    answer = shared.request("POST", "/v1/batches", json=fields, headers={"Idempotency-Key": key})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "Idempotency-Key"


def test_a_key_of_the_greatest_length_is_one(shared: BatchWorld) -> None:
    fields = {"input_file_id": shared.missing_file(1), "endpoint": ENDPOINT}

    assert shared.post(key="/../" + "k" * 251, **fields).status_code == 200


def test_the_sdk_sends_it_as_a_header(shared: BatchWorld) -> None:
    client, file_id = shared.openai(), shared.upload()
    made = {
        client.batches.create(
            input_file_id=file_id,
            endpoint=ENDPOINT,
            completion_window="24h",
            extra_headers={"Idempotency-Key": "nightly-2026-03-01"},
        ).id
        for _ in range(2)
    }

    assert len(made) == 1


def test_an_answer_of_the_api_server_that_is_lost_makes_no_second_batchjob(world: BatchWorld) -> None:
    world.api.fail("POST", "/batchjobs", LoseAnswer())
    batch_id = world.create()

    assert world.get(batch_id)["status"] == "validating"
    assert len(world.batchjobs()) == 1


def test_a_key_is_forgotten_no_later_than_its_batch_may_be(tmp_path: Path) -> None:
    """A batch that failed at once, kept for the shortest time that the settings take, goes after exactly a day."""
    with batch_world(None, tmp_path) as world:
        world.post(key="k", input_file_id=world.missing_file(1), endpoint=ENDPOINT)
        [key] = world.gateway.idempotency.list("team-a")
        [batch] = world.gateway.batches.list("team-a")

    assert key.record.batch_id == batch.record.id
    assert expires_at(key.record) <= ended_at(batch.record) + timedelta(days=1)
