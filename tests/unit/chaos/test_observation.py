"""Reading the API's JSON, and what must hold from one look to the next."""

from typing import Any

import pytest

from chaos.observation import Job, snapshot
from chaos.script import Target
from chaos.watch import Watch
from fixtures.chaos import job, seen

BATCHJOB = {
    "metadata": {"name": "one", "uid": "u"},
    "spec": {"suspend": True},
    "status": {"phase": "in_progress", "requestCounts": {"total": 8, "completed": 1, "failed": 3}},
}


def worker(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "one-run-0",
            "namespace": "demo",
            "labels": {
                "app.kubernetes.io/name": "batchwright-worker",
                "batchwright.dev/stage": "run",
                "batch.kubernetes.io/job-completion-index": "1",
            },
            "annotations": {"batchwright.dev/batchjob-name": "one"},
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    }


RUNNING = {"containerStatuses": [{"containerID": "containerd://abc", "ready": True, "state": {"running": {}}}]}


def test_a_batchjob() -> None:
    one = snapshot([BATCHJOB], []).jobs["one"]
    assert (one.phase, one.done, one.total, one.progress) == ("in_progress", 4, 8, 0.5)
    assert (one.suspended, one.deleting, one.terminal) == (True, False, False)


def test_a_batchjob_that_is_new_has_no_status() -> None:
    one = snapshot([{"metadata": {"name": "one", "uid": "u"}, "spec": {}}], []).jobs["one"]
    assert (one.phase, one.progress) == ("", 0.0)


def test_a_worker() -> None:
    (one,) = snapshot([], [worker(**RUNNING)]).pods
    assert (one.target, one.container, one.running, one.ready) == (Target.WORKER, "abc", True, True)
    assert one.role == ("one", "run", "1")


def test_a_pod_that_leaves_is_neither_running_nor_ready() -> None:
    leaving = worker(**RUNNING)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (one,) = snapshot([], [leaving]).pods
    assert (one.running, one.ready) == (False, False)


@pytest.mark.parametrize("status", [{}, {"containerStatuses": [{"ready": False, "state": {"waiting": {}}}]}])
def test_a_pod_that_has_not_started(status: dict[str, Any]) -> None:
    (one,) = snapshot([], [worker(**status)]).pods
    assert (one.running, one.ready, one.container) == (False, False, "")


def test_pods_of_other_kinds_are_not_seen() -> None:
    stranger = worker(**RUNNING)
    stranger["metadata"]["labels"] = {"app.kubernetes.io/name": "database"}
    assert snapshot([], [stranger]).pods == ()


@pytest.mark.parametrize(
    ("before", "now", "wrong"),
    [
        (job(done=2), job(done=3), False),
        (job(done=3), job(done=2), True),
        (job(phase="completed"), job(phase="completed"), False),
        (job(phase="completed"), job(phase="in_progress"), True),
        (job(phase="cancelled"), job(phase="completed"), True),
        (job(phase="cancelling", done=3), job(phase="cancelled", done=2), False),
        (job(phase="completed"), job(phase="pending", uid="another"), False),
    ],
)
def test_terminal_states_stay_and_counts_of_live_ones_never_shrink(before: Job, now: Job, wrong: bool) -> None:
    watch = Watch()
    assert watch.see(seen(jobs=[before])) == []
    assert bool(watch.see(seen(jobs=[now]))) is wrong
