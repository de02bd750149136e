"""Record the API objects of a BatchJob in mid-run, as one version of the controller leaves them.

The controller's own core decides; this script stands in for the API server and the pods, whose words are those of that
version's reports. The README beside this file says how to call it.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import batchwright
from batchwright.api.reports import InterruptedReport, PlanReport, Progress, Report, encode_report
from batchwright.api.status import Usage
from batchwright.controller.core import new_status, parsing
from batchwright.controller.core.plan_of_actions import CreateConfigMap, CreateJob
from batchwright.controller.core.reconcile import reconcile
from batchwright.controller.memory import Memory, Reading
from batchwright.controller.settings import Settings

BEGIN: Final = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
BATCHJOB: Final[dict[str, Any]] = {
    "apiVersion": "batchwright.dev/v1alpha1",
    "kind": "BatchJob",
    "metadata": {
        "namespace": "demo",
        "name": "nightly",
        "uid": "11111111-2222-3333-4444-555555555555",
        "generation": 1,
        "creationTimestamp": "2026-03-01T11:59:00Z",
    },
    "spec": {
        "input": {"uri": "s3://batches/in.jsonl"},
        "output": {"uri": "s3://batches/out/"},
        "server": {"service": {"name": "model-server", "port": 8000}},
        "storage": {"endpointURL": "http://s3:7070", "credentialsSecretRef": {"name": "s3-credentials"}},
        "sharding": {"parallelism": 2},
        "completionWindow": "24h",
    },
}
PLANNED: Final = PlanReport(
    fingerprint="4d59a69439155f68",
    plan_uri="s3://batches/out/nightly/.batchwright/4d59a69439155f68/plan.json",
    lines=4000,
    shards=4,
    endpoint="/v1/chat/completions",
    model="stub-model",
)


class Cluster:
    """The objects of one BatchJob, and the loop that looks after it."""

    def __init__(self) -> None:
        self.batchjob: dict[str, Any] = json.loads(json.dumps(BATCHJOB))
        self.config_map: dict[str, Any] | None = None
        self.jobs: list[dict[str, Any]] = []
        self.pods: list[dict[str, Any]] = []
        self.now = BEGIN
        self._memory = Memory()

    def pass_time(self, **units: float) -> None:
        self.now += timedelta(**units)

    def look(self) -> None:
        """One pass of the controller, and what it asks for is done."""
        self._memory.remember(
            Reading(
                identity=parsing.parse_identity(self.batchjob),
                batchjob=self.batchjob,
                config_map=parsing.parse_config_map(self.config_map),
                jobs=parsing.parse_jobs(self.jobs),
                pods=parsing.parse_pods(self.pods),
                occurrences=(),
                nodes_ready={},
                at=self.now,
            )
        )
        self._memory.take_sample(self.now)
        plan = reconcile(self._memory.observed("kube-system-uid"), self.now, Settings())
        for action in plan.actions:
            if isinstance(action, CreateConfigMap):
                self.config_map = self._created(action.manifest)
            elif isinstance(action, CreateJob):
                self.jobs.append(self._created(action.manifest))
        if plan.status is not None:
            self.batchjob["status"] = new_status.as_written(plan.status)

    def hear(self, *reports: Progress) -> None:
        self._memory.hear(reports, self.now)

    def _created(self, manifest: dict[str, Any]) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        metadata = {**manifest["metadata"], "uid": f"uid-of-{name}", "creationTimestamp": self._time()}
        return {**manifest, "metadata": metadata}

    def _time(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def run_pod(self, job: dict[str, Any], number: int, index: int | None = None) -> dict[str, Any]:
        """A pod of a Job that runs."""
        template, owner = job["spec"]["template"], job["metadata"]
        annotations = {"batch.kubernetes.io/job-completion-index": str(index)} if index is not None else {}
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": owner["namespace"],
                "name": f"{owner['name']}-{number}",
                "uid": f"uid-of-{owner['name']}-{number}",
                "creationTimestamp": self._time(),
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
                    | {name: owner[name] for name in ("name", "uid")}
                ],
            },
            "spec": {**template["spec"], "nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "podIP": f"10.0.0.{number + 1}",
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "worker", "state": {"running": {"startedAt": self._time()}}}],
            },
        }
        self.pods.append(pod)
        job.setdefault("status", {}).update({"active": 1, "ready": 1})
        return pod

    def end_pod(self, pod: dict[str, Any], report: Report, code: int = 0) -> None:
        """Its container ends with these last words."""
        started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        terminated = {"exitCode": code, "startedAt": started, "finishedAt": self._time()}
        terminated |= {"reason": "Error" if code else "Completed", "message": encode_report(report)}
        pod["status"]["containerStatuses"][0]["state"] = {"terminated": terminated}
        pod["status"]["phase"] = "Failed" if code else "Succeeded"

    def complete(self, job: dict[str, Any]) -> None:
        condition = {"type": "Complete", "status": "True", "lastTransitionTime": self._time()}
        job["status"] = {"succeeded": 1, "conditions": [condition]}


def worked(index: int, completed: int, failed: int = 0, shards: int = 0) -> Progress:
    return Progress(
        index=index,
        run=1,
        completed=completed,
        failed=failed,
        shards_completed=shards,
        shards_active=1,
        usage=Usage(input_tokens=10 * completed, output_tokens=20 * completed, total_tokens=30 * completed),
        finish_reasons={"stop": completed},
    )


def mid_run() -> Cluster:
    """One worker was interrupted and has a successor, the other one works on."""
    cluster = Cluster()
    cluster.look()
    plan_pod = cluster.run_pod(cluster.jobs[0], 0)
    cluster.pass_time(seconds=5)
    cluster.look()
    cluster.end_pod(plan_pod, PLANNED)
    cluster.complete(cluster.jobs[0])
    cluster.look()
    run = cluster.jobs[1]
    first = cluster.run_pod(run, 0, index=0)
    cluster.run_pod(run, 1, index=1)
    cluster.look()
    cluster.pass_time(seconds=20)
    cluster.hear(worked(0, 700), worked(1, 900, failed=3))
    cluster.look()
    cluster.pass_time(seconds=20)
    cluster.end_pod(first, InterruptedReport(progress=worked(0, 1100, failed=1, shards=1), message="stopped"), 10)
    cluster.run_pod(run, 2, index=0)
    cluster.hear(worked(1, 1400, failed=4, shards=1))
    cluster.look()
    return cluster


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(f"recording what {batchwright.__file__} decides")
    folder.mkdir(parents=True, exist_ok=True)
    cluster = mid_run()
    objects = {"batchjob": cluster.batchjob, "config-map": cluster.config_map}
    for name, content in {**objects, "jobs": cluster.jobs, "pods": cluster.pods}.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
