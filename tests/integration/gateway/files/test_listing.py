"""GET /v1/files: pages of object ids, filled before they say that there is more."""

from datetime import timedelta

import pytest

from batchwright.gateway.ids import new_file_id
from batchwright.gateway.records.file_record import FileRecord, Purpose
from fixtures.files_service import LINE, FilesService
from fixtures.gateway import ADMIN, ALICE, BOB


def record(service: FilesService, seconds: float, purpose: Purpose = "batch", namespace: str = "team-a") -> str:
    """A file of so many seconds ago, in records alone."""
    moment = service.gateway.clock() - timedelta(seconds=seconds)
    file_id = new_file_id(moment)
    made = FileRecord(file_id, namespace, file_id, 1, moment, f"{seconds}.jsonl", purpose)
    service.gateway.files.create(namespace, file_id, made)
    return file_id


@pytest.fixture
def newest_first(service: FilesService) -> list[str]:
    """Twelve files: of three, one is an input."""
    return [record(service, age, "batch_output" if age % 3 else "batch") for age in range(12)]


def test_a_tenant_without_files_has_an_empty_page(service: FilesService) -> None:
    with service.http() as http:
        assert http.get("/v1/files").json() == {
            "object": "list",
            "data": [],
            "first_id": None,
            "last_id": None,
            "has_more": False,
        }


def test_the_official_client_walks_through_all_pages(service: FilesService, newest_first: list[str]) -> None:
    files = service.openai().files
    assert [file.id for file in files.list(limit=5)] == newest_first
    assert [file.id for file in files.list(limit=5, order="asc")] == newest_first[::-1]
    assert [file.id for file in files.list()] == newest_first


def test_a_page_knows_its_ends_and_whether_there_is_more(service: FilesService, newest_first: list[str]) -> None:
    with service.http() as http:
        page = http.get("/v1/files", params={"limit": 11}).json()
        assert (page["first_id"], page["last_id"], page["has_more"]) == (newest_first[0], newest_first[10], True)
        last = http.get("/v1/files", params={"limit": 1, "after": page["last_id"]}).json()
        assert (last["first_id"], last["last_id"], last["has_more"]) == (newest_first[11], newest_first[11], False)
        assert http.get("/v1/files", params={"after": newest_first[11]}).json()["data"] == []


def test_where_nobody_says_a_number_a_page_has_more_than_20(volume_service: FilesService) -> None:
    newest_first = [record(volume_service, age) for age in range(25)]
    with volume_service.http() as http:
        page = http.get("/v1/files").json()
    assert [file["id"] for file in page["data"]] == newest_first
    assert not page["has_more"]


@pytest.mark.parametrize("order", ["desc", "asc"])
def test_a_page_of_one_purpose_is_filled_before_it_says_that_there_is_more(
    service: FilesService, newest_first: list[str], order: str
) -> None:
    inputs = newest_first[::3] if order == "desc" else newest_first[::3][::-1]
    with service.http() as http:
        query = {"purpose": "batch", "limit": 2, "order": order}
        first = http.get("/v1/files", params=query).json()
        assert [file["id"] for file in first["data"]] == inputs[:2]
        assert first["has_more"]
        second = http.get("/v1/files", params=query | {"after": first["last_id"]}).json()
        assert [file["id"] for file in second["data"]] == inputs[2:]
        assert not second["has_more"]
        assert http.get("/v1/files", params={"purpose": "vision"}).json()["data"] == []


def test_whoever_deletes_while_listing_goes_on_from_the_last_id(service: FilesService, newest_first: list[str]) -> None:
    client = service.openai()
    for file in client.files.list(limit=4):
        client.files.delete(file.id)
    assert client.files.list().data == []


def test_a_trailing_slash_and_empty_parameters_do_no_harm(service: FilesService, newest_first: list[str]) -> None:
    with service.http() as http:
        page = http.get("/v1/files/?after=&purpose=").json()
    assert [file["id"] for file in page["data"]] == newest_first


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("after=5", "after"),
        ("after=file-abc", "after"),
        (f"after=../team-b/{'0' * 32}", "after"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=many", "limit"),
        ("order=up", "order"),
    ],
)
def test_what_cant_be_asked_for_is_named(volume_service: FilesService, query: str, param: str) -> None:
    with volume_service.http() as http:
        answer = http.get(f"/v1/files?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_expired_files_are_gone_everywhere_at_once(service: FilesService) -> None:
    client = service.openai()
    kept = client.files.create(file=("kept", LINE), purpose="batch")
    brief = client.files.create(
        file=("brief", LINE), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert brief.expires_at == brief.created_at + 3600
    service.moments.offset = 3601
    assert [file.id for file in client.files.list()] == [kept.id]
    with service.http() as http:
        answers = [
            http.get(f"/v1/files/{brief.id}"),
            http.get(f"/v1/files/{brief.id}/content"),
            http.delete(f"/v1/files/{brief.id}"),
        ]
    assert [answer.status_code for answer in answers] == [404] * 3


def test_each_tenant_sees_its_own_and_an_administrator_all(service: FilesService) -> None:
    theirs = [record(service, age, namespace=namespace) for age, namespace in enumerate(["team-a", "team-b"] * 3)]
    assert [file.id for file in service.openai(ALICE).files.list()] == theirs[::2]
    assert [file.id for file in service.openai(BOB).files.list(limit=2)] == theirs[1::2]
    assert [file.id for file in service.openai(ADMIN).files.list(limit=4)] == theirs
    assert [file.id for file in service.openai(ADMIN).files.list(limit=4, order="asc")] == theirs[::-1]
    with service.http(ADMIN) as http:
        chosen = http.get("/v1/files", headers={"openai-project": "team-b"}).json()
    assert [file["id"] for file in chosen["data"]] == theirs[1::2]
