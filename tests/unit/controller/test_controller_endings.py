"""What people read about pods that ended without a report, from the objects as the API server sends them."""

from typing import Any

import pytest

from batchwright.api import names
from batchwright.api.conditions import Reason
from batchwright.api.reports import encode_report
from batchwright.controller.core import endings, reports
from batchwright.controller.core.observed import Disruption, PodView
from batchwright.controller.core.parsing import parse_pods
from batchwright.controller.core.resources import doubled
from builders import IDENTITY, batchjob, job
from fixtures.reconciling import failure

AT = "2026-03-01T11:59:00Z"
NEVER = "1970-01-01T00:00:00Z"


def pod(terminated: dict[str, Any] | None = None, *, stage: str = "run", memory: str = "", **status: Any) -> PodView:
    """A pod that the API server might send, ended by what `terminated` says."""
    state = {"terminated": {"exitCode": 1, "finishedAt": AT, "startedAt": AT, **terminated}} if terminated else {}
    container = {"name": names.CONTAINER, "resources": {"limits": {"memory": memory} if memory else {}}}
    raw = {
        "metadata": {
            "name": "worker-0",
            "uid": "u",
            "labels": {names.LABEL_STAGE: stage, names.LABEL_RUN: "1"},
            "creationTimestamp": AT,
            "ownerReferences": [{"uid": job("run", 1).view.uid, "controller": True}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "sidecar"}, container]},
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": names.CONTAINER, "state": state}],
            **status,
        },
    }
    (view,) = parse_pods([raw])
    return view


def told(view: PodView, **worker: Any) -> str:
    """What is told of a pod."""
    builder = batchjob().planned().with_job(job("run", 1)).with_(pods=(view,))
    observed = (builder.with_spec(worker=worker) if worker else builder).build()
    found = reports.last_failure(observed, observed.jobs[0], Reason.RUN_FAILED)
    return found.message if found else ""


def target(reason: str, message: str = "") -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


class TestMemory:
    def test_the_limit_is_named_and_a_greater_one(self) -> None:
        text = told(pod({"exitCode": 137, "reason": "OOMKilled"}, memory="512Mi"))
        assert "pod worker-0 was killed (OOMKilled): it needed more memory than its limit of 512Mi" in text
        assert "raise spec.worker.resources.limits.memory, to 1Gi for instance" in text
        assert "spec.requests.maxConcurrency" in text

    def test_a_plan_sends_no_requests(self) -> None:
        assert "maxConcurrency" not in told(pod({"reason": "OOMKilled"}, stage="plan", memory="512Mi"))

    def test_without_a_limit_the_node_had_no_more(self) -> None:
        assert "than its limit: raise" in told(pod({"reason": "OOMKilled"}))

    @pytest.mark.parametrize(
        ("limit", "twice"),
        [
            ("512Mi", "1Gi"),
            ("1Gi", "2Gi"),
            ("300Mi", "600Mi"),
            ("1500M", "3000000000"),
            ("3Ki", "6Ki"),
            ("1.5Gi", "3Gi"),
            ("many", ""),
            ("", ""),
        ],
    )
    def test_twice_as_much(self, limit: str, twice: str) -> None:
        assert doubled(limit) == twice


class TestImages:
    NOT_FOUND = 'unable to start container process: exec: "batchwright-worker": executable file not found in $PATH'

    @pytest.mark.parametrize(
        "terminated",
        [
            {"exitCode": 128, "reason": "StartError", "startedAt": NEVER, "message": NOT_FOUND},
            {"exitCode": 127, "reason": "ContainerCannotRun", "message": NOT_FOUND},
            {"exitCode": 127, "reason": "Error"},
            {"exitCode": 126, "reason": "Error"},
        ],
    )
    def test_one_without_the_worker_can_not_start(self, terminated: dict[str, Any]) -> None:
        view = pod(terminated)
        text = told(view)
        assert reports.cannot_start(view)
        assert "the image of pod worker-0 can't start" in text
        assert terminated.get("message", f"exit code {terminated['exitCode']}") in text
        assert "the operator's setting BATCHWRIGHT_WORKER_IMAGE" in text
        assert "set spec.worker.image" in told(view, image="mine:1")

    def test_one_for_another_processor_names_the_node(self) -> None:
        text = told(pod({"exitCode": 255, "message": "exec /usr/bin/batchwright-worker: exec format error"}))
        assert "It is built for another kind of processor than that of node node-1" in text

    def test_what_never_started_has_not_started(self) -> None:
        assert not pod({"exitCode": 128, "startedAt": NEVER}).started
        assert pod({"exitCode": 1}).started

    def test_a_worker_that_reports_its_failure_could_start(self) -> None:
        report = encode_report(failure(Reason.STORAGE_UNREACHABLE, "no route", final=False))
        view = pod({"exitCode": 127, "message": report})
        assert not reports.cannot_start(view)
        assert told(view) == "no route"


class TestOtherEnds:
    def test_the_end_of_the_log_is_told_in_one_line(self) -> None:
        text = told(pod({"exitCode": 1, "message": "Traceback\n  File x\nImportError: no module named y.\n"}))
        assert "exit code 1 and no report. Its log ends: ImportError: no module named y: see" in text
        assert f"kubectl -n {IDENTITY.namespace} logs worker-0" in text

    def test_a_long_line_is_cut(self) -> None:
        assert len(told(pod({"exitCode": 1, "message": "x" * 4000}))) < 500

    def test_a_worker_that_was_told_to_leave_tells_nothing(self) -> None:
        assert told(pod({"exitCode": 10})) == ""

    def test_one_that_is_done_is_no_failure_even_if_it_was_evicted_then(self) -> None:
        view = pod({"exitCode": 0}, phase="Succeeded", conditions=[target("EvictionByEvictionAPI")])
        assert told(view) == ""


class TestDisruptions:
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            ({"conditions": [target("EvictionByEvictionAPI", "Eviction API: evicting")]}, "was evicted: Eviction API"),
            ({"conditions": [target("PreemptionByScheduler")]}, "made room for a pod of higher priority"),
            (
                {"conditions": [target("DeletionByTaintManager", "NoExecute")]},
                "had to leave its node, which has a taint",
            ),
            ({"conditions": [target("DeletionByPodGC", "node is gone")]}, "was lost with its node: node is gone"),
            ({"conditions": [target("Else", "why")]}, "was ended (Else): why"),
            (
                {"reason": "Evicted", "message": "The node was low on resource: memory. "},
                "was evicted: The node was low",
            ),
            ({"reason": "OutOfcpu", "message": "Pod was rejected"}, "was ended (OutOfcpu): Pod was rejected"),
        ],
    )
    def test_the_cause_is_told_with_the_node(self, status: dict[str, Any], words: str) -> None:
        assert words in told(pod(**status))
        assert "pod worker-0 on node node-1" in told(pod(**status))
        assert words in told(pod({"exitCode": 10}, **status)), "also where the worker left in good order"

    def test_a_condition_that_is_not_true_is_none(self) -> None:
        assert pod(conditions=[target("X") | {"status": "False"}]).disruption is None

    def test_all_that_are_known_are_named_in_words(self) -> None:
        view = pod()
        for reason in endings._DISRUPTIONS:
            assert "(" not in endings.of_disrupted_pod(view, Disruption(reason))
