"""Reading a BatchJob and its children, and what is kept of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from batchwright.api.reports import InterruptedReport, Progress
from batchwright.api.status import BatchJobStatus, Condition, RequestCounts, Reused
from batchwright.controller import handlers
from batchwright.controller.core import new_status, retention
from batchwright.controller.gather import Gatherer
from batchwright.controller.memory import Memory, Reading
from batchwright.controller.settings import Settings
from builders import IDENTITY, NOW, ago, job
from fixtures.kubernetes_api import RAW, Api, raw_child, reading

RUN_LABELS = {"batchwright.dev/stage": "run", "batchwright.dev/run": "1"}


class TestGather:
    def read(self, api: Api) -> Reading | None:
        gatherer = Gatherer(api, api, Settings())
        return gatherer.read(IDENTITY.namespace, IDENTITY.name, IDENTITY.uid, NOW)

    def test_jobs_are_read_before_their_pods(self) -> None:
        api = Api()
        reading = self.read(api)
        assert reading is not None
        assert reading.identity == IDENTITY
        assert [name for name, _ in api.calls] == ["get", "config_map", "jobs", "pods"]

    def test_another_batchjob_of_the_same_name_is_not_ours(self) -> None:
        other = {**RAW, "metadata": {**RAW["metadata"], "uid": "other"}}
        assert self.read(Api(get=other)) is None

    @pytest.mark.parametrize(
        ("age", "pods", "asked"),
        [
            (1, [], []),
            (10, [], ["uid-job"]),
            (10, [raw_child("pod", ago(seconds=1))], []),
            (10, [raw_child("pod", ago(seconds=9))], ["uid-pod"]),
        ],
        ids=["young", "no pod", "pod is young", "pod does not start"],
    )
    def test_events_are_read_only_about_what_does_not_start(
        self, age: int, pods: list[dict[str, Any]], asked: list[str]
    ) -> None:
        api = Api(jobs=[raw_child("job", ago(seconds=age))], pods=pods)
        self.read(api)
        assert [arguments[1] for arguments in api.called("events_of")] == asked

    def test_a_node_is_read_only_for_a_pod_that_should_have_ended(self) -> None:
        late = raw_child(
            "pod",
            ago(hours=1),
            metadata={"deletionTimestamp": ago(minutes=5).isoformat()},
            spec={"nodeName": "node-2"},
            status={"phase": "Running"},
        )
        api = Api(pods=[late])
        reading = self.read(api)
        assert reading is not None
        assert reading.nodes_ready == {"node-2": False}
        assert Api(pods=[]).called("node") == []

    @pytest.mark.parametrize(
        ("phase", "deleted", "asked"), [("Failed", True, 1), ("Running", True, 0), ("Failed", False, 0)]
    )
    def test_a_namespace_is_read_only_for_a_pod_that_is_kept_beyond_its_end(
        self, phase: str, deleted: bool, asked: int
    ) -> None:
        deletion = {"deletionTimestamp": NOW.isoformat()} if deleted else {}
        run = raw_child("run", ago(hours=1), "run", metadata={"uid": "uid-job", "labels": RUN_LABELS})
        pod = raw_child(
            "pod", ago(hours=1), "run", metadata={"labels": RUN_LABELS, **deletion}, status={"phase": phase}
        )
        api = Api(jobs=[run], pods=[pod], namespace_is_terminating=True)
        reading = self.read(api)
        assert reading is not None
        assert reading.namespace_terminating is bool(asked)
        assert len(api.called("namespace_is_terminating")) == asked


class TestMemory:
    def test_progress_is_taken_from_the_pods_last_words(self) -> None:
        run = (
            job("run", 1)
            .ended_pod(InterruptedReport(progress=Progress(index=0, run=1, completed=5)), code=10, index=0)
            .ended_pod(Progress(index=0, run=1, completed=9), index=0)
            .ended_pod(Progress(index=1, run=1, completed=1), index=1)
        )
        memory = Memory()
        memory.remember(reading(pods=run.pods))
        assert [report.completed for report in memory.progress] == [9, 1]

    def test_before_all_workers_are_heard_the_published_count_is_the_sample(self) -> None:
        status = BatchJobStatus(request_counts=RequestCounts(total=100, completed=50))
        assert self.sampled(status, completed=20) == [50]

    def test_what_stands_from_an_earlier_batchjob_is_in_each_sample_so_that_it_makes_no_rate(self) -> None:
        reused = Reused(completed=70, failed=5)
        status = BatchJobStatus(request_counts=RequestCounts(total=100), reused=reused)
        assert self.sampled(status, completed=20) == [95]

    @staticmethod
    def sampled(status: BatchJobStatus, completed: int) -> list[int]:
        memory = Memory()
        memory.remember(reading(batchjob={**RAW, "status": new_status.as_written(status)}))
        memory.add_progress((Progress(index=0, run=1, completed=completed),))
        memory.take_sample(NOW)
        return [sample.done for sample in memory.samples]


class TestRetention:
    @pytest.mark.parametrize(
        ("kind", "status", "ttl", "due"),
        [
            ("Complete", "True", 60, NOW + timedelta(seconds=60)),
            ("Failed", "True", 0, NOW),
            ("Complete", "True", None, None),
            ("Reconciling", "True", 60, None),
            ("Complete", "True", 2**31 - 1, NOW + timedelta(seconds=2**31 - 1)),
        ],
    )
    def test_the_time_runs_from_the_end(self, kind: str, status: str, ttl: int | None, due: datetime | None) -> None:
        condition = Condition.model_validate(
            {
                "type": kind,
                "status": status,
                "reason": "R",
                "message": "",
                "observedGeneration": 1,
                "lastTransitionTime": NOW,
            }
        )
        assert retention.delete_at(BatchJobStatus(conditions=[condition]), ttl) == due


class TestNeedsAttention:
    @pytest.mark.parametrize(
        ("status", "needs"),
        [
            ({}, True),
            ({"observedGeneration": 1, "conditions": [{"type": "Reconciling", "status": "True"}]}, True),
            ({"observedGeneration": 1, "conditions": [{"type": "Complete", "status": "True"}]}, False),
            ({"observedGeneration": 1, "conditions": [{"type": "Failed", "status": "True"}]}, False),
            ({"observedGeneration": 0, "conditions": [{"type": "Failed", "status": "True"}]}, True),
        ],
    )
    def test_a_finished_batchjob_has_no_loop_until_its_spec_changes(self, status: dict[str, Any], needs: bool) -> None:
        assert handlers.needs_attention({**RAW, "status": status}) is needs
