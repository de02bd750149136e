"""The loop of a BatchJob against an API server that fails: over real HTTP, through its whole life.

Between two passes a test does what the cluster would do: Jobs get pods that end with their reports.
"""

import asyncio
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from batchwright.api import names
from batchwright.api.reports import MergeReport, PlanReport, Progress, Report, encode_report
from batchwright.api.status import PublishedObject, RequestCounts, Usage
from batchwright.controller.apply import Applier
from batchwright.controller.gather import Gatherer
from batchwright.controller.health import Health
from batchwright.controller.loop import Loops
from batchwright.controller.memory import Memory
from batchwright.controller.poll import Poller
from batchwright.controller.settings import Settings
from batchwright.kube.batchjobs import BatchJobs
from batchwright.kube.children import Children
from batchwright.kube.connection import Connection
from batchwright.kube.events import Events
from builders import spec_of
from fixtures.kubernetes_http import Answer, Body, Fault, Hang, HttpApi, LoseAnswer, Meanwhile, Refuse

PATH = "/apis/batchwright.dev/v1alpha1/namespaces/demo/batchjobs/nightly"
JOBS, PODS = "/apis/batch/v1/namespaces/demo/jobs", "/api/v1/namespaces/demo/pods"
LINES = 100
MOST_PASSES = 40
REPORTS: dict[str, Report] = {
    "plan": PlanReport(fingerprint="f", plan_uri="s3://b/plan", lines=LINES, shards=1, endpoint="/v1/x", model="m"),
    "run": Progress(index=0, run=1, completed=LINES, shards_completed=1),
    "merge": MergeReport(
        request_counts=RequestCounts(total=LINES, completed=LINES),
        usage=Usage(),
        output=PublishedObject(uri="s3://b/results.jsonl", bytes=1, lines=LINES),
    ),
}
STAGES = ["plan", "run-1", "merge-1"]


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        server.put(PATH, {"metadata": {"name": "nightly", "namespace": "demo"}, "spec": spec_of()})
        yield server


class Operator:
    """One operator process after the other; what the one before it had in memory is gone."""

    def __init__(self, api: HttpApi, *, read_seconds: float = 20.0) -> None:
        self.api = api
        self.uid = api.objects[PATH]["metadata"]["uid"]
        self.connection = api.connection(read_seconds=read_seconds)
        self.memory = Memory()
        self.loops = loops_over(self.connection)
        self.delays: list[float] = []

    async def look(self) -> None:
        """A pass, as after something has happened."""
        self.memory.reading = None
        self.delays.append(await self.loops._guarded_pass("demo", "nightly", self.uid, self.memory))

    async def to_the_end(self, *, restarted: bool = False) -> dict[str, Any]:
        """Passes until the BatchJob has ended; each in a new process if it is `restarted`."""
        for _ in range(MOST_PASSES):
            await self.look()
            if restarted:
                self.memory = Memory()
            status: dict[str, Any] = self.api.objects[PATH].get("status", {})
            if status.get("phase") in ("completed", "failed"):
                return status
            play_the_cluster(self.api)
        raise AssertionError(f"it has not ended: {self.api.objects[PATH].get('status')}")

    def close(self) -> None:
        self.loops.close()


@pytest.fixture
def operator(api: HttpApi) -> Iterator[Operator]:
    operator = Operator(api)
    yield operator
    operator.close()


def loops_over(connection: Connection) -> Loops:
    settings = Settings(concurrency=2)
    batchjobs, children = BatchJobs(connection), Children(connection)
    return Loops(
        gatherer=Gatherer(batchjobs, children, settings),
        applier=Applier(batchjobs, children),
        events=Events(connection),
        poller=Poller(settings),
        health=Health(60),
        settings=settings,
        cluster="c",
    )


def play_the_cluster(api: HttpApi) -> None:
    """Every Job that has not ended ends, with a pod that says how."""
    now = datetime.now(UTC).isoformat()
    for job in api.under(JOBS):
        if job.get("status"):
            continue
        labels = job["metadata"]["labels"]
        ended = {"exitCode": 0, "finishedAt": now, "startedAt": now, "reason": "Completed"}
        ended["message"] = encode_report(REPORTS[labels[names.LABEL_STAGE]])
        name = f"{job['metadata']['name']}-0"
        owner = {"uid": job["metadata"]["uid"], "controller": True}
        state = {"name": names.CONTAINER, "state": {"terminated": ended}}
        api.put(
            f"{PODS}/{name}",
            {
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
                "status": {"phase": "Succeeded", "containerStatuses": [state]},
            },
        )
        condition = {"type": "Complete", "status": "True", "lastTransitionTime": now}
        api.change(f"{JOBS}/{job['metadata']['name']}", status={"conditions": [condition]})


def stages(api: HttpApi) -> list[str]:
    """The Jobs that there are, such as run-1."""
    return [job["metadata"]["name"].split("-", 2)[2] for job in api.under(JOBS)]


def events(api: HttpApi) -> list[str]:
    return [event["reason"] for event in api.under("/events/")]


async def test_without_failures_each_stage_has_one_job_and_each_transition_one_event(
    api: HttpApi, operator: Operator
) -> None:
    status = await operator.to_the_end()
    assert status["phase"] == "completed"
    assert stages(api) == STAGES
    assert events(api) == ["RunStarted", "MergeStarted", "Completed"]


def calls_of_a_life() -> list[tuple[str, str]]:
    """Every call that the operator makes in the life of a BatchJob, in order."""
    with HttpApi() as api:
        api.put(PATH, {"metadata": {"name": "nightly", "namespace": "demo"}, "spec": spec_of()})
        operator = Operator(api)
        asyncio.run(operator.to_the_end())
        operator.close()
        return list(api.requests)


CALLS = calls_of_a_life()
WRITES = [number for number, (method, _) in enumerate(CALLS) if method != "GET"]


@pytest.mark.parametrize("number", WRITES, ids=lambda number: f"{number}-{CALLS[number][0]}")
async def test_an_operator_killed_after_any_write_leaves_nothing_doubled(
    api: HttpApi, operator: Operator, number: int
) -> None:
    api.fail("*", "", LoseAnswer(), skip=number)
    status = await operator.to_the_end(restarted=True)
    assert status["phase"] == "completed"
    assert status["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    assert stages(api) == STAGES


FAULTS: dict[str, Fault] = {
    "a conflict": Answer(409, "Conflict"),
    "too many requests": Answer(429, "TooManyRequests", retry_after=7),
    "a list that is forgotten": Answer(410, "Expired"),
    "an internal error": Answer(500, "InternalError"),
    "no service": Answer(503, "ServiceUnavailable"),
    "a gateway's time limit": Answer(504, "Timeout"),
    "a token that is refused": Answer(401, "Unauthorized"),
    "a closed connection": Refuse(),
    "an answer that is lost": LoseAnswer(),
    "a truncated body": Body(b'{"items": []}', cut=4),
    "a web page": Body(b"<html>"),
    "a list instead of an object": Body(b"[]"),
}
KINDS_OF_CALL = sorted(
    {(method, path.split("?")[0].split("/")[-1 if method == "POST" else -2]) for method, path in CALLS}
)


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_fails_twice_in_each_kind_of_call_the_batchjob_completes(
    api: HttpApi, operator: Operator, fault: str
) -> None:
    for method, part in KINDS_OF_CALL:
        api.fail(method, f"/{part}", FAULTS[fault], times=2)
    status = await operator.to_the_end()
    assert status["phase"] == "completed"
    assert stages(api) == STAGES
    assert len(set(events(api))) == len(events(api))
    assert "Stalled" not in [condition["type"] for condition in status["conditions"]]


async def test_a_server_that_hangs_costs_a_pass_its_time_limit_and_no_more(api: HttpApi) -> None:
    operator = Operator(api, read_seconds=0.2)
    api.fail("GET", "/jobs", Hang())
    await operator.look()
    assert len(api.called("GET", "/jobs")) == 1, "the loop tries again, and not the client"
    assert (await operator.to_the_end())["phase"] == "completed"
    operator.close()


async def test_retry_after_is_kept(api: HttpApi, operator: Operator) -> None:
    api.fail("GET", "/batchjobs", Answer(429, "TooManyRequests", retry_after=7), times=2)
    await operator.look()
    assert operator.delays[-1] >= 7
    api.rules.clear()
    await operator.look()
    assert operator.delays[-1] < 7


async def test_pauses_grow_and_end_at_half_a_minute_or_so(api: HttpApi, operator: Operator) -> None:
    api.fail("GET", "/batchjobs", Refuse(), times=12)
    for _ in range(12):
        await operator.look()
    assert all(later > earlier for earlier, later in itertools.pairwise(operator.delays[:5]))
    assert max(operator.delays) < 40


REFUSED = (
    ("/jobs", Answer(403, "Forbidden", "exceeded quota: small")),
    ("/jobs", Answer(422, "Invalid", "spec.template: pods need the label team")),
    ("/jobs", Answer(500, "InternalError", 'failed calling webhook "policy.example.com"')),
    ("/configmaps", Answer(403, "Forbidden", "exceeded quota: small")),
)


@pytest.mark.parametrize(("part", "answer"), REFUSED, ids=lambda value: str(getattr(value, "status", value)))
async def test_a_refusal_is_told_and_the_work_goes_on_once_it_is_over(
    api: HttpApi, operator: Operator, part: str, answer: Answer
) -> None:
    api.fail("POST", part, answer, times=99)
    for _ in range(3):
        await operator.look()
    told = api.objects[PATH]["status"]["message"]
    assert answer.message in told
    assert "in namespace demo can't be created" in told
    api.rules.clear()
    assert (await operator.to_the_end())["phase"] == "completed"


async def test_what_is_refused_later_is_told_too(api: HttpApi, operator: Operator) -> None:
    await operator.look()
    play_the_cluster(api)
    await operator.look()
    api.change(PATH, spec={"requests": {"retries": 9}})
    api.fail("PATCH", "/configmaps/", Answer(403, "Forbidden", "settings are frozen"), times=99)
    for _ in range(3):
        await operator.look()
    stored = api.objects[PATH]["status"]
    assert stored["phase"] == "in_progress"
    assert "can't be updated: settings are frozen" in stored["message"]


async def test_a_status_is_not_written_over_what_somebody_changed_meanwhile(api: HttpApi, operator: Operator) -> None:
    changed = {"metadata": {"generation": 2}, "spec": {"requests": {"retries": 9}}}
    api.fail("PATCH", "/status", Meanwhile(lambda: api.change(PATH, **changed)))
    await operator.look()
    assert "status" not in api.objects[PATH]
    await operator.look()
    assert api.objects[PATH]["status"]["observedGeneration"] == 2
    assert len(api.under(JOBS)) == 1


async def test_another_batchjob_of_the_same_name_is_left_alone(api: HttpApi, operator: Operator) -> None:
    await operator.look()
    api.put(PATH, {"metadata": {"name": "nightly", "namespace": "demo", "uid": "another"}, "spec": spec_of()})
    before = len(api.requests)
    await operator.look()
    assert [method for method, _ in api.requests[before:]] == ["GET"]
