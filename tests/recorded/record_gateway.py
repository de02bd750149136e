"""Record what one version of the gateway writes down of files, batches and Idempotency-Keys.

The README beside this file says how to call it.
"""

import json
import sys
import tempfile
from pathlib import Path

from fixtures.batch_world import ENDPOINT, BatchWorld, batch_world


def records(world: BatchWorld) -> dict[str, bytes]:
    """Each record, by a name that begins with its kind."""
    created = world.post(
        key="nightly", input_file_id=world.upload(), endpoint=ENDPOINT, metadata={"team": "docs"}
    ).json()
    found = {"batch-created": read(world, "batches", created["id"])}
    world.request("POST", f"/v1/batches/{created['id']}/cancel")
    found["batch-cancelling"] = read(world, "batches", created["id"])
    counts = {"total": 2, "completed": 1, "failed": 1}
    world.finish(created["id"], "cancelled", results=b"{}\n", errors=b"{}\n", requestCounts=counts)
    ended = world.get(created["id"])
    found["batch-ended"] = read(world, "batches", created["id"])
    failed = world.create(world.missing_file(1))
    by_path = {"model": "m", "input_file": "/data/tenants/team-a/in.jsonl"}
    made = world.request("POST", "/resource_server/local/vllm/v1/batches", json=by_path).json()
    [key] = world.gateway.idempotency.list("team-a")
    return found | {
        "batch-failed": read(world, "batches", failed),
        "batch-by-path": read(world, "batches", made["batch_id"]),
        "file-uploaded": read(world, "files", created["input_file_id"]),
        "file-published": read(world, "files", ended["output_file_id"]),
        "idempotency": read(world, "idempotency", key.record.id),
    }


def read(world: BatchWorld, kind: str, identity: str) -> bytes:
    """A record as it lies in the store."""
    return world.gateway.root.read(f"{world.gateway.root_prefix}{kind}/team-a/{identity}.json")


def main() -> None:
    """Write them to the folder that the command line names."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    volume = {"claimName": "data", "mountPath": "/data"}
    with tempfile.TemporaryDirectory() as folder, batch_world(None, Path(folder), sharedVolume=volume) as world:
        for name, data in records(world).items():
            text = data.decode().replace(folder, "/storage")
            (target / f"{name}.json").write_text(json.dumps(json.loads(text), indent=2) + "\n")


if __name__ == "__main__":
    main()
