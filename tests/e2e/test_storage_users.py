"""The storage keys that an administrator made for a tenant, on the cluster: BatchJobs of the gateway are worked on with
them, and BatchJobs that somebody applies beside these reach nothing of another tenant's.
"""

import json

import httpx
import pytest

from e2e.gateway import gateway_access
from e2e.quickstart import BUCKET, NAMESPACE, Quickstart, chat_line, jsonl

SECRET = "batchwright-storage"
OWN = f"gateway/{NAMESPACE}"
REACHED = {
    "another tenant's file": ("input", "gateway/other/{name}.jsonl"),
    "a record of the gateway": ("input", "gateway/.gateway/files/other/{name}.json"),
    "another tenant's folder": ("output", "gateway/other/{name}/"),
    "the gateway's records": ("output", "gateway/.gateway/"),
}


@pytest.mark.parametrize(("part", "key"), REACHED.values(), ids=list(REACHED))
def test_a_batchjob_with_a_tenants_keys_does_not_reach_another_tenants_files(
    quickstart: Quickstart, part: str, key: str
) -> None:
    name = quickstart.name("reach")
    secret = jsonl([chat_line("secret-of-other")])
    own = quickstart.put(f"{OWN}/{name}.jsonl", [chat_line("own")])
    place = key.format(name=name)
    theirs = f"gateway/other/{name}.jsonl" if part == "output" else place
    quickstart.put(theirs, secret)
    uris = {"input": own, "output": f"s3://{BUCKET}/{OWN}/out/"} | {part: f"s3://{BUCKET}/{place}"}
    try:
        quickstart.apply(name, uris["input"], output={"uri": uris["output"]}, storage=quickstart.storage(SECRET))
        message = quickstart.wait_message(name, uris[part].rstrip("/"), "access denied")
        assert "secret-of-other" not in message
        assert quickstart.s3.get_object(Bucket=BUCKET, Key=theirs)["Body"].read() == secret
        assert not quickstart.arrivals()
        below = quickstart.s3.list_objects_v2(Bucket=BUCKET, Prefix="gateway/other/").get("Contents", [])
        assert [found["Key"] for found in below if found["Key"] != theirs and name in found["Key"]] == []
    finally:
        for written in (theirs, f"{OWN}/{name}.jsonl"):
            quickstart.s3.delete_object(Bucket=BUCKET, Key=written)


def test_the_gateways_batchjobs_name_the_tenants_secret(quickstart: Quickstart) -> None:
    with gateway_access() as gateway, httpx.Client(base_url=gateway.base_url, timeout=30) as client:
        client.headers["authorization"] = f"Bearer {gateway.key}"
        form = {"files": {"file": ("in.jsonl", jsonl([chat_line("a")]))}, "data": {"purpose": "batch"}}
        upload = client.post("/files", **form).raise_for_status().json()["id"]
        asked = {"input_file_id": upload, "endpoint": "/v1/chat/completions"}
        batch_id = client.post("/batches", json=asked).raise_for_status().json()["id"]
    spec = quickstart.get(batch_id.replace("_", "-"))["spec"]
    assert spec["storage"]["credentialsSecretRef"]["name"] == SECRET
    assert "gateway-storage" not in json.dumps(spec)
