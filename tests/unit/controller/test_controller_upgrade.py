"""A BatchJob that the controller of an earlier version left in mid-run goes on under this one."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from batchwright.api.conditions import Phase
from batchwright.api.reports import Progress, encode_report
from batchwright.controller.core import new_status, parsing
from batchwright.controller.core.plan_of_actions import CreateConfigMap, CreateJob, Plan, UpdateConfigMap
from batchwright.controller.core.reconcile import reconcile
from batchwright.controller.memory import Memory, Reading
from batchwright.controller.settings import Settings

RECORDED: Final = Path(__file__).parents[2] / "recorded"
LATER: Final = datetime(2026, 3, 1, 12, 0, 50, tzinfo=UTC)


@pytest.fixture(params=sorted(path.name for path in RECORDED.iterdir() if (path / "cluster").is_dir()))
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The API objects as a version left them, by kind."""
    folder = RECORDED / request.param / "cluster"
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def look(objects: dict[str, Any]) -> Plan:
    """What a controller that has just started makes of them."""
    memory = Memory()
    memory.remember(
        Reading(
            identity=parsing.parse_identity(objects["batchjob"]),
            batchjob=objects["batchjob"],
            config_map=parsing.parse_config_map(objects["config-map"]),
            jobs=parsing.parse_jobs(objects["jobs"]),
            pods=parsing.parse_pods(objects["pods"]),
            occurrences=(),
            nodes_ready={},
            at=LATER,
        )
    )
    memory.take_sample(LATER)
    return reconcile(memory.observed("kube-system-uid"), LATER, Settings())


def status_after(objects: dict[str, Any]) -> dict[str, Any]:
    plan = look(objects)
    return new_status.as_written(plan.status) if plan.status is not None else objects["batchjob"]["status"]


def test_no_job_is_made_anew_nor_deleted(recorded: dict[str, Any]) -> None:
    for action in look(recorded).actions:
        assert isinstance(action, UpdateConfigMap), "workers may be told more than before, and nothing else happens"


def test_no_field_is_lost_and_no_count_falls(recorded: dict[str, Any]) -> None:
    before, after = recorded["batchjob"]["status"], status_after(recorded)
    momentary = {"message", "rate", "eta", "estimatedCompletionTime", "progress", "conditions", "shards"}
    assert {name: after.get(name) for name in before.keys() - momentary} == {
        name: before[name] for name in before.keys() - momentary
    }
    assert after["progress"] == before["progress"]
    assert after["shards"]["completed"] == before["shards"]["completed"]
    assert [one["type"] for one in after["conditions"]] == [one["type"] for one in before["conditions"]]


def test_it_goes_on_to_the_merge(recorded: dict[str, Any]) -> None:
    run = next(one for one in recorded["jobs"] if one["spec"].get("completionMode") == "Indexed")
    for pod in recorded["pods"]:
        if pod["status"]["phase"] == "Running":
            index = int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
            word = encode_report(Progress(index=index, run=1, completed=1990 + index, failed=9, shards_completed=2))
            terminated = {"exitCode": 0, "finishedAt": "2026-03-01T12:00:49Z", "message": word}
            pod["status"] |= {
                "phase": "Succeeded",
                "containerStatuses": [{"name": "worker", "state": {"terminated": terminated}}],
            }
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T12:00:49Z"}
    run["status"] = {"succeeded": 2, "conditions": [ended]}
    plan = look(recorded)
    made = [action.manifest["metadata"]["name"] for action in plan.actions if isinstance(action, CreateJob)]
    assert len(made) == 1
    assert "merge" in made[0]
    assert not any(isinstance(action, CreateConfigMap) for action in plan.actions)
    assert plan.status is not None
    assert plan.status.phase is Phase.FINALIZING
    assert plan.status.fingerprint == recorded["batchjob"]["status"]["fingerprint"]
