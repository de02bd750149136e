"""Objects of the API server as views."""

from datetime import UTC, datetime
from typing import Any

import pytest

from batchwright.api.reports import Progress, encode_report
from batchwright.api.undone import Undone
from batchwright.controller.core import parsing
from batchwright.controller.core.observed import JobEnd, Stage, Waiting

AT = "2026-03-01T12:00:00Z"
MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
LABELS = {"batchwright.dev/stage": "run", "batchwright.dev/run": "2", "batchwright.dev/attempt": "1"}


def pod(status: dict[str, Any], **metadata: Any) -> Any:
    raw = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "labels": LABELS,
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
            "ownerReferences": [{"uid": "job", "controller": True}],
            "creationTimestamp": AT,
            **metadata,
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    }
    (view,) = parsing.parse_pods([raw])
    return view


def container(state: dict[str, Any]) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "worker", "state": state}]}


def test_a_pod_is_placed_by_its_labels() -> None:
    view = pod({"phase": "Pending", "podIP": "10.0.0.7"})
    assert (view.stage, view.run, view.index, view.job_uid) == (Stage.RUN, 2, 3, "job")
    assert (view.node, view.address, view.started) == ("node-1", "10.0.0.7", False)


def test_the_last_words_of_a_container_are_read() -> None:
    report = Progress(index=3, run=2, completed=5)
    ended = {"exitCode": 0, "finishedAt": AT, "startedAt": AT, "reason": "Completed", "message": encode_report(report)}
    view = pod(container({"terminated": ended}))
    assert view.termination.report == report
    assert (view.termination.exit_code, view.termination.at, view.started) == (0, MOMENT, True)


@pytest.mark.parametrize("message", ["", "Traceback", '{"kind": "unknown"}', None])
def test_last_words_that_are_none_of_ours_are_none(message: str | None) -> None:
    view = pod(container({"terminated": {"exitCode": 1, "message": message}}))
    assert view.termination.report is None


def test_a_container_of_a_sidecar_says_nothing() -> None:
    view = pod({"phase": "Running", "containerStatuses": [{"name": "proxy", "state": {"running": {}}}]})
    assert view.started is False


def test_why_a_container_waits_is_read() -> None:
    view = pod(container({"waiting": {"reason": "ImagePullBackOff", "message": "m"}}))
    assert view.waiting == Waiting("ImagePullBackOff", "m")


def test_conditions_of_a_pod_are_read() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "False", "message": "no room"},
        {"type": "Ready", "status": "True"},
    ]
    view = pod({"conditions": conditions}, deletionTimestamp=AT)
    assert (view.unschedulable, view.ready, view.delete_by) == ("no room", True, MOMENT)


@pytest.mark.parametrize(
    ("conditions", "end"),
    [
        ([], None),
        ([{"type": "Suspended", "status": "True"}], None),
        ([{"type": "SuccessCriteriaMet", "status": "True"}], None),
        ([{"type": "Complete", "status": "True", "lastTransitionTime": AT}], JobEnd(True, MOMENT)),
        (
            [
                {"type": "FailureTarget", "status": "True"},
                {"type": "Failed", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": AT},
            ],
            JobEnd(False, MOMENT, "r", "m"),
        ),
    ],
)
def test_the_end_of_a_job_is_its_terminal_condition(conditions: list[dict[str, Any]], end: JobEnd | None) -> None:
    (view,) = parsing.parse_jobs(
        [{"metadata": {"name": "j", "uid": "u", "labels": LABELS}, "status": {"conditions": conditions}}]
    )
    assert view.end == end


@pytest.mark.parametrize(
    ("code", "undone"), [("batch_expired", Undone.EXPIRED), ("batch_vanished", Undone.FAILED), (None, None)]
)
def test_a_code_that_only_a_newer_operator_knows_still_means_a_stop(code: str | None, undone: Undone | None) -> None:
    annotations = {"batchwright.dev/undone": code} if code else None
    metadata = {"name": "j", "uid": "u", "labels": LABELS, "annotations": annotations}
    (job,) = parsing.parse_jobs([{"metadata": metadata}])
    assert job.undone == undone


def test_objects_without_our_labels_are_none_of_ours() -> None:
    assert parsing.parse_jobs([{"metadata": {"name": "j", "uid": "u", "labels": {"app": "x"}}}]) == ()


def test_a_spec_that_cannot_be_read_names_the_field() -> None:
    spec = {"input": {"uri": "s3://bucket/x"}, "output": {"uri": "s3://bucket/"}, "server": {"headers": {"a b": "c"}}}
    parsed, problem = parsing.parse_spec({"spec": spec})
    assert parsed is None
    assert problem.startswith("spec.server")


@pytest.mark.parametrize(
    ("raw", "ready"),
    [
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_node_that_is_not_heard_is_not_ready(raw: Any, ready: bool) -> None:
    assert parsing.node_is_ready(raw) is ready


def test_only_warnings_are_occurrences() -> None:
    events = [
        {
            "type": "Warning",
            "reason": "FailedMount",
            "message": "m",
            "involvedObject": {"uid": "u"},
            "lastTimestamp": AT,
        },
        {"type": "Normal", "reason": "Pulled", "message": "m", "involvedObject": {"uid": "u"}},
    ]
    (found,) = parsing.parse_occurrences(events)
    assert (found.uid, found.reason, found.at) == ("u", "FailedMount", MOMENT)


def test_an_event_that_comes_again_and_again_has_its_first_time() -> None:
    event = {"type": "Warning", "count": 99, "firstTimestamp": "2026-03-01T11:00:00Z", "lastTimestamp": AT}
    (found,) = parsing.parse_occurrences([event])
    assert found.at == MOMENT
    assert found.first_at == MOMENT.replace(hour=11, minute=0, second=0)
