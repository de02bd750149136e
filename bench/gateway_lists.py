"""What the first lists of a new replica of the gateway cost, with many files and batches: each record is read once.

The gateway runs in a process of its own in front of versitygw, the S3 server of the tests. Time and memory are those of
a gateway that asks the server directly; requests are counted in a second pass, by a proxy between the two. See
bench/README.md.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from batchwright.gateway import ids  # noqa: E402
from batchwright.gateway.page.session import KEY_COOKIE  # noqa: E402
from batchwright.gateway.records.batch_record import BatchRecord, BatchState, Counts, Ending, Times  # noqa: E402
from batchwright.gateway.records.file_record import FileRecord  # noqa: E402
from fixtures.fault_proxy import FaultProxy  # noqa: E402
from fixtures.gateway import ALICE, bearer, gateway_on  # noqa: E402
from fixtures.gateway_process import GatewayProcess, gateway_process  # noqa: E402
from fixtures.kubernetes_http import HttpApi  # noqa: E402
from fixtures.s3 import S3Bucket, s3_process  # noqa: E402

BUCKET = "bench"
WRITERS = 16
TIMEOUT_SECONDS = 600.0
ENDPOINT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request to the gateway, or several that belong together."""

    name: str
    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a visit took."""

    seconds: float
    cpu_seconds: float
    """Of the gateway."""
    peak_mib: float
    """The gateway's largest resident size by the end of it."""


def visits(records: int) -> list[Visit]:
    """What is asked for, in this order, of a gateway that has just begun."""
    return [
        Visit("nothing yet", []),
        Visit("the page's list of batches", ["/ui/"]),
        Visit("GET /v1/batches?limit=100", ["/v1/batches?limit=100"]),
        Visit(f"GET /v1/files?limit={records}", [f"/v1/files?limit={records}"]),
        Visit("the same again", [f"/v1/files?limit={records}"]),
        Visit("the same, the oldest first", [f"/v1/files?limit={records}&order=asc"]),
        Visit("GET /v1/batches?status=failed", ["/v1/batches?status=failed"]),
    ]


def populate(bucket: S3Bucket, folder: Path, records: int) -> None:
    """Write records of files and of batches that have ended, the last of them now."""
    first = datetime.now(UTC) - timedelta(seconds=records)
    with HttpApi() as api:
        keys = bucket.server.root.credentials_dir
        storage = {"endpointURL": bucket.server.endpoint_url}
        gateway = gateway_on(f"s3://{bucket.name}/batches/", api, folder, credentials=keys, storage=storage)

        def write(number: int) -> None:
            moment = first + timedelta(seconds=number)
            file = file_record(moment, number)
            batch = batch_record(moment, file)
            gateway.files.create(file.namespace, file.id, file)
            gateway.batches.create(batch.namespace, batch.id, batch)

        with ThreadPoolExecutor(WRITERS) as writers:
            for _ in writers.map(write, range(records)):
                pass


def file_record(moment: datetime, number: int) -> FileRecord:
    file_id = ids.new_file_id(moment)
    return FileRecord(
        id=file_id,
        namespace=str(ALICE.namespace),
        key=file_id,
        bytes=1_000_000,
        created_at=moment,
        filename=f"requests-{number}.jsonl",
        purpose="batch",
        etag="0123456789abcdef0123456789abcdef",
        user=ALICE.user,
        lines=1000,
        model="Qwen/Qwen3-8B",
    )


def batch_record(moment: datetime, file: FileRecord) -> BatchRecord:
    ended = moment + timedelta(seconds=60)
    state = BatchState(
        "completed",
        model="Qwen/Qwen3-8B",
        endpoint=ENDPOINT,
        counts=Counts(1000, 990, 10),
        times=Times(in_progress_at=moment, completed_at=ended),
        error_codes={"400": 10},
    )
    return BatchRecord(
        id=ids.new_batch_id(moment),
        namespace=str(ALICE.namespace),
        user=ALICE.user,
        face="openai",
        created_at=moment,
        expires_at=moment + timedelta(hours=24),
        completion_window="24h",
        endpoint=ENDPOINT,
        spec={"input": {"uri": "s3://bench/batches/team-a/file"}, "server": {"url": "http://vllm.models:8000"}},
        input_file_id=file.id,
        batchjob_uid="00000000-0000-0000-0000-000000000000",
        ending=Ending(state, output_file_id=ids.new_file_id(ended), error_file_id=ids.new_file_id(ended)),
    )


@contextmanager
def new_gateway(folder: Path, bucket: S3Bucket, endpoint_url: str) -> Iterator[tuple[GatewayProcess, httpx.Client]]:
    folder.mkdir()
    with gateway_process(folder, bucket, storage={"endpointURL": endpoint_url}) as process:
        session: dict[str, Any] = {"headers": bearer(ALICE), "cookies": {KEY_COOKIE: ALICE.user}}
        with httpx.Client(base_url=process.url, timeout=TIMEOUT_SECONDS, **session) as client:
            client.get("/healthz").raise_for_status()
            yield process, client


def cost_of(visit: Visit, client: httpx.Client, process: GatewayProcess) -> Cost:
    before = process.cpu_seconds()
    seconds = make(visit, client)
    return Cost(seconds, process.cpu_seconds() - before, process.peak_mib())


def make(visit: Visit, client: httpx.Client) -> float:
    """Make a visit; its seconds."""
    started = time.perf_counter()
    for path in visit.paths:
        client.get(path).raise_for_status()
    return time.perf_counter() - started


def main() -> None:
    """Print a row for each visit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000, help="files, and as many batches (default: %(default)s)")
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory(prefix="bench-lists-") as name, s3_process(Path(name)) as server:
        folder = Path(name)
        server.client().create_bucket(Bucket=BUCKET)
        bucket = S3Bucket(server, BUCKET, server.client())
        populate(bucket, folder, records)
        with new_gateway(folder / "timed", bucket, server.endpoint_url) as (process, client):
            costs = [cost_of(visit, client, process) for visit in visits(records)]
        with (
            FaultProxy(server.endpoint_url) as proxy,
            new_gateway(folder / "counted", bucket, proxy.endpoint_url) as (_, client),
        ):
            print("| asked for | requests to the storage | s | CPU s | peak RSS, MiB |\n|---|---|---:|---:|---:|")
            for visit, cost in zip(visits(records), costs, strict=True):
                before = len(proxy.requests)
                make(visit, client)
                made = Counter(proxy.operations[before:])
                requests = ", ".join(f"{number:,} {operation}" for operation, number in sorted(made.items()))
                took = f"{cost.seconds:.2f} | {cost.cpu_seconds:.2f}"
                print(f"| {visit.name} | {requests} | {took} | {cost.peak_mib:.0f} |", flush=True)


if __name__ == "__main__":
    main()
