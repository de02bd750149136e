"""The page on a real socket, without a browser: who gets in, what is sent, what is refused."""

import gzip
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from batchwright.batchfile.layout import OutputLayout
from batchwright.gateway.context import Gateway
from batchwright.gateway.page.run_records import MOST_READ, RunRecords
from batchwright.gateway.page.session import KEY_COOKIE, NAMESPACE_COOKIE
from batchwright.gateway.principal import Principal
from fixtures.gateway import ADMIN, ALICE, BOB, Audited, running_gateway
from fixtures.kubernetes_http import Answer, HttpApi
from fixtures.page_world import FINGERPRINT, LINE, MODEL, PageWorld, batchjob_path, ended, running
from fixtures.s3 import S3Bucket

OWN = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PageWorld]:
    with HttpApi() as api:
        yield PageWorld.over(tmp_path, api)


@pytest.fixture
def client(world: PageWorld) -> Iterator[httpx.Client]:
    with running_gateway(world.gateway) as url, signed_in(url) as one:
        yield one


def signed_in(url: str, principal: Principal | None = ALICE, **cookies: str) -> httpx.Client:
    key = {KEY_COOKIE: principal.user} if principal else {}
    return httpx.Client(base_url=url, cookies={**key, **cookies}, timeout=20)


def upload(
    client: httpx.Client, content: bytes = LINE % 1, *, accept: str = "text/html", **fields: str
) -> httpx.Response:
    """As a browser sends the form: fields in the page's order, the file last."""
    return client.post(
        "/ui/batches",
        data={"purpose": "batch", "endpoint": "/v1/chat/completions", **fields},
        files={"file": ("requests.jsonl", content)},
        headers={**OWN, "accept": accept},
    )


def test_the_root_leads_to_the_page(client: httpx.Client) -> None:
    for path in ("/", "/ui"):
        assert client.get(path).headers["location"] == "/ui/"


def test_every_answer_forbids_what_the_page_does_not_need(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl")
    paths = [
        "/ui/",
        f"/ui/batches/{batch.id}",
        "/ui/sign-in",
        "/ui/nothing",
        f"/ui/files/{batch.input_file_id}/content",
    ]
    for path in paths:
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_nothing_stands_inline(world: PageWorld, client: httpx.Client) -> None:
    world.shards(batch := world.batch("a.jsonl", status=running(10, 5)), 9)
    for path in ("/ui/", f"/ui/batches/{batch.id}", f"/ui/batches/{batch.id}/cancel", "/ui/sign-in"):
        text = client.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=|<style|javascript:", text)


def test_files_with_a_digest_are_kept_for_ever(client: httpx.Client) -> None:
    names = re.findall(r'"(/ui/static/[^"]+)"', client.get("/ui/").text)
    assert len(names) == 4
    for name in names:
        answer = client.get(name)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert client.get("/ui/static/page.css").status_code == 404


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


def test_an_upload_becomes_a_batch(world: PageWorld, client: httpx.Client) -> None:
    content = b"".join(LINE % number for number in range(1000))
    answer = upload(client, content)
    assert answer.status_code == 303
    stored = next(world.gateway.batches.list("team-a")).record
    assert answer.headers["location"] == f"/ui/batches/{stored.id}"
    file = world.gateway.files.get("team-a", stored.input_file_id or "")
    assert file is not None
    assert (file.record.filename, file.record.lines, file.record.model) == ("requests.jsonl", 1000, MODEL)
    folder = world.gateway.tenant("team-a")
    assert folder.store.read(folder.key(file.record.key)) == content
    assert batchjob_path(stored) in world.api.objects


@pytest.mark.parametrize(
    ("content", "fields", "says"),
    [
        (gzip.compress(LINE % 1), {}, "gzip"),
        (LINE % 1, {"endpoint": "/v1/nothing"}, "/v1/embeddings"),
        (LINE % 1, {"completion_window": "1s"}, "completion_window"),
        (LINE % 1, {"endpoint": ""}, "endpoint"),
        (LINE % 1, {"purpose": "nonsense"}, "nonsense"),
    ],
)
def test_an_upload_that_is_refused_says_why_and_leaves_nothing(
    world: PageWorld, client: httpx.Client, content: bytes, fields: dict[str, str], says: str
) -> None:
    shown = upload(client, content, **fields)
    assert shown.status_code == 400
    assert 'role="alert"' in shown.text
    assert says in shown.text
    told = upload(client, content, accept="application/json", **fields)
    assert told.status_code == 400
    assert says in told.json()["error"]["message"]
    assert list(world.gateway.files.list("team-a")) == []
    assert list(world.gateway.batches.list("team-a")) == []
    assert [path for path in world.folder.rglob("*") if path.is_file()] == []


def test_the_file_may_not_be_larger_than_allowed(tmp_path: Path) -> None:
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api, limits={"openai": {"bytes": 100_000}})
        with running_gateway(world.gateway) as url, signed_in(url) as client:
            answer = upload(client, LINE % 1 * 40_000, accept="application/json")
            assert answer.status_code == 413
            assert "100000" in answer.json()["error"]["message"]
            assert 'data-largest="100000"' in client.get("/ui/").text


def test_a_form_that_stops_in_the_middle_leaves_nothing(world: PageWorld, client: httpx.Client) -> None:
    def cut() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="endpoint"\r\n\r\n/v1/embeddings\r\n'
        yield b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + LINE % 1 * 10_000

    headers = {**OWN, "content-type": "multipart/form-data; boundary=b", "accept": "application/json"}
    answer = client.post("/ui/batches", content=cut(), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_multipart")
    assert list(world.gateway.files.list("team-a")) == []


@pytest.mark.parametrize("before", [b"", b"x" * 200_000])
def test_an_upload_without_an_endpoint_before_the_file_is_refused(client: httpx.Client, before: bytes) -> None:
    answer = client.post(
        "/ui/batches", content=before, headers={**OWN, "content-type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code == 400


def test_the_live_part_is_sent_when_it_has_changed(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl", ago=7200, status=running(1000, 100))
    for path in ("/ui/", f"/ui/batches/{batch.id}"):
        world.set(batch, running(1000, 100))
        first = client.get(path, headers={"x-fragment": "1"})
        assert first.text.startswith('<div id="live" data-refresh="2">')
        again = {"x-fragment": "1", "if-none-match": first.headers["etag"]}
        unchanged = client.get(path, headers=again)
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        world.set(batch, running(1000, 200))
        changed = client.get(path, headers=again)
        assert changed.status_code == 200
        assert "200" in changed.text


def test_what_has_ended_is_not_asked_for_again(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl", status=ended("completed", 10, 10))
    assert 'data-refresh="0"' in client.get(f"/ui/batches/{batch.id}").text
    assert 'data-refresh="15"' in client.get("/ui/").text


def test_pages_follow_one_another(world: PageWorld, client: httpx.Client) -> None:
    made = [world.batch(f"input-{number}.jsonl", ago=100 - number) for number in range(23)]
    first = client.get("/ui/").text
    assert re.findall(r"input-\d+\.jsonl</a>", first) == [f"input-{number}.jsonl</a>" for number in range(22, 2, -1)]
    older = client.get(f"/ui/?after={made[3].id}").text
    assert re.findall(r"input-\d+\.jsonl</a>", older) == [f"input-{number}.jsonl</a>" for number in range(2, -1, -1)]
    assert f"/ui/?after={made[3].id}" in first
    assert "after=" not in older
    assert "There are no older batches" in client.get(f"/ui/?after={made[0].id}").text
    assert client.get("/ui/?after=../../x").text.count("input-") == first.count("input-")


def test_a_published_file_is_downloaded(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl")
    world.publish(batch, results=3, errors=1)
    world.set(batch, ended("completed", 4, 3, 1))
    links = re.findall(r'href="(/ui/files/[^"]+)" download>Download', client.get(f"/ui/batches/{batch.id}").text)
    results, failed = (client.get(link) for link in links)
    assert results.content == b"".join(LINE % number for number in range(3))
    assert failed.content == LINE % 0
    assert results.headers["content-disposition"].startswith("attachment;")
    part = client.get(links[0], headers={"range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, (LINE % 0)[:10])


def test_failed_lines_are_tried_again_as_a_new_batch(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl", metadata={"suite": "nightly"}, endpoint="/v1/embeddings")
    world.publish(batch, results=3, errors=2)
    world.set(batch, ended("completed", 5, 3, 2, errorCodes={"500": 2}))
    assert "Retry failed lines" in client.get(f"/ui/batches/{batch.id}").text
    answer = client.post(f"/ui/batches/{batch.id}/retry", headers=OWN)
    assert answer.status_code == 303
    newest = next(world.gateway.batches.list("team-a")).record
    assert answer.headers["location"] == f"/ui/batches/{newest.id}"
    assert (newest.endpoint, newest.metadata, newest.user) == ("/v1/embeddings", {"suite": "nightly"}, "alice")
    file = world.gateway.files.get("team-a", newest.input_file_id or "")
    assert file is not None
    assert file.record.filename == "a.retry.jsonl"
    folder = world.gateway.tenant("team-a")
    assert folder.store.read(folder.key(file.record.key)) == b"".join(LINE % number for number in range(2))
    assert world.api.objects[batchjob_path(newest)]["spec"]["input"]["uri"] == f"{folder.uri}{file.record.key}"


def test_it_works_over_s3_as_well(tmp_path: Path, s3_bucket: S3Bucket) -> None:
    storage = {"endpointURL": s3_bucket.server.endpoint_url, "addressingStyle": "path"}
    keys = s3_bucket.server.root.credentials_dir
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api, f"s3://{s3_bucket.name}/gw/", credentials=keys, storage=storage)
        batch = world.batch("a.jsonl", ago=300, status=running(9000, 5000))
        world.shards(batch, 9)
        with running_gateway(world.gateway) as url, signed_in(url) as client:
            assert "Throughput" in client.get(f"/ui/batches/{batch.id}").text
            world.publish(batch, results=3, errors=2)
            world.set(batch, ended("completed", 5, 3, 2, errorCodes={"500": 2}))
            text = client.get(f"/ui/batches/{batch.id}").text
            link = re.findall(r'href="(/ui/files/[^"]+)" download>Download', text)[0]
            assert client.get(link).content == b"".join(LINE % number for number in range(3))
            assert client.post(f"/ui/batches/{batch.id}/retry", headers=OWN).status_code == 303
            newest = next(world.gateway.batches.list("team-a")).record
            key = f"gw/team-a/{newest.input_file_id}"
            retried = s3_bucket.client.get_object(Bucket=s3_bucket.name, Key=key)["Body"].read()
            assert retried == b"".join(LINE % number for number in range(2))
            assert upload(client, LINE % 7).status_code == 303


def test_there_is_nothing_to_try_again_of_what_works_or_has_no_failures(world: PageWorld, client: httpx.Client) -> None:
    works = world.batch("a.jsonl", status=running(10, 5))
    good = world.batch("b.jsonl")
    world.publish(good, results=3)
    world.set(good, ended("completed", 3, 3))
    for batch in (works, good):
        page = client.get(f"/ui/batches/{batch.id}").text
        assert "Retry" not in page
        assert client.post(f"/ui/batches/{batch.id}/retry", headers=OWN).status_code == 409
    assert len(list(world.gateway.batches.list("team-a"))) == 2


def test_what_is_no_longer_there_cannot_be_tried_again(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl")
    world.publish(batch, errors=2)
    world.set(batch, ended("completed", 2, 0, 2))
    client.get(f"/ui/batches/{batch.id}")
    folder = world.gateway.tenant("team-a")
    retry = next(info.key for info in folder.store.list(folder.prefix) if info.key.endswith("retry.jsonl"))
    folder.store.delete([retry])
    answer = client.post(f"/ui/batches/{batch.id}/retry", headers=OWN)
    assert answer.status_code == 409
    assert "no longer there" in answer.text


def test_a_batch_is_cancelled_after_a_question(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl", status=running(10, 5))
    assert "5 of 10" in client.get(f"/ui/batches/{batch.id}/cancel").text
    assert world.state(batch).status == "in_progress"
    assert client.post(f"/ui/batches/{batch.id}/cancel", headers=OWN).headers["location"] == f"/ui/batches/{batch.id}"
    assert world.state(batch).status == "cancelling"
    assert world.api.objects[batchjob_path(batch)]["spec"]["cancel"] is True


def test_what_has_ended_cannot_be_cancelled(world: PageWorld, client: httpx.Client) -> None:
    batch = world.batch("a.jsonl", status=ended("completed", 10, 10))
    answer = client.post(f"/ui/batches/{batch.id}/cancel", headers=OWN)
    assert answer.status_code == 409
    assert "Cannot cancel a batch with status" in answer.text


def test_a_batch_by_path_shows_its_paths_and_no_downloads(world: PageWorld, client: httpx.Client) -> None:
    batch = world.path_batch("/data/team-a/in.jsonl", status=ended("completed", 5, 4, 1, errorCodes={"400": 1}))
    assert ">in.jsonl</a>" in client.get("/ui/").text
    text = client.get(f"/ui/batches/{batch.id}").text
    assert "/data/team-a/batch-results/in/in.results.jsonl" in text
    assert "by path" in text
    assert "download" not in text
    assert "Retry" not in text


def test_errors_of_the_input_are_shown_with_their_lines(world: PageWorld, client: httpx.Client) -> None:
    problems = [
        {"code": "invalid_json_line", "line": 17, "message": "This line is not parseable as valid JSON."},
        {"code": "duplicate_custom_id", "line": 1812, "param": "custom_id", "message": "Line 3 has it."},
    ]
    batch = world.batch("a.jsonl")
    world.set(batch, {"phase": "failed", "validationErrors": problems, "validationErrorCount": 2})
    rows = re.findall(
        r"<tr><td class=\"number\">([\d,]+)</td><td>(.*?) <code", client.get(f"/ui/batches/{batch.id}").text
    )
    assert rows == [("17", "This line is not parseable as valid JSON."), ("1,812", "Line 3 has it.")]


def test_links_have_the_root_path(tmp_path: Path) -> None:
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api, rootPath="/batch")
        batch = world.batch("a.jsonl", status=running(10, 5))
        with running_gateway(world.gateway) as url, signed_in(url) as client:
            for prefix in ("", "/batch"):  # with an ingress that takes it away, and with one that leaves it
                for path in ("/ui/", f"/ui/batches/{batch.id}", f"/ui/batches/{batch.id}/cancel"):
                    text = client.get(prefix + path).text
                    links = re.findall(r'(?:href|src|action)="([^"#][^"]*)"', text)
                    assert len(links) > 4
                    assert [link for link in links if not link.startswith("/batch/ui/")] == []
                assert client.get(f"{prefix}/ui").headers["location"] == "/batch/ui/"
            with signed_in(url, None) as nobody:
                for prefix in ("", "/batch"):
                    asked = nobody.get(f"{prefix}/ui/batches/x").headers["location"]
                    assert asked == "/batch/ui/sign-in?next=%2Fbatch%2Fui%2Fbatches%2Fx"


def test_the_page_is_no_part_of_the_api(client: httpx.Client) -> None:
    assert not [path for path in client.get("/openapi.json").json()["paths"] if path.startswith("/ui")]


def test_the_log_says_who_changed_what(world: PageWorld) -> None:
    audited = Audited()
    batch = world.batch("secret-name.jsonl", status=running(10, 5))
    with running_gateway(world.gateway, audited) as url, signed_in(url) as client:
        client.post(f"/ui/batches/{batch.id}/cancel", headers=OWN)
    line = audited.lines[-1]
    assert (line["user"], line["namespace"], line["id"], line["status"]) == ("alice", "team-a", batch.id, 303)
    assert "secret-name" not in str(audited.lines)


def test_an_outage_is_told_in_words(world: PageWorld, client: httpx.Client) -> None:
    world.batch("a.jsonl", status=running(10, 5))
    world.api.fail("GET", "/batchjobs", Answer(503, "ServiceUnavailable"), times=50)
    answer = client.get("/ui/")
    assert answer.status_code == 503
    assert "The Kubernetes API is not available at the moment" in answer.text


class TestRunRecords:
    """What the plot is read from lies where the tenant may write."""

    def sampled(self, world: PageWorld, record: Any) -> Any:
        state = world.state(record)
        gateway: Gateway = world.gateway
        return RunRecords().sample(gateway.tenant("team-a"), record, state, gateway.clock())

    def test_shards_of_the_run_are_found(self, world: PageWorld) -> None:
        world.shards(batch := world.batch("a.jsonl", ago=300, status=running(9000, 5000)), 9, lines=1000)
        found = self.sampled(world, batch)
        assert (len(found.spans), found.every) == (9, 1)
        assert sum(span.lines for span in found.spans) == 9000

    def test_of_many_shards_some_stand_for_the_others(self, world: PageWorld) -> None:
        number = 2 * MOST_READ + 1
        world.shards(batch := world.batch("a.jsonl", ago=3600, status=running(9000, 5000)), number, lines=10, seconds=1)
        found = self.sampled(world, batch)
        assert (len(found.spans), found.every) == (161, 3)
        assert sum(span.lines for span in found.spans) == 161 * 30

    def test_what_no_worker_wrote_is_left_out(self, world: PageWorld) -> None:
        batch = world.batch("a.jsonl", ago=300, status=running(9000, 5000))
        world.shards(batch, 3)
        folder = world.gateway.tenant("team-a")
        layout = OutputLayout(folder.key(f"batch-{batch.id.removeprefix('batch_')}/")).work(FINGERPRINT)
        record = msgspec.json.decode(folder.store.read(layout.record(0)))
        far = (world.now + timedelta(days=4000)).isoformat()
        for shard, content in enumerate(
            [
                b"",
                b"\xff\xfe",
                b"[" * 60_000,
                msgspec.json.encode({**record, "run": 0}),
                msgspec.json.encode({**record, "lines": 10**15}),
                msgspec.json.encode({**record, "lines": -5}),
                msgspec.json.encode({**record, "finished_at": far}),
                msgspec.json.encode({**record, "started_at": "0001-01-01T00:00:00Z"}),
                msgspec.json.encode({**record, "started_at": "2026-01-01T00:00:00"}),
                msgspec.json.encode({**record, "attempt": "x" * 100_000}),
            ],
            start=3,
        ):
            folder.store.write(layout.record(shard), content)
        folder.store.write(f"{layout.records}somebody.json", b"{}")
        assert len(self.sampled(world, batch).spans) == 3

    @pytest.mark.parametrize("fingerprint", ["../../x", "", "ABC", "a/b", "." * 16])
    def test_a_fingerprint_leads_nowhere_else(self, world: PageWorld, fingerprint: str) -> None:
        batch = world.batch("a.jsonl", status=running(10, 5, fingerprint=fingerprint))
        assert self.sampled(world, batch).spans == ()

    def test_the_page_works_while_the_folder_cannot_be_read(self, world: PageWorld, client: httpx.Client) -> None:
        batch = world.batch("a.jsonl", ago=300, status=running(9000, 5000))
        world.shards(batch, 3)
        assert "Throughput" in client.get(f"/ui/batches/{batch.id}").text
        folder = world.gateway.tenant("team-a")
        layout = OutputLayout(folder.key(f"batch-{batch.id.removeprefix('batch_')}/")).work(FINGERPRINT)
        folder.store.delete([info.key for info in folder.store.list(layout.records)])
        answer = client.get(f"/ui/batches/{batch.id}")
        assert (answer.status_code, "Throughput" in answer.text) == (200, False)


def test_many_people_look_at_once(world: PageWorld, client: httpx.Client) -> None:
    for number in range(10):
        world.batch(f"{number}.jsonl", status=running(10, number))
    statuses: list[int] = []

    def look() -> None:
        with signed_in(str(client.base_url)) as one:
            statuses.extend(one.get("/ui/", headers={"x-fragment": "1"}).status_code for _ in range(5))

    threads = [threading.Thread(target=look) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 50
