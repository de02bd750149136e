"""BatchJobs that the API server doesn't create: what the client hears, what is left, and that no BatchJob runs unseen
though another replica works on the same record.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batchwright.gateway import ids
from batchwright.gateway.batches.creation import create_batch
from batchwright.gateway.batches.current import Current, current
from batchwright.gateway.batches.making import make_batch
from batchwright.gateway.batches.schema import CreateBatch
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.records.batch_record import BatchRecord, BatchState
from batchwright.gateway.records.record_store import RecordStore
from batchwright.storage.errors import StorageUnavailable
from batchwright.storage.protocol import DeleteFailure
from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world
from fixtures.gateway import ALICE
from fixtures.kubernetes_http import Answer

JOB = 'batchjobs.batchwright.dev "x"'
QUOTA = Answer(403, "Forbidden", f"{JOB} is forbidden: exceeded quota: batches")
NO_RIGHT = Answer(403, "Forbidden", 'batchjobs.batchwright.dev is forbidden: User "gateway" cannot create resource')
NO_KIND = Answer(404, "", "404 page not found")
AWAY = Answer(503, "ServiceUnavailable")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[BatchWorld]:
    with batch_world(None, tmp_path) as started:
        yield started


def refuse(world: BatchWorld, fault: Answer, times: int = 1) -> None:
    """The next creations fail so."""
    world.api.fail("POST", "/batchjobs", fault, times=times)


def listed(world: BatchWorld) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.request("GET", "/v1/batches").json()["data"]
    return found


class TestTheBatchIsRefused:
    @pytest.mark.parametrize(
        "fault",
        [
            QUOTA,
            Answer(
                422, "Invalid", f"{JOB} is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request"
            ),
            Answer(422, "Invalid", 'BatchJob.batchwright.dev "x" is invalid: spec.server: too long'),
            Answer(403, "Forbidden", 'admission webhook "w.example.com" denied the request: no'),
            Answer(404, "NotFound", 'namespaces "team-a" not found'),
        ],
    )
    def test_its_message_is_the_answer_and_nothing_is_left(self, world: BatchWorld, fault: Answer) -> None:
        refuse(world, fault)
        answer = world.post(input_file_id=world.upload(), endpoint=ENDPOINT)

        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "cluster_refused"
        assert fault.message in answer.json()["error"]["message"]
        assert listed(world) == []

    def test_a_refusal_that_comes_later_fails_the_batch(self, world: BatchWorld) -> None:
        refuse(world, AWAY)
        refuse(world, QUOTA)
        shown = world.get(world.create())

        assert shown["status"] == "failed"
        assert shown["failed_at"] is not None
        [error] = shown["errors"]["data"]
        assert (error["code"], error["line"]) == ("cluster_refused", None)
        assert "exceeded quota" in error["message"]

    def test_the_same_key_makes_it_once_it_is_wanted(self, world: BatchWorld) -> None:
        fields = {"input_file_id": world.upload(), "endpoint": ENDPOINT}
        refuse(world, QUOTA)

        assert world.post(key="k", **fields).status_code == 400
        assert world.post(key="k", **fields).status_code == 200
        assert len(listed(world)) == len(world.batchjobs()) == 1


class TestTheApiServerIsAway:
    @pytest.mark.parametrize(
        "fault",
        [
            AWAY,
            Answer(500, "InternalError", "failed calling webhook"),
            Answer(401, "Unauthorized"),
            Answer(403, "Forbidden", f"{JOB} is forbidden: status unknown for quota: batches"),
        ],
    )
    def test_the_batch_is_taken_and_begins_later(self, world: BatchWorld, fault: Answer) -> None:
        refuse(world, fault, times=2)
        batch_id = world.create()

        assert world.get(batch_id)["status"] == "validating"
        assert world.batchjobs() == []
        assert world.get(batch_id)["status"] == "validating"
        assert [job["metadata"]["name"] for job in world.batchjobs()] == [ids.batchjob_name(batch_id)]


@pytest.mark.parametrize("fault", [NO_RIGHT, NO_KIND])
class TestTheGatewayIsNotSetUp:
    def test_a_new_batch_is_a_503_with_a_time_and_leaves_nothing(
        self, world: BatchWorld, fault: Answer, caplog: pytest.LogCaptureFixture
    ) -> None:
        refuse(world, fault)
        answer = world.post(input_file_id=world.upload(), endpoint=ENDPOINT)

        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert fault.message not in answer.text
        assert listed(world) == []
        [told] = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
        assert fault.message in told
        assert "ClusterRole batchwright-gateway" in told

    def test_one_that_was_taken_before_waits_for_the_administrator(self, world: BatchWorld, fault: Answer) -> None:
        refuse(world, AWAY)
        batch_id = world.create()
        refuse(world, fault, times=3)

        assert [world.get(batch_id)["status"] for _ in range(3)] == ["validating"] * 3
        assert world.batchjobs() == []
        world.get(batch_id)
        assert [job["metadata"]["name"] for job in world.batchjobs()] == [ids.batchjob_name(batch_id)]

    def test_where_it_may_not_even_look_the_answer_is_the_same(self, world: BatchWorld, fault: Answer) -> None:
        refuse(world, fault)
        world.api.fail("GET", "/batchjobs/", fault)

        assert world.post(input_file_id=world.upload(), endpoint=ENDPOINT).status_code == 503
        assert listed(world) == []


def test_a_look_without_the_right_to_is_a_503_with_a_time(world: BatchWorld) -> None:
    batch_id = world.create()
    world.api.fail("GET", "/batchjobs/", replace(NO_RIGHT, message=NO_RIGHT.message.replace("create", "get")))
    answer = world.request("GET", f"/v1/batches/{batch_id}")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")


@dataclass
class Interrupted:
    """The cluster as one replica sees it, with another one at work right before or after a call."""

    behind: Any
    before_create: Callable[[], object] = lambda: None
    after_create: Callable[[], object] = lambda: None
    after_get: Callable[[], object] = lambda: None

    def create(self, *arguments: Any) -> Any:
        self.before_create()
        made = self.behind.create(*arguments)
        self.after_create()
        return made

    def get(self, *arguments: Any) -> Any:
        try:
            return self.behind.get(*arguments)
        finally:
            self.after_get()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def between(gateway: Gateway, **calls: Callable[[], object]) -> Gateway:
    """A replica with another one at work in between."""
    return replace(gateway, batchjobs=Interrupted(gateway.batchjobs, **calls))


def make(gateway: Gateway, file_id: str, key: str | None = None) -> BatchRecord:
    return create_batch(gateway, ALICE, CreateBatch(input_file_id=file_id, endpoint=ENDPOINT), key)[0]


def look(gateway: Gateway) -> Current:
    """Another replica looks at the only batch there is."""
    [stored] = gateway.batches.list("team-a")
    return current(gateway, stored)


def only_batch(world: BatchWorld) -> tuple[BatchRecord, BatchState, list[str]]:
    """The batch as it is shown, and the UIDs of all BatchJobs."""
    stored, state = look(world.gateway)
    return stored.record, state, [job["metadata"]["uid"] for job in world.batchjobs()]


class TestAnotherReplica:
    def test_has_created_the_batchjob_that_is_refused_here(self, world: BatchWorld) -> None:
        """As a quota does that the other one's BatchJob has used up."""

        def other_first() -> None:
            look(world.gateway)
            refuse(world, QUOTA)

        made = make(between(world.gateway, before_create=other_first), world.upload())

        record, state, uids = only_batch(world)
        assert (record.id, state.status) == (made.id, "validating")
        assert [record.batchjob_uid] == uids

    def test_was_killed_before_it_could_note_the_batchjob(self, world: BatchWorld) -> None:
        file_id = world.upload()

        class Killed(BaseException):
            pass

        def die() -> None:
            raise Killed

        with pytest.raises(Killed):
            make(between(world.gateway, after_create=die), file_id, "k")
        refuse(world, QUOTA)
        # Another replica with the same request, which wrote the record a moment later.
        [stored] = world.gateway.batches.list("team-a")
        from_record(world.gateway, stored.record)

        record, _, uids = only_batch(world)
        assert [record.batchjob_uid] == uids

    def test_creates_it_after_this_one_has_looked_for_it(self, world: BatchWorld) -> None:
        refuse(world, QUOTA)
        made = make(between(world.gateway, after_get=lambda: look(world.gateway)), world.upload())

        record, state, uids = only_batch(world)
        assert (record.id, state.status) == (made.id, "validating")
        assert [record.batchjob_uid] == uids

    def test_creates_it_when_this_one_has_withdrawn_the_batch(self, world: BatchWorld) -> None:
        refuse(world, AWAY)
        make(world.gateway, world.upload(), "k")
        [stored] = world.gateway.batches.list("team-a")

        def withdraw() -> None:
            refuse(world, QUOTA)
            with pytest.raises(ApiError, match="exceeded quota"):
                from_record(world.gateway, stored.record)

        shown, state = look(between(world.gateway, before_create=withdraw))

        assert list(world.gateway.batches.list("team-a")) == []
        assert world.batchjobs() == []
        assert (shown.record.id, state.status) == (stored.record.id, "failed")

    def test_makes_the_same_batch_that_this_one_has_withdrawn(self, world: BatchWorld) -> None:
        file_id = world.upload()

        def withdraw() -> None:
            refuse(world, QUOTA)
            [stored] = world.gateway.batches.list("team-a")
            with pytest.raises(ApiError, match="exceeded quota"):
                from_record(world.gateway, stored.record)

        with pytest.raises(ApiError) as error:
            make(between(world.gateway, before_create=withdraw), file_id, "k")

        assert (error.value.status, "retry-after" in error.value.headers) == (503, True)
        assert world.batchjobs() == []
        assert make(world.gateway, file_id, "k").batchjob_uid, "the client's repetition makes it"

    def test_creates_it_when_this_one_has_failed_the_batch(self, world: BatchWorld) -> None:
        refuse(world, AWAY)
        batch_id = make(world.gateway, world.upload()).id

        def fail() -> None:
            refuse(world, QUOTA)
            assert look(world.gateway)[1].status == "failed"

        shown, state = look(between(world.gateway, before_create=fail))

        assert (shown.record.id, state.status, state.errors[0].code) == (batch_id, "failed", "cluster_refused")
        assert world.batchjobs() == []

    def test_cannot_delete_what_it_has_created_and_says_so(
        self, world: BatchWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        refuse(world, AWAY)
        batch_id = make(world.gateway, world.upload()).id
        world.api.fail("DELETE", "/batchjobs", AWAY)

        def fail() -> None:
            refuse(world, QUOTA)
            look(world.gateway)

        look(between(world.gateway, before_create=fail))

        assert f"BatchJob {ids.batchjob_name(batch_id)} of team-a runs for a batch that has failed" in caplog.text


def from_record(gateway: Gateway, record: BatchRecord) -> BatchRecord:
    """The request that wrote the record, in another replica."""
    return make_batch(gateway, record)


class Refusing:
    """A store that fails at some calls."""

    def __init__(self, behind: Any, **answers: Callable[..., Any]) -> None:
        self._behind, self._answers = behind, answers

    def __getattr__(self, name: str) -> Any:
        return self._answers.get(name) or getattr(self._behind, name)


def with_store(gateway: Gateway, **answers: Callable[..., Any]) -> Gateway:
    store: Any = Refusing(gateway.root, **answers)
    return replace(gateway, batches=RecordStore(store, f"{gateway.root_prefix}batches/", BatchRecord))


def test_what_cannot_be_withdrawn_is_told_as_taken_and_fails_later(world: BatchWorld) -> None:
    def write(key: str, data: bytes, **condition: Any) -> Any:
        if "if_match" in condition:
            raise StorageUnavailable("PutObject", key, "injected")
        return world.gateway.root.write(key, data, **condition)

    refuse(world, QUOTA)
    made = make(with_store(world.gateway, write=write), world.upload())

    refuse(world, QUOTA)
    record, state, uids = only_batch(world)
    assert (record.id, state.status, uids) == (made.id, "failed", [])


def test_what_cannot_be_deleted_is_refused_and_listed_as_failed(world: BatchWorld) -> None:
    def delete(keys: list[str]) -> Any:
        return (DeleteFailure(keys[0], "injected"),)

    refuse(world, QUOTA)
    with pytest.raises(ApiError, match="exceeded quota"):
        make(with_store(world.gateway, delete=delete), world.upload())

    _, state, uids = only_batch(world)
    assert (state.status, uids) == ("failed", [])
