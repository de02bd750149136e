"""What no request does: reach another tenant's object by whatever a path or an id may be made of, or bring a storage
endpoint of its own.

Every route that takes anything in its path is tried, also those that somebody adds. Symbolic links on the volume:
tests/integration/storage/test_file_races.py, tests/e2e/test_path_batches.py; what a tenant's workers reach:
test_storage_users.py.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from fastapi.routing import APIRoute

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.http.app import create_app
from batchwright.gateway.page.session import KEY_COOKIE
from batchwright.gateway.principal import Principal
from fixtures.batch_world import BatchWorld, Json, batch_world, line
from fixtures.gateway import ALICE, BOB
from fixtures.s3 import S3Bucket

CATALOGUE = Catalogue.model_validate(
    {"models": [{"model": "m", "cluster": "local", "server": {"url": "http://vllm:8000"}}]}
)
VOLUME = {"claimName": "data", "mountPath": "/data", "sharedRoots": ["public"]}
PATHS = "/resource_server/local/vllm/v1/batches"
SECRET = "secret-of-bob"
ODD = {
    "as it is": "{id}",
    "parent": "../team-b/{id}",
    "parents": "../../../../team-b/{id}",
    "encoded slashes": "..%2fteam-b%2f{id}",
    "encoded dots": "%2e%2e/team-b/{id}",
    "all encoded": "%2e%2e%2fteam-b%2f{id}",
    "encoded twice": "%252e%252e%252fteam-b%252f{id}",
    "encoded three times": "%25252e%25252e%25252fteam-b%25252f{id}",
    "backslashes": "..%5cteam-b%5c{id}",
    "overlong UTF-8": "%c0%ae%c0%ae%c0%afteam-b%c0%af{id}",
    "no UTF-8": "%ff%fe{id}",
    "look-alikes of dots and slashes": f"{quote('．．／team-b／')}{{id}}",
    "another slash": f"..{quote('∕')}team-b{quote('∕')}{{id}}",
    "one dot leader": f"{quote('․․')}%2fteam-b%2f{{id}}",
    "look-alike of a letter": f"{quote('ｂａｔｃｈ')}_{{id}}",
    "absolute": "%2fteam-b%2f{id}",
    "the tenant before it": "team-b/{id}",
    "the tenant before it, encoded": "team-b%2f{id}",
    "a tenant that begins alike": "..%2fteam-a-2%2f{id}",
    "the records": "..%2f.gateway%2ffiles%2fteam-b%2f{id}.json",
    "the records of batches": "..%2f.gateway%2fbatches%2fteam-b%2f{id}.json",
    "NUL at the end": "{id}%00",
    "NUL before an ending": "{id}%00.json",
    "NUL first": "%00{id}",
    "a line's end": "{id}%0a",
    "a header": "{id}%0d%0aX-Tenant:%20team-b",
    "a blank": "{id}%20",
    "an ending": "{id}.json",
    "a parameter": "{id};tenant=team-b",
    "a wildcard": "*",
    "a URI": "file:%2f%2f%2fetc%2fpasswd",
    "an object": "s3:%2f%2fbatches%2fteam-b%2f{id}",
    "capitals": "{ID}",
    "dots": "..",
    "encoded dots alone": "%2e%2e",
    "a dot": ".",
    "nothing but an escape": "%",
    "half an escape": "%2",
    "no escape": "%zz",
    "very long": "x" * 5000,
}


@dataclass(frozen=True)
class Hostile:
    """A gateway with files and batches of Bob's, at which Alice tries her luck."""

    world: BatchWorld
    ids: dict[str, str]

    def send(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """A request of Alice's whose target goes out as it is, to the API and to the page alike."""
        connection = HTTPConnection(urlsplit(self.world.url).netloc, timeout=60)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            headers = {
                "Authorization": "Bearer alice",
                "Cookie": f"{KEY_COOKIE}=alice",
                "Sec-Fetch-Site": "same-origin",
            }
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def bobs(self) -> tuple[dict[str, Any], ...]:
        """Everything of Bob's: his folder, the records, his BatchJobs."""
        gateway = self.world.gateway
        folder = gateway.tenant(str(BOB.namespace))
        stored = (
            {info.key: store.read(info.key) for info in store.list(prefix)}
            for store, prefix in ((folder.store, folder.prefix), (gateway.root, gateway.root_prefix))
        )
        return (*stored, json.loads(json.dumps(self.world.api.objects)))


@pytest.fixture(scope="module", params=["folder", "bucket"])
def hostile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, s3_server: Any
) -> Iterator[Hostile]:
    bucket = None
    if request.param == "bucket":
        bucket = S3Bucket(s3_server, "bucket-hostile", s3_server.client())
        bucket.client.create_bucket(Bucket=bucket.name)
    with world_of(bucket, tmp_path_factory.mktemp("hostile")) as world:
        upload = world.upload(BOB, line(SECRET), filename=f"{SECRET}.jsonl")
        batch = world.create(upload, BOB, metadata={"title": SECRET})
        world.finish(batch, results=line(SECRET), errors=line(SECRET), who=BOB)
        output = world.get(batch, BOB)["output_file_id"]
        asked = {"model": "m", "input_file": f"/data/tenants/team-b/{SECRET}.jsonl"}
        path = world.request("POST", PATHS, BOB, json=asked).raise_for_status().json()["batch_id"]
        yield Hostile(world, {"upload": upload, "batch": batch, "output": output, "path": path})


@contextmanager
def world_of(bucket: S3Bucket | None, folder: Path) -> Iterator[BatchWorld]:
    with batch_world(bucket, folder, catalogue=lambda: CATALOGUE, sharedVolume=VOLUME) as world:
        yield world


def targets(hostile: Hostile, place: str) -> Iterator[tuple[str, str]]:
    """Method and path of every route that takes something in its path, with this in place of it."""
    for route in routes_of(create_app(hostile.world.gateway, lambda _: None).routes):
        if route.param_convertors:
            path = route.path
            for name in route.param_convertors:
                path = path.replace(f"{{{name}:path}}", place).replace(f"{{{name}}}", place)
            yield from ((method, path) for method in sorted(route.methods))


def routes_of(routes: Iterable[Any]) -> Iterator[APIRoute]:
    """Also those of the routers that an application has included, none of which has a prefix there."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif included := getattr(route, "original_router", None):
            yield from routes_of(included.routes)


def test_these_are_the_routes_that_are_tried(hostile: Hostile) -> None:
    tried = set(targets(hostile, "x"))
    for method, path in (
        ("GET", "/v1/files/x"),
        ("DELETE", "/v1/files/x"),
        ("GET", "/v1/files/x/content"),
        ("GET", "/v1/batches/x"),
        ("GET", "/v1/batches/x/results"),
        ("POST", "/v1/batches/x/cancel"),
        ("GET", "/v1/models/x"),
        ("GET", "/resource_server/v1/batches/x"),
        ("GET", "/resource_server/v1/batches/x/result"),
        ("POST", "/resource_server/v1/batches/x/cancel"),
        ("POST", "/resource_server/x/x/v1/batches"),
    ):
        assert (method, path) in tried
    assert any("/ui/" in path for _, path in tried), "the page's too"


@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_no_path_or_id_leads_to_another_tenant(hostile: Hostile, odd: str) -> None:
    before = hostile.bobs()
    tried = 0
    for identity in hostile.ids.values():
        place = odd.format(id=identity, ID=identity.upper())
        for method, target in targets(hostile, place):
            status, body = hostile.send(method, target, b"{}" if method == "POST" else b"")
            assert 300 <= status < 500, (status, method, target, body[:200])
            assert SECRET.encode() not in body, (method, target)
            tried += 1
        if "{" not in odd:
            break
    assert tried > 15
    assert hostile.bobs() == before


BODIES: dict[str, tuple[str, Callable[[dict[str, str]], Json]]] = {
    "a file as input": ("/v1/batches", lambda ids: {"input_file_id": ids["upload"]}),
    "an output as input": ("/v1/batches", lambda ids: {"input_file_id": ids["output"]}),
    "a path as input": ("/v1/batches", lambda ids: {"input_file_id": f"../team-b/{ids['upload']}"}),
    "a URI as input": ("/v1/batches", lambda ids: {"input_file_id": f"s3://batches/team-b/{ids['upload']}"}),
    "its path": (PATHS, lambda ids: {"input_file": f"/data/tenants/team-b/{SECRET}.jsonl"}),
    "its path from one's own": (PATHS, lambda ids: {"input_file": f"/data/tenants/team-a/../team-b/{SECRET}.jsonl"}),
    "encoded": (PATHS, lambda ids: {"input_file": f"/data/tenants/team-a%2f..%2fteam-b/{SECRET}.jsonl"}),
    "a name that begins alike": (PATHS, lambda ids: {"input_file": "/data/tenants/team-ab/x.jsonl"}),
    "a host before it": (PATHS, lambda ids: {"input_file": f"file://team-b/data/tenants/team-b/{SECRET}.jsonl"}),
    "localhost before it": (PATHS, lambda ids: {"input_file": "file://localhost/data/tenants/team-a/x.jsonl"}),
    "two slashes": (PATHS, lambda ids: {"input_file": "//data/tenants/team-a/x.jsonl"}),
    "NUL": (PATHS, lambda ids: {"input_file": "/data/tenants/team-a/x\0/../../team-b/x.jsonl"}),
    "look-alikes": (PATHS, lambda ids: {"input_file": "/data/tenants／team-a/x.jsonl"}),
    "the system's": (PATHS, lambda ids: {"input_file": "file:///etc/passwd"}),
    "the worker's own keys": (PATHS, lambda ids: {"input_file": "/var/run/secrets/batchwright/storage/AWS_SECRET"}),
    "its folder": (PATHS, lambda ids: {"output_folder_path": "/data/tenants/team-b/out"}),
    "everybody's folder": (PATHS, lambda ids: {"output_folder_path": "/data/tenants"}),
    "a shared folder": (PATHS, lambda ids: {"output_folder_path": "/data/public/out"}),
}


@pytest.mark.parametrize(("path", "asked"), BODIES.values(), ids=list(BODIES))
def test_no_body_leads_to_another_tenant(hostile: Hostile, path: str, asked: Callable[[dict[str, str]], Json]) -> None:
    good: Json = {"model": "m", "input_file": "/data/tenants/team-a/x.jsonl"}
    if path != PATHS:
        good = {"endpoint": "/v1/chat/completions"}
    before = hostile.bobs()
    answer = hostile.world.request("POST", path, json=good | asked(hostile.ids))
    if path == PATHS:
        assert answer.status_code == 400
    else:
        assert hostile.world.get(answer.json()["id"])["status"] == "failed", "as at OpenAI, which looks afterwards"
    assert SECRET not in answer.text.replace(json.dumps(asked(hostile.ids))[1:-1], "").replace(f"{SECRET}.jsonl", "")
    now = hostile.bobs()
    assert now[0] == before[0]
    assert now[2] == before[2], "no BatchJob was made"


@pytest.mark.parametrize("after", ["batch", "path", "upload", "output"])
def test_no_place_in_a_list_leads_to_another_tenant(hostile: Hostile, after: str) -> None:
    for path in ("/v1/files", "/v1/batches"):
        for who_asks in (ALICE, Principal("alice", "team-a")):
            answer = hostile.world.request("GET", path, who_asks, params={"after": hostile.ids[after]})
            assert answer.status_code in (200, 400, 404)
            assert SECRET not in answer.text
            assert not any(identity in answer.text for name, identity in hostile.ids.items() if name != after)


ELSEWHERE = "http://169.254.169.254/latest"
OWN_ENDPOINTS: dict[str, Json] = {
    "storage": {"storage": {"endpointURL": ELSEWHERE}},
    "server": {"server": {"url": ELSEWHERE}},
    "a spec": {"spec": {"storage": {"endpointURL": ELSEWHERE}}},
    "an extra body": {"extra_body": {"storage": {"endpointURL": ELSEWHERE}}},
    "an input": {"input": {"uri": "s3://b/k", "storage": {"endpointURL": ELSEWHERE}}},
    "an output": {"output": {"uri": "s3://b/k/", "storage": {"endpointURL": ELSEWHERE}}},
    "endpoint_url": {"endpoint_url": ELSEWHERE},
    "endpointURL": {"endpointURL": ELSEWHERE},
    "AWS_ENDPOINT_URL": {"AWS_ENDPOINT_URL": ELSEWHERE},
    "worker": {"worker": {"env": [{"name": "AWS_ENDPOINT_URL", "value": ELSEWHERE}]}},
    "a Secret": {"credentialsSecretRef": {"name": "gateway-storage"}},
    "a webhook": {"webhook_url": ELSEWHERE},
}
OWN_HEADERS = {
    "X-Storage-Endpoint": ELSEWHERE,
    "X-Amz-Endpoint": ELSEWHERE,
    "X-Amz-Security-Token": "x",
    "AWS-Endpoint-URL": ELSEWHERE,
    "X-Forwarded-Host": "169.254.169.254",
    "X-Forwarded-Server": ELSEWHERE,
    "Forwarded": "host=169.254.169.254",
    "X-Original-URL": ELSEWHERE,
    "OpenAI-Organization": ELSEWHERE,
}


def made_specs(world: BatchWorld, headers: dict[str, str], metadata: Json | None) -> list[Json]:
    """What BatchJobs are made for plain requests with these headers, and this in metadata."""
    asked = {"model": "m", "input_file": "/data/tenants/team-a/x.jsonl"}
    paths = world.request("POST", PATHS, json=asked, headers=headers).raise_for_status().json()["batch_id"]
    form: Json = {"files": {"file": ("in.jsonl", line())}, "data": {"purpose": "batch"}}
    upload = world.request("POST", "/v1/files", headers=headers, **form).raise_for_status().json()["id"]
    fields = {"input_file_id": upload, "endpoint": "/v1/chat/completions", "metadata": metadata}
    openai = world.request("POST", "/v1/batches", json=fields, headers=headers).raise_for_status().json()["id"]
    return [world.batchjob(batch_id)["spec"] for batch_id in (paths, openai)]


def places(spec: Json) -> Json:
    """Everything of a spec that says where something is, or as whom it is reached; the names of new objects aside."""
    kept: Json = {name: spec.get(name) for name in ("storage", "server", "worker")}
    return kept | {part: spec[part].get("storage") for part in ("input", "output")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchWorld]:
    with world_of(None, tmp_path_factory.mktemp("plain")) as world:
        yield world


@pytest.mark.parametrize("own", OWN_ENDPOINTS.values(), ids=list(OWN_ENDPOINTS))
@pytest.mark.parametrize("path", ["/v1/batches", PATHS])
def test_no_body_brings_an_endpoint_of_its_own(plain: BatchWorld, path: str, own: Json) -> None:
    good: Json = {"model": "m", "input_file": "/data/tenants/team-a/x.jsonl"}
    if path != PATHS:
        good = {"endpoint": "/v1/chat/completions", "input_file_id": plain.upload()}
    assert plain.request("POST", path, json=good).status_code == 200
    before = len(plain.batchjobs())
    answer = plain.request("POST", path, json=good | own)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_parameter")
    assert len(plain.batchjobs()) == before


def test_no_header_and_no_metadata_brings_an_endpoint_of_its_own(plain: BatchWorld) -> None:
    metadata = dict.fromkeys(("endpointURL", "AWS_ENDPOINT_URL", "storage", "server"), ELSEWHERE)
    for usual, tried in zip(made_specs(plain, {}, None), made_specs(plain, OWN_HEADERS, metadata), strict=True):
        assert places(tried) == places(usual)
        assert "169.254" not in json.dumps({name: part for name, part in tried.items() if name != "metadata"})


def test_no_form_brings_an_endpoint_of_its_own(plain: BatchWorld) -> None:
    form: Json = {
        "files": {"file": ("in.jsonl", line())},
        "data": {"purpose": "batch", "storage": ELSEWHERE, "endpoint_url": ELSEWHERE, "key": "../team-b/x"},
    }
    answer = plain.request("POST", "/v1/files", **form)
    assert answer.status_code == 200, "unknown fields are passed over, as by OpenAI"
    assert "169.254" not in answer.text
    where = plain.gateway.tenant("team-a")
    assert where.store.head(where.key(answer.json()["id"])).size == len(line())


URIS = [
    "s3://inputs/in.jsonl?endpoint=http://169.254.169.254",
    "s3://inputs/in.jsonl?endpointURL=http%3A%2F%2F169.254.169.254",
    "s3://inputs?endpoint=x/in.jsonl",
    "s3://169.254.169.254:80/in.jsonl",
    "s3://user:password@inputs/in.jsonl",
    "s3://inputs:9000/in.jsonl",
    "s3:inputs/in.jsonl",
    "s3:/inputs/in.jsonl",
    "S3://inputs/in.jsonl",
    "s3+http://169.254.169.254/inputs/in.jsonl",
    "http://169.254.169.254/in.jsonl",
    "https://s3.amazonaws.com/inputs/in.jsonl",
    "https://minio.storage:9000/inputs/in.jsonl",
    "http://kubernetes.default.svc/api",
    "ftp://inputs/in.jsonl",
    "gs://inputs/in.jsonl",
    "abfs://inputs/in.jsonl",
    "hdfs://namenode/in.jsonl",
    "unix:///var/run/docker.sock",
    "data:text/plain,x",
    "file://169.254.169.254/data/tenants/team-a/in.jsonl",
    "//169.254.169.254/data/tenants/team-a/in.jsonl",
    "\\\\169.254.169.254\\data",
]


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("field", ["input_file", "output_folder_path"])
def test_no_uri_brings_an_endpoint_of_its_own(plain: BatchWorld, field: str, uri: str) -> None:
    good = {"model": "m", "input_file": "/data/tenants/team-a/x.jsonl"}
    before = len(plain.batchjobs())
    answer = plain.request("POST", PATHS, json=good | {field: uri})
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == ("invalid_value", field)
    assert len(plain.batchjobs()) == before
