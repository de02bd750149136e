"""Two users of the storage: the gateway's reaches every tenant, its workers' the tenant's own prefix alone.

On the quickstart's server with its policies: a gateway that has the one user's keys, and workers, as processes, with
the other's. The tenant is batchwright-demo; another one's files lie beside its own. On a cluster:
tests/e2e/test_storage_users.py.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from batchwright.api.batchjob import BatchJob
from batchwright.api.conditions import Reason
from batchwright.api.reports import FailureReport, PlanReport, Progress
from batchwright.gateway.principal import Principal
from fixtures.batch_world import BatchWorld, Json
from fixtures.gateway import KnownUsers, Moments, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.made_batchjobs import job_of, run_batchjob
from fixtures.quickstart_storage import BUCKET, GATEWAY_USER, quickstart_storage, tenant_user
from fixtures.s3 import S3Server
from fixtures.worker import chat_lines, ids, jsonl, parsed
from stub.harness import StubProcess

DEMO = Principal("demo", "batchwright-demo")
OTHER = Principal("other", "other")
SECRET = "batchwright-storage"
THEIRS = "gateway/other"
OWN = "gateway/batchwright-demo"


@dataclass(frozen=True)
class TwoUsers:
    """A gateway on the server, with a file of each tenant."""

    world: BatchWorld
    server: S3Server
    folder: Path
    stub: StubProcess

    def objects(self, prefix: str) -> dict[str, tuple[str, str]]:
        """Version and time of change of everything below a prefix."""
        listed = self.server.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return {found["Key"]: (found["ETag"], str(found["LastModified"])) for found in listed}

    def by_hand(self, name: str, **changes: str) -> dict[str, Any]:
        """A BatchJob as somebody applies it in the tenant's namespace, with the Secret that is there."""
        uris = {"input": f"s3://{BUCKET}/{OWN}/in.jsonl", "output": f"s3://{BUCKET}/{OWN}/out/"} | changes
        spec = {
            **{part: {"uri": uri} for part, uri in uris.items()},
            "storage": {"endpointURL": self.server.endpoint_url, "credentialsSecretRef": {"name": SECRET}},
        }
        return {"metadata": {"name": name}, "spec": spec}

    def plan(self, batchjob: Mapping[str, Any], keys: Mapping[str, str]) -> FailureReport:
        """The report of a plan that must fail."""
        folder = self.folder / batchjob["metadata"]["name"]
        return job_of(batchjob, folder, self.stub.url, keys).start("plan").report(FailureReport)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with quickstart_storage(tmp_path_factory.mktemp("storage")) as running:
        yield running


@pytest.fixture
def two(server: S3Server, stub: StubProcess, tmp_path: Path) -> Iterator[TwoUsers]:
    stub.switch(delay="0")
    keys = tmp_path / "gateway-storage"
    keys.mkdir()
    for name, value in GATEWAY_USER.items():
        (keys / name).write_text(value)
    storage = {"endpointURL": server.endpoint_url, "credentialsSecretRef": {"name": SECRET}}
    clock = Moments()
    with HttpApi() as api:
        gateway = gateway_on(
            f"s3://{BUCKET}/gateway/",
            api,
            tmp_path,
            credentials=keys,
            clock=clock,
            users=KnownUsers(DEMO, OTHER),
            storage=storage,
        )
        with (
            running_gateway(gateway) as url,
            httpx.Client(base_url=url, timeout=30, trust_env=False) as client,
        ):
            world = BatchWorld(gateway, api, url, client, lambda line: None, clock)  # type: ignore[arg-type]
            yield TwoUsers(world, server, tmp_path, stub)


def upload(two: TwoUsers, who: Principal, data: bytes) -> str:
    """Through the gateway."""
    form: Json = {"files": {"file": ("in.jsonl", data)}, "data": {"purpose": "batch"}}
    return str(two.world.request("POST", "/v1/files", who, **form).raise_for_status().json()["id"])


def test_a_batch_is_worked_on_with_the_keys_that_its_tenant_has(two: TwoUsers) -> None:
    world = two.world
    batch_id = world.create(upload(two, DEMO, jsonl(chat_lines(5))), DEMO)
    batchjob = world.batchjob(batch_id, DEMO)
    ran = run_batchjob(job_of(batchjob, two.folder / "run", two.stub.url, tenant_user()))
    world.phase(batch_id, who=DEMO, reason="", **ran.status)
    output = world.get(batch_id, DEMO)["output_file_id"]
    content = world.request("GET", f"/v1/files/{output}/content", DEMO).content
    assert ids(parsed(content)) == ids(chat_lines(5))


def test_its_batchjob_names_the_tenants_secret_and_never_what_the_gateway_has(two: TwoUsers) -> None:
    batch_id = two.world.create(upload(two, DEMO, jsonl(chat_lines(1))), DEMO)
    batchjob = two.world.batchjob(batch_id, DEMO)
    spec = BatchJob.model_validate(batchjob).spec
    assert spec.storage is not None
    assert spec.storage.credentials_secret_ref is not None
    assert spec.storage.credentials_secret_ref.name == SECRET
    assert spec.input.storage is None
    assert spec.output.storage is None
    for own in ("gateway-storage", *GATEWAY_USER.values()):
        assert own not in json.dumps(batchjob)


def test_workers_have_no_way_in_but_the_keys_that_they_are_given(two: TwoUsers) -> None:
    batch_id = two.world.create(upload(two, DEMO, jsonl(chat_lines(1))), DEMO)
    strangers = two.server.create_account()
    keys = {"AWS_ACCESS_KEY_ID": strangers.access_key, "AWS_SECRET_ACCESS_KEY": strangers.secret_key}
    report = two.plan(two.world.batchjob(batch_id, DEMO), keys)
    assert report.reason is Reason.STORAGE_ACCESS_DENIED


OUT_OF_REACH = {
    "another tenant's upload": ("input", f"{THEIRS}/{{file}}"),
    "a record of the gateway": ("input", "gateway/.gateway/files/other/{file}.json"),
    "a tenant's whose name begins alike": ("input", f"{OWN}-2/in.jsonl"),
    "what lies beside the gateway's": ("input", "in/input.jsonl"),
    "another tenant's folder": ("output", f"{THEIRS}/"),
    "the records": ("output", "gateway/.gateway/"),
    "a folder that holds its own": ("output", "gateway/"),
    "the whole bucket": ("output", ""),
    "a folder whose name begins alike": ("output", f"{OWN}-2/"),
}


@pytest.mark.parametrize(("part", "key"), OUT_OF_REACH.values(), ids=list(OUT_OF_REACH))
def test_a_batchjob_of_a_tenants_own_making_reaches_nothing_else(two: TwoUsers, part: str, key: str) -> None:
    theirs = upload(two, OTHER, jsonl(chat_lines(2, prefix="secret-of-other-")))
    root = two.server.client()
    for own in (f"{OWN}/in.jsonl", f"{OWN}-2/in.jsonl", "in/input.jsonl"):
        root.put_object(Bucket=BUCKET, Key=own, Body=jsonl(chat_lines(2, prefix="secret-of-other-")))
    uri = f"s3://{BUCKET}/{key.format(file=theirs)}"
    before = two.objects("")

    report = two.plan(two.by_hand("by-hand", **{part: uri}), tenant_user())

    assert report.reason is Reason.STORAGE_ACCESS_DENIED
    assert uri in report.message
    assert "s3:" in report.message.replace(uri, ""), "it names the permission that is missing"
    assert "secret-of-other" not in report.message
    assert two.stub.arrivals().total == 0
    after = two.objects("")
    assert {at: after[at] for at in before} == before, "nothing that was there has changed"
    assert [at for at in after if at not in before and not at.startswith(f"{OWN}/")] == []


def test_a_forged_record_of_a_shard_does_not_make_a_merge_read_another_tenants_file(two: TwoUsers) -> None:
    theirs = upload(two, OTHER, jsonl(chat_lines(2, prefix="secret-of-other-")))
    two.server.client().put_object(Bucket=BUCKET, Key=f"{OWN}/in.jsonl", Body=jsonl(chat_lines(2)))
    job = job_of(two.by_hand("forged"), two.folder / "forged", two.stub.url, tenant_user())
    planned = job.start("plan").report(PlanReport)
    job.start_worker(planned).report(Progress)
    record = min(at for at in two.objects(f"{OWN}/out/forged/.batchwright/") if "/records/" in at)
    root = two.server.client()
    forged = json.loads(root.get_object(Bucket=BUCKET, Key=record)["Body"].read())
    forged["results"]["key"] = f"{THEIRS}/{theirs}"
    root.put_object(Bucket=BUCKET, Key=record, Body=json.dumps(forged).encode())

    report = job.start_merge(planned).report(FailureReport)

    assert report.reason is Reason.STORAGE_ACCESS_DENIED
    assert theirs in report.message
    assert f"{OWN}/out/forged/results.jsonl" not in two.objects(f"{OWN}/out/")
