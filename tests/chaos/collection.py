"""Inputs into the quickstart's storage, and out of it what BatchJobs published."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx
from hack.quickstart import port_forward, quickstart_s3

from chaos.checker import Outcome
from chaos.cluster_world import BUCKET, input_key
from chaos.observation import Snapshot
from chaos.script import Script

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@contextlib.contextmanager
def model_server() -> Iterator[httpx.Client]:
    """The control port of the quickstart's model server."""
    with (
        port_forward("deployment/model-server", 8001) as address,
        httpx.Client(base_url=f"http://{address}", timeout=30, trust_env=False) as stub,
    ):
        yield stub


def prepare(scripts: Sequence[Script]) -> None:
    """Put the inputs, and let the model server forget what came before."""
    with quickstart_s3() as s3:
        for script in scripts:
            body = b"".join(line + b"\n" for line in script.input_lines())
            s3.put_object(Bucket=BUCKET, Key=input_key(script), Body=body)
    with model_server() as stub:
        stub.post("/stub/reset").raise_for_status()
        if not _arrivals(stub)["kept"]:
            raise RuntimeError("the model server keeps no journal: deploy it with `make images quickstart`")


def collect(scripts: Sequence[Script], seen: Snapshot) -> list[Outcome]:
    """What became of each script.

    Raises:
        RuntimeError: the model server's journal doesn't have all that arrived.
    """
    with model_server() as stub:
        arrivals = _arrivals(stub)
    if not arrivals["kept"]:
        raise RuntimeError("the model server's journal is full: what arrived is not known")
    turned_away: Mapping[str, int] = arrivals["turned_away"]
    arrived = {key: count - turned_away.get(key, 0) for key, count in arrivals["arrived"].items()}
    with quickstart_s3() as s3:
        return [_outcome(s3, script, seen, arrived, turned_away) for script in scripts]


def _arrivals(stub: httpx.Client) -> Mapping[str, Any]:
    found: Mapping[str, Any] = stub.get("/stub/arrivals", params={"last": 0}).raise_for_status().json()
    return found


def _outcome(
    s3: "S3Client", script: Script, seen: Snapshot, arrived: Mapping[str, int], turned_away: Mapping[str, int]
) -> Outcome:
    job = seen.jobs.get(script.name)
    status = job.status if job else {}
    return Outcome(
        script=script,
        status=status,
        results=_lines(s3, status.get("output")),
        errors=_lines(s3, status.get("errors")),
        retry=_lines(s3, status.get("retry")),
        arrived={key: arrived[key] for key in script.identities() if arrived.get(key)},
        turned_away=sum(turned_away.get(key, 0) for key in script.identities()),
    )


def _lines(s3: "S3Client", published: Mapping[str, Any] | None) -> list[bytes]:
    """The lines of a published object. One that ends without a line end has a last line that is wrong, and one that is
    gone has none: both show.
    """
    if not published:
        return []
    bucket, key = published["uri"].removeprefix("s3://").split("/", 1)
    try:
        body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return []
    return body.removesuffix(b"\n").split(b"\n")
