"""`reconcile` over random histories, against a small model of the API server, the Job controller and the kubelet.

Whatever happened before: applied twice it plans nothing new, an end is final, counts never fall, and once the world
behaves again, the BatchJob ends.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import (
    FailureReport,
    InterruptedReport,
    MergeReport,
    PlanReport,
    Progress,
    Report,
    ShardsMissingReport,
)
from batchwright.api.status import BatchJobStatus, RequestCounts, Usage
from batchwright.controller.core import conditions, counts, new_status, running
from batchwright.controller.core.observed import (
    ConfigMapView,
    JobEnd,
    JobView,
    Observed,
    PodView,
    Refusal,
    Sample,
    Stage,
    Termination,
    Waiting,
)
from batchwright.controller.core.parsing import parse_jobs
from batchwright.controller.core.plan_of_actions import (
    CreateConfigMap,
    CreateJob,
    DeleteJob,
    MarkPodFailed,
    Plan,
    SuspendJob,
    UpdateConfigMap,
)
from batchwright.controller.core.reconcile import reconcile
from batchwright.controller.settings import Settings
from builders import IDENTITY, NOW, spec_of

SETTINGS = Settings()
LINES, SHARDS = 400, 4
numbers = st.integers(0, 2**16)

Ending = tuple[int, Report | None]


def endings(stage: Stage, run: int, index: int) -> st.SearchStrategy[Ending]:
    """How a worker's container may end, with its report."""
    transient = FailureReport(reason=Reason.STORAGE_UNREACHABLE, final=False, message="no route")
    away = FailureReport(reason=Reason.SERVER_UNREACHABLE, final=False, message="refused")
    any_stage: list[Ending] = [
        (1, None),
        (1, transient),
        *([(1, away)] if stage is Stage.PLAN else []),
        (10, InterruptedReport()),
        (137, None),
        (21, FailureReport(reason=Reason.STORAGE_ACCESS_DENIED, message="s3:GetObject")),
    ]
    good: dict[Stage, Ending] = {
        Stage.PLAN: (0, PlanReport(fingerprint="f", plan_uri="s3://b/p", lines=LINES, shards=SHARDS, endpoint="/v1/x")),
        Stage.RUN: (0, Progress(index=index, run=run, completed=LINES // SHARDS, shards_completed=1)),
        Stage.MERGE: (1, ShardsMissingReport(count=1, shards="2")),
    }
    return st.sampled_from([*any_stage, (0, None), good[stage]])


class World:
    """The cluster as far as one BatchJob is concerned, and what its loop remembers."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.identity = IDENTITY
        self.spec = spec
        self.status = BatchJobStatus()
        self.now = NOW
        self.config_map: ConfigMapView | None = None
        self.jobs: dict[str, JobView] = {}
        self.pods: dict[str, PodView] = {}
        self.progress: tuple[Progress, ...] = ()
        self.samples: tuple[Sample, ...] = ()
        self.refusals: tuple[Refusal, ...] = ()
        self.last_status_write = None
        self.serial = 0

    def observed(self) -> Observed:
        return Observed(
            identity=self.identity,
            spec=BatchJobSpec.model_validate(self.spec),
            status=self.status,
            config_map=self.config_map,
            jobs=tuple(self.jobs.values()),
            pods=tuple(self.pods.values()),
            progress=self.progress,
            samples=self.samples,
            refusals=self.refusals,
            nodes_ready={"node": False},
            last_status_write=self.last_status_write,
            cluster="c",
        )

    def new_uid(self) -> str:
        self.serial += 1
        return f"uid-{self.serial}"

    def apply(self, plan: Plan) -> None:
        for action in plan.actions:
            match action:
                case CreateConfigMap(manifest):
                    self.config_map = ConfigMapView(manifest["metadata"]["name"], self.new_uid(), manifest["data"])
                case UpdateConfigMap(name, uid, data):
                    self.config_map = ConfigMapView(name, uid, data)
                case CreateJob(manifest):
                    self.create_job(manifest)
                case SuspendJob(name, _, suspended):
                    self.jobs[name] = replace(self.jobs[name], suspended=suspended, suspended_by_us=suspended)
                case DeleteJob(name, _):
                    self.jobs[name] = replace(self.jobs[name], deleting=True)
                case MarkPodFailed(name, _, _):
                    self.pods[name] = replace(self.pods[name], phase="Failed")
        if plan.status is not None:
            # As the API server gives it back.
            self.status = BatchJobStatus.model_validate(new_status.as_written(plan.status))
            self.last_status_write = self.now

    def create_job(self, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        assert name not in self.jobs, f"{name} is created although it is there"
        stored = {**manifest, "metadata": {**manifest["metadata"], "uid": self.new_uid()}}
        (job,) = parse_jobs([stored])
        self.jobs[name] = replace(job, created_at=self.now)

    def start_pod(self, job: JobView, index: int) -> None:
        uid = self.new_uid()
        self.pods[uid] = PodView(uid, uid, job.uid, job.stage, job.run, "Pending", self.now, index=index, node="node")

    def end_pod(self, uid: str, code: int, report: Report | None) -> None:
        phase = "Failed" if code else "Succeeded"
        termination = Termination(code, self.now, "", report)
        self.pods[uid] = replace(
            self.pods[uid], phase=phase, started_at=self.now, waiting=None, termination=termination
        )
        if isinstance(report, Progress):
            self.progress = counts.latest_of_each_worker((*self.progress, report))

    def good_report(self, pod: PodView) -> Report:
        match pod.stage:
            case Stage.PLAN:
                return PlanReport(fingerprint="f", plan_uri="", lines=LINES, shards=SHARDS, endpoint="/v1/x")
            case Stage.RUN:
                return Progress(index=pod.index or 0, run=pod.run, completed=LINES // SHARDS, shards_completed=1)
            case _:
                done = self.status.request_counts or RequestCounts()
                exact = RequestCounts(total=LINES, completed=LINES - done.failed, failed=done.failed)
                return MergeReport(request_counts=exact, usage=Usage())


def unobserved(status: BatchJobStatus) -> BatchJobStatus:
    """The status without the generation that it is of, which alone may change after the end."""
    conditions = [item.model_copy(update={"observed_generation": 0}) for item in status.conditions or []]
    return status.model_copy(update={"observed_generation": 0, "conditions": conditions})


class Histories(RuleBasedStateMachine):
    """Random things happen to the children; between them the controller looks, now and then."""

    @initialize(
        parallelism=st.integers(1, 3),
        window=st.sampled_from([None, "1h"]),
        queue=st.sampled_from([None, "batch"]),
        rounds=st.integers(0, 7),
    )
    def create(self, parallelism: int, window: str | None, queue: str | None, rounds: int) -> None:
        """Histories begin at any stage: chance alone would seldom get past the plan."""
        spec = spec_of(sharding={"parallelism": parallelism}, completionWindow=window, queueName=queue)
        self.world = World(spec)
        for _ in range(rounds):
            self.all_goes_well_for_a_while()

    @rule()
    def all_goes_well_for_a_while(self) -> None:
        self.look()
        self.everything_goes_well()

    # The controller

    @rule()
    def look(self) -> None:
        before = self.world.status
        self.world.apply(reconcile(self.world.observed(), self.world.now, SETTINGS))
        again = reconcile(self.world.observed(), self.world.now, SETTINGS)
        assert again.changes_nothing, again
        self.check_change(before, self.world.status)
        if self.world.spec.get("cancel") and not conditions.is_finished(before):
            over = running.is_over(self.world.observed())
            assert over or self.world.status.phase in (Phase.CANCELLING, Phase.CANCELLED, Phase.EXPIRED), (
                "a cancel waits for nothing"
            )

    def check_change(self, before: BatchJobStatus, after: BatchJobStatus) -> None:
        old, new = before.request_counts, after.request_counts
        if old is not None:
            assert new is not None
            assert new.completed >= old.completed
            assert new.failed >= old.failed
            assert new.completed + new.failed <= new.total
        for condition in after.conditions or []:
            known = next((item for item in before.conditions or [] if item.type == condition.type), None)
            if known is not None and known.status == condition.status:
                assert condition.last_transition_time == known.last_transition_time
        if conditions.is_finished(before):
            assert unobserved(after) == unobserved(before)
        if conditions.is_finished(after):
            assert after.phase in (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED, Phase.EXPIRED)
            assert not conditions.is_true(after, conditions.ConditionType.RECONCILING)
        end = conditions.find(after, conditions.ConditionType.FAILED)
        assert end is None or end.reason != Reason.SERVER_UNREACHABLE, "a server that is away is waited for"

    # The cluster

    def pick_job(self, number: int) -> JobView | None:
        jobs = [job for job in self.world.jobs.values() if job.end is None and not job.deleting]
        return jobs[number % len(jobs)] if jobs else None

    def pick_pod(self, number: int) -> str | None:
        pods = [uid for uid, pod in self.world.pods.items() if not pod.finished]
        return pods[number % len(pods)] if pods else None

    @rule(number=numbers)
    def a_pod_is_created(self, number: int) -> None:
        job = self.pick_job(number)
        if job is not None and not job.suspended:
            self.world.start_pod(job, number % job.completions)

    @rule(number=numbers, reason=st.sampled_from(["", "ImagePullBackOff", "CreateContainerConfigError"]))
    def a_pod_starts_or_does_not(self, number: int, reason: str) -> None:
        uid = self.pick_pod(number)
        if uid is None:
            return
        pod = self.world.pods[uid]
        if reason and not pod.started:
            self.world.pods[uid] = replace(pod, waiting=Waiting(reason, "why"))
        else:
            self.world.pods[uid] = replace(
                pod, phase="Running", started_at=self.world.now, waiting=None, ready=number % 2 == 0
            )

    @rule(number=numbers, data=st.data())
    def a_pod_ends(self, number: int, data: st.DataObject) -> None:
        uid = self.pick_pod(number)
        if uid is not None:
            pod = self.world.pods[uid]
            code, report = data.draw(endings(pod.stage, pod.run, pod.index or 0))
            self.world.end_pod(uid, code, report)

    @rule(number=numbers)
    def a_pod_vanishes(self, number: int) -> None:
        uids = list(self.world.pods)
        if uids:
            del self.world.pods[uids[number % len(uids)]]

    @rule(number=numbers)
    def a_node_is_lost(self, number: int) -> None:
        uid = self.pick_pod(number)
        if uid is not None:
            self.world.pods[uid] = replace(self.world.pods[uid], delete_by=self.world.now)

    @rule(number=numbers, succeeded=st.booleans())
    def a_job_ends(self, number: int, succeeded: bool) -> None:
        job = self.pick_job(number)
        if job is not None:
            end = JobEnd(succeeded, self.world.now, "" if succeeded else "BackoffLimitExceeded")
            self.world.jobs[job.name] = replace(job, end=end)

    @rule(number=numbers)
    def a_person_deletes_a_job(self, number: int) -> None:
        names = list(self.world.jobs)
        if names:
            name = names[number % len(names)]
            self.world.jobs[name] = replace(self.world.jobs[name], deleting=True)

    @rule()
    def deleted_jobs_are_gone(self) -> None:
        for name, job in list(self.world.jobs.items()):
            if job.deleting:
                del self.world.jobs[name]
                self.world.pods = {uid: pod for uid, pod in self.world.pods.items() if pod.job_uid != job.uid}

    @rule()
    def the_configuration_is_deleted(self) -> None:
        self.world.config_map = None

    @rule(
        index=st.integers(0, 2),
        run=st.integers(1, 3),
        completed=st.integers(0, 500),
        failed=st.integers(0, 50),
        available=st.booleans(),
    )
    def a_worker_reports(self, index: int, run: int, completed: int, failed: int, available: bool) -> None:
        if self.world.status.phase is Phase.IN_PROGRESS:
            report = Progress(index=index, run=run, completed=completed, failed=failed, server_available=available)
            self.world.progress = counts.latest_of_each_worker((*self.world.progress, report))
            self.world.samples = (*self.world.samples[-5:], Sample(self.world.now, completed + failed))

    @rule()
    def the_operator_restarts(self) -> None:
        self.look()
        self.world.progress, self.world.samples, self.world.last_status_write = (), (), None
        self.look()

    @rule(message=st.sampled_from(["", "exceeded quota"]))
    def a_creation_is_refused(self, message: str) -> None:
        self.world.refusals = (Refusal("Job x", message, self.world.now),) if message else ()

    @rule(seconds=st.sampled_from([1, 20, 200, 1800]))
    def time_passes(self, seconds: int) -> None:
        self.world.now += timedelta(seconds=seconds)

    # The user

    @rule(suspend=st.booleans())
    def the_user_suspends_or_resumes(self, suspend: bool) -> None:
        self.change_spec(suspend=suspend)

    @rule(image=st.sampled_from(["a:1", "b:1"]))
    def the_user_changes_the_image(self, image: str) -> None:
        self.change_spec(worker={"image": image})

    @precondition(lambda self: self.world.serial > 5)
    @rule()
    def the_user_cancels(self) -> None:
        self.change_spec(cancel=True)

    def change_spec(self, **changes: Any) -> None:
        self.world.spec = self.world.spec | changes
        self.world.identity = replace(self.world.identity, generation=self.world.identity.generation + 1)

    @precondition(lambda self: self.world.status.fingerprint is not None)
    @rule(usable=st.booleans())
    def the_user_breaks_or_mends_the_spec(self, usable: bool) -> None:
        """A volume of a name that is the operator's own passes the CRD's schema."""
        volumes = [] if usable else [{"name": "batchwright-job", "emptyDir": {}}]
        self.change_spec(worker={"volumes": volumes})

    # What must hold at all times

    @invariant()
    def names_are_unique_and_conditions_are_a_map(self) -> None:
        if not hasattr(self, "world"):
            return
        types = [condition.type for condition in self.world.status.conditions or []]
        assert len(types) == len(set(types))

    def teardown(self) -> None:
        """The world behaves from now on: the BatchJob must end."""
        if not hasattr(self, "world"):
            return
        self.world.spec = {name: value for name, value in self.world.spec.items() if name not in ("suspend", "worker")}
        self.world.refusals = ()
        for _ in range(60):
            if conditions.is_finished(self.world.status):
                return
            self.look()
            self.world.now += timedelta(minutes=2)
            self.deleted_jobs_are_gone()
            self.everything_goes_well()
        raise AssertionError(f"it hangs: {self.world.status.phase} {self.world.status.message}")

    def everything_goes_well(self) -> None:
        world = self.world
        for uid, pod in list(world.pods.items()):
            if pod.delete_by is not None and not pod.finished:
                del world.pods[uid]
            elif not pod.finished:
                world.end_pod(uid, ExitCode.DONE, world.good_report(pod))
        for name, job in list(world.jobs.items()):
            pods = [pod for pod in world.pods.values() if pod.job_uid == job.uid]
            if job.deleting or job.end is not None or job.suspended:
                continue
            if any(pod.phase == "Succeeded" for pod in pods):
                world.jobs[name] = replace(job, end=JobEnd(True, world.now))
            else:
                world.start_pod(job, 0)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
