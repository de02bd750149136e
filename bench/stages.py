"""The worker's stages on an input in a folder, as a pod has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchwright.worker.stage import Stage


def open_stage_in(
    folder: Path,
    url: str,
    *,
    requests: Mapping[str, Any],
    sharding: Mapping[str, Any] | None = None,
    spool: str = "spool",
) -> "Stage":
    """Read `input.jsonl` and write below `output`, both in the folder; `requests` and `sharding` as in the spec."""
    from batchwright.api.worker_job import WorkerJob
    from batchwright.worker.stage import Mounts, open_stage

    for name in ("output", spool):
        (folder / name).mkdir(exist_ok=True)
    spec = {
        "input": {"uri": (folder / "input.jsonl").as_uri()},
        "output": {"uri": f"{(folder / 'output').as_uri()}/"},
        "server": {"url": url},
        "requests": dict(requests),
        **({"sharding": dict(sharding)} if sharding else {}),
    }
    metadata = {"name": "bench", "namespace": "bench", "uid": "bench"}
    job = {"batchjob": {"metadata": metadata, "spec": spec}, "server_url": url}
    return open_stage(WorkerJob.model_validate(job), Mounts(server=folder / "none", spool=folder / spool))
