"""A gateway that dies, or loses its storage or the API server, at each step of making and of ending a batch.

Every call to the storage and to the API server is a step. At one of them, before it or after it was done, the process
dies, or the call fails; then another replica goes on, with the client's repetition or without it. There are exactly one
batch and one BatchJob then, or none of both where the client was told so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batchwright.gateway.batches.cancelling import cancel
from batchwright.gateway.batches.creation import create_batch
from batchwright.gateway.batches.current import current, current_of_many
from batchwright.gateway.batches.schema import CreateBatch
from batchwright.gateway.context import Gateway
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.idempotency_record import IdempotencyRecord
from batchwright.gateway.records.record_store import RecordStore
from batchwright.kube.errors import KubernetesError, Unavailable
from batchwright.storage.errors import StorageError, StorageUnavailable
from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world
from fixtures.s3 import S3Bucket


class Died(BaseException):
    """The process is gone: nothing handles it."""


@dataclass
class Steps:
    """Counts the calls, and makes one of them fail."""

    fails_at: int = -1
    after: bool = False
    dies: bool = True
    taken: int = 0

    def take(self, call: Callable[[], Any], failure: Exception) -> Any:
        number, self.taken = self.taken, self.taken + 1
        if number != self.fails_at:
            return call()
        if self.after:
            call()
        raise Died if self.dies else failure


class Stepping:
    """An object whose calls are steps."""

    def __init__(self, behind: Any, steps: Steps, failure: Exception) -> None:
        self._behind, self._steps, self._failure = behind, steps, failure

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return self._steps.take(lambda: found(*arguments, **options), self._failure)

        return call


def replica(gateway: Gateway, steps: Steps | None = None) -> Gateway:
    """Another process over the same storage and cluster."""
    steps = steps or Steps()
    away = StorageUnavailable("PutObject", "s3://bucket/key", "injected")
    store: Any = Stepping(gateway.root, steps, away)
    prefix = gateway.root_prefix

    def tenant(namespace: str) -> Any:
        folder = gateway.tenant(namespace)
        return replace(folder, store=Stepping(folder.store, steps, away))

    return replace(
        gateway,
        root=store,
        tenant=tenant,
        files=RecordStore(store, f"{prefix}files/", FileRecord),
        batches=RecordStore(store, f"{prefix}batches/", BatchRecord),
        idempotency=RecordStore(store, f"{prefix}idempotency/", IdempotencyRecord),
        batchjobs=Stepping(gateway.batchjobs, steps, Unavailable("injected", status=503)),
    )


@contextmanager
def dying() -> Iterator[None]:
    """What the caller of a gateway that dies or fails sees: anything."""
    with suppress(Died, StorageError, KubernetesError):
        yield


def create(gateway: Gateway, file_id: str, key: str | None) -> BatchRecord:
    request = CreateBatch(input_file_id=file_id, endpoint=ENDPOINT)
    return create_batch(gateway, Principal("alice", "team-a"), request, key)[0]


def everything(world: BatchWorld) -> tuple[list[str], list[str]]:
    """Ids of all batches, once somebody has looked at them, and of the batches of all BatchJobs."""
    gateway = replica(world.gateway)
    found = list(gateway.batches.list("team-a"))
    batches = [stored.record.id for stored, _ in current_of_many(gateway, found)]
    return batches, [job["metadata"]["annotations"]["batchwright.dev/batch-id"] for job in world.batchjobs()]


@pytest.fixture(scope="module")
def steps_of_creation(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Calls that the making of a batch with a key takes."""
    steps = Steps()
    with batch_world(None, tmp_path_factory.mktemp("counting")) as world:
        create(replica(world.gateway, steps), world.upload(), "key")
    return steps.taken


AT_EACH_STEP = pytest.mark.parametrize(
    ("dies", "after"),
    [
        pytest.param(True, False, id="dies-before"),
        pytest.param(True, True, id="dies-after"),
        pytest.param(False, False, id="fails-before"),
        pytest.param(False, True, id="loses-the-answer"),
    ],
)


@AT_EACH_STEP
def test_a_repetition_with_its_key_makes_exactly_one_batch(
    s3_bucket: S3Bucket, tmp_path: Path, dies: bool, after: bool, steps_of_creation: int
) -> None:
    assert steps_of_creation > 5
    with batch_world(s3_bucket, tmp_path) as world:
        for number in range(steps_of_creation):
            file_id, key = world.upload(), f"key-{number}"
            with dying():
                create(replica(world.gateway, Steps(number, after, dies)), file_id, key)
            made = create(replica(world.gateway), file_id, key).id

            batches, batchjobs = everything(world)
            assert made in batches
            assert len(batches) == len(set(batches)) == number + 1
            assert sorted(batchjobs) == sorted(batches)


@AT_EACH_STEP
def test_without_a_key_a_batch_is_there_with_its_batchjob_or_not_at_all(
    s3_bucket: S3Bucket, tmp_path: Path, dies: bool, after: bool, steps_of_creation: int
) -> None:
    with batch_world(s3_bucket, tmp_path) as world:
        told = []
        for number in range(steps_of_creation - 2):  # a key takes two calls
            with dying():
                told.append(create(replica(world.gateway, Steps(number, after, dies)), world.upload(), None).id)

        batches, batchjobs = everything(world)
        assert sorted(batchjobs) == sorted(batches)
        assert set(told) <= set(batches)
        if not dies:
            assert set(told) == set(batches), "a client that was told of a failure has no batch"


@AT_EACH_STEP
@pytest.mark.parametrize("phase", ["completed", "cancelled"])
def test_an_end_is_archived_once_with_its_files_wherever_it_stopped(
    tmp_path: Path, phase: str, dies: bool, after: bool
) -> None:
    with batch_world(None, tmp_path) as world:
        number, steps = 0, Steps()
        while number <= steps.taken:
            batch_id = world.create()
            world.finish(batch_id, phase, results=b"{}\n", errors=b"{}\n")
            steps = Steps(number, after, dies)
            with dying():
                look(replica(world.gateway, steps), batch_id)
            shown = world.get(batch_id)

            assert shown["status"] == phase
            files = [
                stored.record.id for stored in world.gateway.files.list("team-a") if stored.record.batch_id == batch_id
            ]
            assert sorted(files) == sorted([shown["output_file_id"], shown["error_file_id"]])
            number += 1
        assert number > 5


def look(gateway: Gateway, batch_id: str) -> None:
    stored = gateway.batches.get("team-a", batch_id)
    assert stored is not None
    shown, state = current(gateway, stored)
    if state.ended:
        ending = shown.record.ending
        assert ending is not None
        assert gateway.files.get("team-a", str(ending.output_file_id)) is not None


@AT_EACH_STEP
def test_a_cancel_that_was_accepted_holds_wherever_it_stopped(tmp_path: Path, dies: bool, after: bool) -> None:
    with batch_world(None, tmp_path) as world:
        number, steps = 0, Steps()
        while number <= steps.taken:
            batch_id = world.create()
            steps, accepted = Steps(number, after, dies), False
            gateway = replica(world.gateway, steps)
            with dying():
                stored = gateway.batches.get("team-a", batch_id)
                assert stored is not None
                accepted = cancel(gateway, stored)[1].status == "cancelling"
            shown = world.get(batch_id)["status"]

            assert shown in (("cancelling",) if accepted else ("cancelling", "validating"))
            assert (world.batchjob(batch_id)["spec"].get("cancel") is True) == (shown == "cancelling")
            number += 1
        assert number > 3
