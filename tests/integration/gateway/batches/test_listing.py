"""GET /v1/batches: pages, the newest first."""

import httpx
import pytest

from batchwright.gateway.batches import schema
from fixtures.batch_world import BatchWorld
from fixtures.gateway import ADMIN, ALICE, BOB
from fixtures.kubernetes_http import Answer


def ids_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    schema.BatchList.model_validate(answer.json(), strict=True)
    return [batch["id"] for batch in answer.json()["data"]]


def test_an_empty_list(world: BatchWorld) -> None:
    assert world.request("GET", "/v1/batches").json() == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_the_sdk_goes_through_all_pages(world: BatchWorld) -> None:
    made = world.ended(5)

    assert [batch.id for batch in world.openai().batches.list(limit=2)] == made


@pytest.mark.parametrize(
    ("limit", "count", "has_more"), [(1, 1, True), (4, 4, True), (5, 5, False), (6, 5, False), (100, 5, False)]
)
def test_has_more_is_exact(world: BatchWorld, limit: int, count: int, has_more: bool) -> None:
    made = world.ended(5)
    answer = world.request("GET", f"/v1/batches?limit={limit}")

    assert ids_of(answer) == made[:count]
    page = answer.json()
    assert (page["first_id"], page["last_id"], page["has_more"]) == (made[0], made[count - 1], has_more)


def test_after_the_last_one_there_is_nothing_and_no_more(world: BatchWorld) -> None:
    made = world.ended(2)
    answer = world.request("GET", f"/v1/batches?after={made[-1]}")

    assert (ids_of(answer), answer.json()["has_more"]) == ([], False)


def test_a_page_has_20_where_nobody_says_a_number(world: BatchWorld) -> None:
    made = world.ended(21)
    answer = world.request("GET", "/v1/batches")

    assert (ids_of(answer), answer.json()["has_more"]) == (made[:20], True)


@pytest.mark.parametrize("limit", ["0", "101", "-1", "abc", "1.5", ""])
def test_a_limit_that_is_none_is_a_400_by_its_name(shared: BatchWorld, limit: str) -> None:
    answer = shared.request("GET", f"/v1/batches?limit={limit}")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "limit"


def test_after_is_an_id_that_may_be_gone_since(world: BatchWorld) -> None:
    made = world.ended(3)
    world.gateway.batches.delete("team-a", made[0])

    assert ids_of(world.request("GET", f"/v1/batches?after={made[0]}")) == made[1:]


@pytest.mark.parametrize("after", ["5", "batch_x", "file-" + "0" * 32, "../batch"])
def test_an_after_that_is_no_id_is_a_404(shared: BatchWorld, after: str) -> None:
    answer = shared.request("GET", "/v1/batches", params={"after": after})

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"No batch found with id '{after}'."


def test_a_trailing_slash_works_too(world: BatchWorld) -> None:
    made = world.ended(1)

    assert ids_of(world.request("GET", "/v1/batches/")) == made
    assert world.request("GET", f"/v1/batches/{made[0]}/").json()["id"] == made[0]


class TestByStatus:
    def test_a_page_is_filled_from_far_behind(self, world: BatchWorld) -> None:
        wanted = world.ended(3, "failed")
        world.ended(5)
        answer = world.request("GET", "/v1/batches?status=failed&limit=2")

        assert (ids_of(answer), answer.json()["has_more"]) == (wanted[:2], True)
        answer = world.request("GET", f"/v1/batches?status=failed&limit=2&after={wanted[1]}")
        assert (ids_of(answer), answer.json()["has_more"]) == (wanted[2:], False)

    def test_what_is_running_is_asked_for_its_state_now(self, world: BatchWorld) -> None:
        file_id = world.upload()
        running, waiting = world.create(file_id), world.create(file_id)
        world.phase(running, "in_progress")

        assert ids_of(world.request("GET", "/v1/batches?status=in_progress")) == [running]
        assert ids_of(world.request("GET", "/v1/batches?status=validating")) == [waiting]
        assert ids_of(world.request("GET", "/v1/batches?status=completed")) == []

    @pytest.mark.parametrize("status", ["running", "pending", "", "COMPLETED"])
    def test_a_state_that_is_none_is_a_400_with_those_that_are(self, shared: BatchWorld, status: str) -> None:
        answer = shared.request("GET", f"/v1/batches?status={status}")

        assert answer.status_code == 400
        assert "'in_progress'" in answer.json()["error"]["message"]


class TestWhatRuns:
    def test_many_batches_are_one_call(self, world: BatchWorld) -> None:
        file_id = world.upload()
        made = [world.create(file_id) for _ in range(4)]
        world.phase(made[1], "in_progress")
        world.api.requests.clear()
        answer = world.request("GET", "/v1/batches")

        assert [batch["status"] for batch in answer.json()["data"]] == [
            *("validating", "validating", "in_progress", "validating"),
        ]
        assert [method for method, _ in world.api.requests] == ["GET"]

    def test_those_that_have_ended_need_none(self, world: BatchWorld) -> None:
        world.ended(3)
        world.request("GET", "/v1/batches")

        assert world.api.requests == []

    def test_one_without_a_label_isnt_taken_for_deleted(self, world: BatchWorld) -> None:
        file_id = world.upload()
        made = [world.create(file_id) for _ in range(4)]
        world.api.change(world.path_of(made[0]), metadata={"labels": None})

        statuses = {batch["status"] for batch in world.request("GET", "/v1/batches").json()["data"]}
        assert statuses == {"validating"}

    def test_while_the_api_server_is_away_the_answer_is_a_503_to_be_tried_again(self, world: BatchWorld) -> None:
        world.create()
        world.api.fail("GET", "/batchjobs", Answer(503, "ServiceUnavailable"))
        answer = world.request("GET", "/v1/batches")

        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert world.request("GET", "/v1/batches").status_code == 200


def test_each_tenant_lists_its_own_and_an_administrator_all(world: BatchWorld) -> None:
    alices, bobs = world.ended(2, who=ALICE), world.ended(2, who=BOB)

    assert ids_of(world.request("GET", "/v1/batches", ALICE)) == alices
    assert ids_of(world.request("GET", "/v1/batches", BOB)) == bobs
    both = sorted(alices + bobs)
    assert ids_of(world.request("GET", "/v1/batches", ADMIN)) == both
    assert ids_of(world.request("GET", f"/v1/batches?limit=2&after={both[0]}", ADMIN)) == both[1:3]
    assert ids_of(world.request("GET", "/v1/batches", ADMIN, headers={"OpenAI-Project": "team-b"})) == bobs
