"""Gather, apply, poll, sweep and the probes around the pure core."""

import asyncio
import contextlib
import gzip
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from batchwright.api.conditions import Phase
from batchwright.api.reports import InterruptedReport, Progress
from batchwright.api.status import BatchJobStatus, Condition, RequestCounts
from batchwright.controller import handlers, metrics
from batchwright.controller.apply import Applier, merge_patch
from batchwright.controller.core import new_status, retention
from batchwright.controller.core.observed import Observed, Refusal
from batchwright.controller.core.plan_of_actions import CreateJob, Plan
from batchwright.controller.gather import Gatherer
from batchwright.controller.health import Health
from batchwright.controller.loop import Loops
from batchwright.controller.memory import Memory, Reading
from batchwright.controller.poll import Budget, Poller, due_pods
from batchwright.controller.settings import Settings
from batchwright.kube import errors
from builders import IDENTITY, NOW, ago, job, spec_of

RAW = {
    "metadata": {
        "namespace": IDENTITY.namespace,
        "name": IDENTITY.name,
        "uid": IDENTITY.uid,
        "generation": 1,
        "creationTimestamp": "2026-03-01T11:59:00Z",
    },
    "spec": spec_of(),
}


class TestMergePatch:
    @pytest.mark.parametrize(
        ("before", "after", "patch"),
        [
            ({}, {}, {}),
            ({"a": 1}, {"a": 1}, {}),
            ({"a": 1}, {"a": 2}, {"a": 2}),
            ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
            ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"a": {"y": None}}),
            ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
            ({"a": {"x": 1}}, {"a": [1]}, {"a": [1]}),
            ({}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ],
    )
    def test_only_what_differs_is_sent_and_what_is_gone_is_null(
        self, before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
    ) -> None:
        assert merge_patch(before, after) == patch


class Api:
    """BatchJobs and children as the API would give them, and a record of the calls."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"get": RAW, "jobs": [], "pods": [], "config_map": None, "events_of": [], "node": None} | answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **_: Any) -> Any:
            self.calls.append((name, arguments))
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


def raw_child(name: str, created: datetime, stage: str = "plan", **rest: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"batchwright.dev/stage": stage},
            "creationTimestamp": created.isoformat(),
            "ownerReferences": [{"uid": "uid-job", "controller": True}],
            **rest.pop("metadata", {}),
        },
        **rest,
    }


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


class TestApply:
    OBSERVED = Observed(IDENTITY, None)
    PLAN = Plan(actions=(CreateJob({"kind": "Job", "metadata": {"name": "j"}}),))

    def act(self, error: Exception | None, observed: Observed = OBSERVED) -> tuple[Refusal, ...]:
        api: Any = Api(create_job=error)
        return Applier(api, api).act(observed, self.PLAN, NOW)

    @pytest.mark.parametrize(
        "error", [errors.Refused("exceeded quota", status=403), errors.Unavailable("webhook failed", status=500)]
    )
    def test_a_refused_child_is_told_to_the_next_look(self, error: Exception) -> None:
        (refusal,) = self.act(error)
        assert refusal.child == "Job j in namespace demo"
        assert refusal.since == NOW

    def test_it_is_refused_since_the_first_time(self) -> None:
        known = Refusal("Job j in namespace demo", "before", ago(minutes=5))
        (refusal,) = self.act(errors.Refused("now", status=403), replace(self.OBSERVED, refusals=(known,)))
        assert (refusal.message, refusal.since) == ("now", known.since)

    def test_a_child_that_is_being_deleted_is_no_refusal(self) -> None:
        assert self.act(errors.BeingDeleted("going")) == ()

    def test_no_answer_is_an_error_of_the_pass(self) -> None:
        with pytest.raises(errors.Unavailable):
            self.act(errors.Unavailable("no answer"))

    def test_the_status_is_written_as_a_difference(self) -> None:
        api: Any = Api(patch_status={})
        before = BatchJobStatus(phase=Phase.PENDING, eta="3m")
        Applier(api, api).write_status(
            replace(self.OBSERVED, status=before), BatchJobStatus(phase=Phase.FAILED, message="m")
        )
        ((namespace, name, uid, changes),) = api.called("patch_status")
        assert (namespace, name, uid) == ("demo", "nightly", IDENTITY.uid)
        assert changes == {"phase": "failed", "message": "m", "eta": None}


class TestMemory:
    def reading(self, **fields: Any) -> Reading:
        nothing: dict[str, Any] = {"config_map": None, "jobs": (), "pods": (), "occurrences": (), "nodes_ready": {}}
        return Reading(IDENTITY, fields.pop("batchjob", RAW), **(nothing | {"at": NOW} | fields))

    def test_progress_is_taken_from_the_pods_last_words(self) -> None:
        run = (
            job("run", 1)
            .ended_pod(InterruptedReport(progress=Progress(index=0, run=1, completed=5)), code=10, index=0)
            .ended_pod(Progress(index=0, run=1, completed=9), index=0)
            .ended_pod(Progress(index=1, run=1, completed=1), index=1)
        )
        memory = Memory()
        memory.remember(self.reading(pods=run.pods))
        assert [report.completed for report in memory.progress] == [9, 1]

    def test_before_all_workers_are_heard_the_published_count_is_the_sample(self) -> None:
        status = BatchJobStatus(request_counts=RequestCounts(total=100, completed=50))
        memory = Memory()
        memory.remember(self.reading(batchjob={**RAW, "status": new_status.as_written(status)}))
        memory.add_progress((Progress(index=0, run=1, completed=20),))
        memory.take_sample(NOW)
        assert memory.samples[-1].done == 50


class TestPolling:
    def test_the_budget_is_refilled_by_the_second(self) -> None:
        budget = Budget(10)
        assert budget.take(25, NOW) == 10
        assert budget.take(5, NOW) == 0
        assert budget.take(5, NOW + timedelta(seconds=0.3)) == 3
        assert budget.take(50, NOW + timedelta(hours=1)) == 10

    def test_the_longest_unasked_worker_comes_first(self) -> None:
        pods = (
            job("run", 1)
            .running_pod(uid="asked", address="a", index=0)
            .running_pod(uid="just", address="b", index=1)
            .running_pod(uid="never", address="c", index=2)
            .pod(uid="pending", address="d", index=3)
            .running_pod(uid="no-address", index=4)
            .pods
        )
        asked = {"asked": ago(seconds=5), "just": ago(seconds=1)}
        assert [pod.uid for pod in due_pods(pods, asked, NOW, timedelta(seconds=2))] == ["never", "asked"]

    REPORT = b'{"kind":"progress","version":1,"index":0,"run":1,"completed":7}'

    @pytest.mark.parametrize(
        ("head", "body", "heard"),
        [
            (b"200 OK", REPORT, True),
            (b"200 OK", REPORT.replace(b'"index":0', b'"index":5'), False),
            (b"200 OK", b"<html>", False),
            (b"200 OK", b"\xff" + REPORT, False),
            (b"200 OK", REPORT + b" " * 64 * 1024, False),
            (b"200 OK\r\nContent-Encoding: gzip", gzip.compress(REPORT), False),
            (b"302 Found\r\nLocation: /progress", REPORT, False),
            (b"503 Service Unavailable", REPORT, False),
        ],
        ids=["report", "of another index", "nonsense", "no text", "too long", "packed", "redirect", "error"],
    )
    async def test_a_worker_is_asked_over_http(
        self, monkeypatch: pytest.MonkeyPatch, head: bytes, body: bytes, heard: bool
    ) -> None:
        asked = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            length = b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
            with contextlib.suppress(ConnectionError):
                writer.write(b"HTTP/1.1 " + head + length + body)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        monkeypatch.setattr("batchwright.api.names.WORKER_PORT", server.sockets[0].getsockname()[1])
        poller, memory = Poller(Settings()), Memory()
        run = job("run", 1).running_pod(address="127.0.0.1", index=0)
        memory.remember(TestMemory().reading(pods=run.pods))
        await poller.poll(memory, NOW)
        assert [report.completed for report in memory.progress] == ([7] if heard else [])
        assert len(asked) == 1
        assert b"accept-encoding: identity" in asked[0].lower()
        await poller.close()
        server.close()
        await server.wait_closed()


class TestHealth:
    def health(self) -> tuple[Health, list[float]]:
        clock = [1000.0]
        return Health(60, clock=lambda: clock[0]), clock

    def test_a_loop_that_does_not_come_back_is_a_problem(self) -> None:
        health, clock = self.health()
        health.swept([], [])
        health.loop_waits("u", 60)
        clock[0] += 230
        assert health.problem() is None
        clock[0] += 20
        assert "loops hang" in (health.problem() or "")
        health.loop_ended("u")
        assert health.problem() is None

    def test_active_batchjobs_without_a_loop_are_a_problem(self) -> None:
        health, _ = self.health()
        for _ in range(2):
            health.swept(["u"], [])
        assert health.problem() is None
        health.swept(["u"], [])
        assert "watch is dead" in (health.problem() or "")
        health.swept(["u"], ["u"])
        assert health.problem() is None

    def test_it_is_ready_while_the_api_answers(self) -> None:
        health, clock = self.health()
        assert not health.ready()
        health.swept([], [])
        assert health.ready()
        clock[0] += 200
        assert not health.ready()
        assert health.problem() is None
        clock[0] += 400
        assert "could not be listed" in (health.problem() or "")


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


class Stop:
    """A flag that a loop ends on."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def is_set(self) -> bool:
        return self.event.is_set()

    def wait(self) -> Any:
        return self.event.wait()


class TestLoop:
    def loops(self, api: Any) -> Loops:
        settings = Settings(concurrency=2)
        return Loops(
            gatherer=Gatherer(api, api, settings),
            applier=Applier(api, api),
            events=api,
            poller=Poller(settings),
            health=Health(60),
            settings=settings,
            cluster="c",
        )

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def test_a_new_batchjob_gets_its_children_and_its_status(self) -> None:
        api = Api(patch_status=RAW)
        loops, stop = self.loops(api), Stop()
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await self.until(lambda: api.called("patch_status"))
        assert api.called("create_config_map")
        assert api.called("create_job")
        assert loops.active == {IDENTITY.uid}
        stop.event.set()
        await task
        assert loops.active == frozenset()
        loops.close()

    @pytest.mark.parametrize(
        "error", [errors.Unavailable("no answer"), errors.Refused("forbidden", status=403), KeyError("a bug")]
    )
    async def test_whatever_goes_wrong_is_tried_again(self, error: Exception) -> None:
        api = Api(get=error, patch_status=RAW)
        loops, stop = self.loops(api), Stop()
        failed = metrics.RECONCILE_ERRORS._value.get()
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await self.until(lambda: metrics.RECONCILE_ERRORS._value.get() > failed)
        api.answers["get"] = RAW
        loops.wake(IDENTITY.uid)
        await self.until(lambda: api.called("patch_status"))
        stop.event.set()
        await task
        loops.close()

    async def test_everything_is_read_anew_at_the_resync_interval(self) -> None:
        clock = [NOW]
        run = {"batchwright.dev/stage": "run", "batchwright.dev/run": "1"}
        started = {"name": "worker", "state": {"running": {"startedAt": NOW.isoformat()}}}
        status = new_status.as_written(BatchJobStatus(fingerprint="f", request_counts=RequestCounts(total=1)))
        api = Api(
            get={**RAW, "status": status},
            patch_status={**RAW, "status": status},
            jobs=[raw_child("job", NOW, metadata={"uid": "uid-job", "labels": run})],
            pods=[
                raw_child(
                    "pod",
                    NOW,
                    metadata={"labels": run},
                    status={"phase": "Running", "containerStatuses": [started]},
                )
            ],
        )
        loops = self.loops(api)
        loops._clock = lambda: clock[0]
        memory = Memory()
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        ((_, _, manifest),) = api.called("create_config_map")
        api.answers["config_map"] = {**manifest, "metadata": {**manifest["metadata"], "uid": "c"}}
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        settled = len(api.called("jobs"))
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        assert len(api.called("jobs")) == settled
        clock[0] += timedelta(minutes=1)
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        assert len(api.called("jobs")) == settled + 1
        loops.close()

    async def test_a_loop_that_hangs_in_its_first_pass_is_a_problem(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [1000.0]
        loops, stop, entered = self.loops(Api()), Stop(), asyncio.Event()
        health = loops._health = Health(60, clock=lambda: clock[0])
        health.swept([], [])

        async def hang(*_: Any) -> float:
            entered.set()
            await asyncio.Event().wait()
            return 0

        monkeypatch.setattr(loops, "_guarded_pass", hang)
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await asyncio.wait_for(entered.wait(), 20)
        assert health.problem() is None
        clock[0] += 200
        assert "loops hang" in (health.problem() or "")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert health.problem() is None
        loops.close()

    async def test_only_a_change_of_the_spec_wakes_the_loop(self) -> None:
        api = Api(patch_status=RAW)
        loops, stop = self.loops(api), Stop()
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await self.until(lambda: api.called("patch_status"))
        memory = loops._memories[IDENTITY.uid]
        loops.wake_for_spec(IDENTITY.uid, 1, deleting=False)
        assert not memory.wake.is_set()
        loops.wake_for_spec(IDENTITY.uid, 2, deleting=False)
        assert memory.wake.is_set()
        stop.event.set()
        await task
        loops.close()
