"""Idempotency-Key on path-based batches: a request that is sent again makes no second one."""

from dataclasses import replace

from batchwright.gateway.resource_server.creation import CreateBatch, create_batch
from fixtures.gateway import ALICE, BOB
from fixtures.path_routes import ASKED, CATALOGUE, CREATE, World, error_of


def test_the_same_request_makes_one_batch(world: World) -> None:
    first, second = (world.send("POST", CREATE, json=ASKED, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json() == second.json()
    assert len(world.api.under("batchjobs")) == 1
    world.set_status(first.json()["batch_id"], phase="in_progress")
    again = world.send("POST", CREATE, json=ASKED, headers={"Idempotency-Key": "k"})
    assert again.json() == first.json() | {"status": "running"}


def test_another_request_with_the_same_key_is_refused(world: World) -> None:
    world.send("POST", CREATE, json=ASKED, headers={"Idempotency-Key": "k"}).raise_for_status()
    for changes in ({"input_file": "/data/public/x.jsonl"}, {"output_folder_path": "/data/tenants/team-a/out"}):
        answer = world.send("POST", CREATE, json=ASKED | changes, headers={"Idempotency-Key": "k"})
        assert error_of(answer)[:2] == (400, "idempotency_key_reused")
    assert len(world.api.under("batchjobs")) == 1


def test_a_key_is_the_tenants_own(world: World) -> None:
    theirs = ASKED | {"input_file": "/data/tenants/team-b/in.jsonl"}
    made = [
        world.send("POST", CREATE, who, json=asked, headers={"Idempotency-Key": "k"}).json()["batch_id"]
        for who, asked in ((ALICE, ASKED), (BOB, theirs))
    ]
    assert len(set(made)) == 2


def test_a_request_without_one_makes_a_batch_each_time(world: World) -> None:
    assert world.create() != world.create()


def test_a_repetition_finds_its_batch_though_the_catalogue_has_changed(world: World) -> None:
    made = world.send("POST", CREATE, json=ASKED, headers={"Idempotency-Key": "k"}).json()["batch_id"]
    later = replace(world.gateway, catalogue=lambda: CATALOGUE)
    record, _ = create_batch(later, ALICE, CreateBatch(**ASKED), cluster="local", framework="vllm", key="k")
    assert record.id == made
