"""The page on a real socket, without a browser: what is shown, what is sent, what is refused."""

import gzip
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from batchwright.gateway.page import forms
from batchwright.gateway.page.session import KEY_COOKIE
from fixtures.gateway import ALICE, Audited, running_gateway
from fixtures.kubernetes_http import Answer, HttpApi
from fixtures.page_client import OWN, signed_in, upload
from fixtures.page_world import LINE, MODEL, PageWorld, batchjob_path, ended, running
from fixtures.s3 import S3Bucket


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


def test_requests_that_never_ran_are_told_from_those_that_failed(world: PageWorld, client: httpx.Client) -> None:
    codes = {"batch_cancelled": 1234, "400": 56}
    batch = world.batch("a.jsonl", status=ended("cancelled", 2000, 710, 1290, errorCodes=codes))
    text = client.get(f"/ui/batches/{batch.id}").text
    figures = dict(re.findall(r"<div><dt>(\w[\w ]*)</dt><dd[^>]*>([\d,]+)", text))
    assert (figures["Done"], figures["Failed"], figures["Not run"]) == ("766", "56", "1,234")
    rows = re.findall(r'<th scope="row"><code>(\w+)</code>(.*?)</th>', text, re.DOTALL)
    assert [(code, "<svg" in rest) for code, rest in rows] == [("400", True), ("batch_cancelled", False)]


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
    assert "errors in the file" in client.get("/ui/").text


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


def test_an_upload_whose_fields_do_not_come_is_not_waited_for(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-in neither."""
    monkeypatch.setattr(forms, "FORM_SECONDS", 0.2)
    for path, kind in (("/ui/batches", "multipart/form-data; boundary=x"), ("/ui/sign-in", "text/plain")):
        connection = HTTPConnection(client.base_url.netloc.decode(), timeout=20)
        with closing(connection):
            headers = {"content-type": kind, "content-length": "1000", "cookie": f"{KEY_COOKIE}={ALICE.user}"}
            connection.request("POST", path, b"--x\r\n", headers | OWN)
            assert connection.getresponse().status == 408
