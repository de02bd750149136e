"""What one tenant can learn of another's files: nothing."""

from http.client import HTTPConnection
from itertools import product
from urllib.parse import urlsplit

import pytest

from fixtures.files_service import LINE, FilesService
from fixtures.gateway import ADMIN, BOB

NEVER = f"file-{'0123456789abcdef' * 2}"


@pytest.fixture
def alices(service: FilesService) -> str:
    return service.openai().files.create(file=("secret.jsonl", LINE), purpose="batch").id


@pytest.mark.parametrize(("method", "end"), [("GET", ""), ("GET", "/content"), ("HEAD", "/content"), ("DELETE", "")])
def test_anothers_file_is_answered_like_one_that_never_was(
    service: FilesService, alices: str, method: str, end: str
) -> None:
    with service.http(BOB) as http:
        anothers = http.request(method, f"/v1/files/{alices}{end}")
        never = http.request(method, f"/v1/files/{NEVER}{end}")
    assert anothers.status_code == never.status_code == 404
    assert anothers.text == never.text.replace(NEVER, alices)
    assert service.openai().files.content(alices).content == LINE


def test_anothers_file_is_listed_nowhere(service: FilesService, alices: str) -> None:
    client = service.openai(BOB)
    assert client.files.list().data == []
    assert client.files.list(after=alices, order="asc").data == []


@pytest.mark.parametrize(
    "path",
    [
        "../team-a/{id}",
        "..%2fteam-a%2f{id}",
        "%2e%2e%2fteam-a%2f{id}",
        "..%252fteam-a%252f{id}",
        "{id}%00",
        "{id}%0a",
        "{id}.json",
        "{id}%20",
        "{ID}",
        "team-a/{id}",
        "%2f..%2f.gateway%2ffiles%2fteam-a%2f{id}",
        "file-",
        "-",
        "..",
        ".",
        "%2e%2e",
        "file-" + "f" * 5000,
        "%ff%fe",
        "file-%f0%9f%98%80",
        "*",
    ],
)
def test_no_odd_id_leads_anywhere(volume_service: FilesService, path: str) -> None:
    """As bytes on the wire, which no client has tidied up."""
    alices = volume_service.openai().files.create(file=("secret.jsonl", LINE), purpose="batch").id
    place = path.format(id=alices, ID=alices.upper())
    for method, end in product(("GET", "DELETE"), ("", "/content")):
        status, body = raw(volume_service, method, f"/v1/files/{place}{end}")
        assert status in (404, 405), (method, place)
        assert b'"error"' in body
        assert b"secret" not in body
        assert b"custom_id" not in body
    assert volume_service.openai().files.content(alices).content == LINE


def test_ids_in_messages_are_cut_and_printable(volume_service: FilesService) -> None:
    with volume_service.http(BOB) as http:
        overlong = http.get(f"/v1/files/{'x' * 5000}").json()["error"]["message"]
        control = http.get("/v1/files/a%0ab%1b").json()["error"]["message"]
    assert len(overlong) < 200
    assert control.isprintable()


def test_an_administrator_finds_and_deletes_any_tenants_file(service: FilesService, alices: str) -> None:
    client = service.openai(ADMIN)
    assert client.files.retrieve(alices).filename == "secret.jsonl"
    assert client.files.content(alices).content == LINE
    with service.http(ADMIN) as http:
        assert http.get(f"/v1/files/{alices}", headers={"openai-project": "team-b"}).status_code == 404
    assert client.files.delete(alices).deleted


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_key_nothing_is_said(service: FilesService, alices: str, method: str) -> None:
    with service.http(authorization="Bearer nobody") as http:
        answers = [http.request(method, "/v1/files"), http.get(f"/v1/files/{alices}"), http.get("/v1/files/x/content")]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert {answer.json()["error"]["code"] for answer in answers} == {"invalid_api_key"}


def raw(service: FilesService, method: str, target: str) -> tuple[int, bytes]:
    """A request whose target goes out as it is."""
    connection = HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    connection.putrequest(method, target, skip_accept_encoding=True)
    connection.putheader("Authorization", "Bearer bob")
    connection.endheaders()
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()
