"""Who gets into the page, by what, and what it keeps from everybody else; on a real socket."""

import re

import httpx
import pytest

from batchwright.gateway.page.session import KEY_COOKIE, NAMESPACE_COOKIE
from fixtures.gateway import ADMIN, ALICE, BOB
from fixtures.page_client import OWN, signed_in, upload
from fixtures.page_world import PageWorld, running


def test_who_is_not_signed_in_comes_back_to_where_they_wanted(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl")
    with signed_in(str(client.base_url), None) as nobody:
        asked = nobody.get(f"/ui/batches/{batch.id}?x=1")
        assert (asked.status_code, asked.headers["location"]) == (
            303,
            f"/ui/sign-in?next=%2Fui%2Fbatches%2F{batch.id}%3Fx%3D1",
        )
        form = {"key": ALICE.user, "namespace": "", "next": f"/ui/batches/{batch.id}?x=1"}
        entered = nobody.post("/ui/sign-in", data=form, headers=OWN)
        assert (entered.status_code, entered.headers["location"]) == (303, f"/ui/batches/{batch.id}?x=1")
        assert nobody.get(f"/ui/batches/{batch.id}").status_code == 200
        nobody.post("/ui/sign-out", headers=OWN)
        assert nobody.get("/ui/").status_code == 303


def test_a_link_from_another_site_is_asked_for_once_more_from_here(client: httpx.Client) -> None:
    with signed_in(str(client.base_url), None) as nobody:  # the browser keeps its cookie back
        answer = nobody.get("/ui/", headers={"sec-fetch-site": "cross-site"})
        assert (answer.status_code, "refresh" in answer.text) == (200, True)
        assert nobody.get("/ui/", headers=OWN).status_code == 303


@pytest.mark.parametrize(
    ("form", "status", "says"),
    [
        ({"key": "nobody"}, 401, "This key is not known."),
        ({"key": ""}, 400, "Enter your API key."),
        ({"key": "a b"}, 400, "This is no API key"),
        ({"key": "alice", "namespace": "No/Such"}, 400, "A namespace is at most 63"),
        ({"key": "x" * 20_000}, 413, "at most 16384 bytes"),
    ],
)
def test_a_sign_in_that_fails_says_why(client: httpx.Client, form: dict[str, str], status: int, says: str) -> None:
    answer = client.post("/ui/sign-in", data=form, headers=OWN)
    assert answer.status_code == status
    assert says in answer.text
    assert "set-cookie" not in answer.headers


def test_signing_in_leads_to_no_other_site(client: httpx.Client) -> None:
    for target in ("https://evil.example/", "//evil.example/ui/", "/ui//evil.example", "\\\\evil.example"):
        form = {"key": ALICE.user, "next": target}
        assert client.post("/ui/sign-in", data=form, headers=OWN).headers["location"] == "/ui/"


def test_a_key_that_was_revoked_ends_the_session(world: PageWorld, client: httpx.Client) -> None:
    world.gateway.authenticator._principals.pop(ALICE.user)  # type: ignore[attr-defined]
    answer = client.get("/ui/")
    assert answer.status_code == 303
    assert "Your key is no longer known" in client.get(answer.headers["location"]).text
    assert client.get("/ui/", headers={"x-fragment": "1"}).status_code == 401


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}, {}])
def test_another_sites_form_changes_nothing(world: PageWorld, client: httpx.Client, headers: dict[str, str]) -> None:
    batch = world.batch("a.jsonl", status=running(10, 5))
    for path in (f"/ui/batches/{batch.id}/cancel", f"/ui/batches/{batch.id}/retry", "/ui/sign-out", "/ui/sign-in"):
        answer = client.post(path, data={"key": BOB.user}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    sent = client.post("/ui/batches", data={"endpoint": "/v1/embeddings"}, files={"file": b"{}"}, headers=headers)
    assert sent.status_code == 403
    assert world.state(batch).status == "in_progress"
    assert len(list(world.gateway.batches.list("team-a"))) == 1


def test_the_cookie_opens_the_page_alone(world: PageWorld, client: httpx.Client) -> None:
    world.batch("a.jsonl")
    assert client.get("/v1/batches").status_code == 401


def test_another_tenants_things_are_not_there(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl", status=running(10, 5))
    with signed_in(str(client.base_url), BOB) as bob:
        assert "a.jsonl" not in bob.get("/ui/").text
        missing = f"/ui/batches/batch_{'0' * 32}"
        for path in (f"/ui/batches/{batch.id}", f"/ui/batches/{batch.id}/cancel"):
            answer = bob.get(path)
            assert answer.status_code == 404
            assert answer.text.replace(batch.id, "batch_" + "0" * 32) == bob.get(missing).text
        assert bob.get(f"/ui/files/{batch.input_file_id}/content").status_code == 404
        for action in ("cancel", "retry"):
            assert bob.post(f"/ui/batches/{batch.id}/{action}", headers=OWN).status_code == 404
        alien = bob.get("/ui/", headers={"cookie": f"{KEY_COOKIE}=bob; {NAMESPACE_COOKIE}=team-a"})
        assert "a.jsonl" not in alien.text
    assert world.state(batch).status == "in_progress"


@pytest.mark.parametrize(
    "batch_id", ["x", "..%2f..%2fv1", "batch_" + "g" * 32, "batch_" + "0" * 32 + "%00", "%F0%9F%92%A9"]
)
def test_what_is_no_id_is_not_there(client: httpx.Client, batch_id: str) -> None:
    for path in (f"/ui/batches/{batch_id}", f"/ui/files/{batch_id}/content"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")


def test_an_administrator_chooses_a_namespace(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl")
    with signed_in(str(client.base_url), ADMIN) as admin:
        everything = admin.get("/ui/").text
        assert "a.jsonl" in everything
        assert "data-upload" not in everything
        assert admin.get(f"/ui/batches/{batch.id}").status_code == 200
        assert upload(admin, accept="application/json").status_code == 400
        assert admin.post("/ui/namespace", data={"namespace": "team-b"}, headers=OWN).status_code == 303
        assert "a.jsonl" not in admin.get("/ui/").text
        assert admin.post("/ui/namespace", data={"namespace": "No/"}, headers=OWN).status_code == 400
        admin.post("/ui/namespace", data={"namespace": "team-a"}, headers=OWN)
        assert "data-upload" in admin.get("/ui/").text
        assert upload(admin).status_code == 303
    newest = next(world.gateway.batches.list("team-a")).record
    assert (newest.user, newest.namespace) == (ADMIN.user, "team-a")
    client.post("/ui/namespace", data={"namespace": "team-b"}, headers=OWN)  # not hers to choose
    assert "a.jsonl" in client.get("/ui/").text


def test_an_upload_of_an_administrator_without_a_namespace_says_what_is_missing(
    world: PageWorld, client: httpx.Client
) -> None:
    """As when the namespace was given up in another tab: the form is there still."""
    batch = world.batch("a.jsonl")
    with signed_in(str(client.base_url), ADMIN) as admin:
        answer = upload(admin)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
    assert re.search(r'role="alert"[^>]*><strong>[^<]+</strong>[^<]+in the field Namespace', answer.text)
    assert f"/ui/batches/{batch.id}" in answer.text
    assert len(list(world.gateway.files.list("team-a"))) == 1
