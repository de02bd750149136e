"""Cancel, the end of the completion window, suspending, too many failures: on the cluster, in mid-run.

Every answer that was paid for is published, and each request of the input is in exactly one of the two files.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.quickstart import Quickstart, chat_line, condition, moment
from fixtures.cluster import eventually

LINES = 1200
SOME = 60
"""Requests that have arrived when the work is stopped: the run is in full swing, and far from its end."""
WORKERS, IN_FLIGHT = 2, 8
SLOW = {"requests": {"maxConcurrency": IN_FLIGHT, "concurrency": "Fixed", "timeout": "10s"}}
"""Two workers with eight requests of half a second in flight each: the whole would take 40 s."""


def begun(
    quickstart: Quickstart, prefix: str, answers: str = "delay=0.5", some: int = SOME, **spec: Any
) -> tuple[str, list[str]]:
    """A BatchJob that is sending requests, and the ids of its input."""
    name = quickstart.name(prefix)
    ids = [f"{name}-{number}" for number in range(LINES)]
    quickstart.switch(requests=answers)
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", [chat_line(i) for i in ids]), **SLOW | spec)
    quickstart.wait_arrivals(some)
    return name, ids


def patch(quickstart: Quickstart, name: str, **spec: Any) -> None:
    """Change fields of the spec."""
    quickstart.kubectl("patch", "batchjob", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def published(quickstart: Quickstart, status: dict[str, Any], ids: list[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """Ids with a result, and the error lines; together they are the input, each line once, both in its order."""
    results = [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])]
    errors = quickstart.lines_at(status["errors"]["uri"])
    failed = [line["custom_id"] for line in errors]
    place = {custom_id: number for number, custom_id in enumerate(ids)}
    assert sorted(results + failed, key=place.__getitem__) == ids
    assert sorted(results, key=place.__getitem__) == results
    assert sorted(failed, key=place.__getitem__) == failed
    assert [line["custom_id"] for line in quickstart.lines_at(status["retry"]["uri"])] == failed
    assert status["requestCounts"] == {"total": len(ids), "completed": len(results), "failed": len(failed)}
    return results, errors


def undone(errors: list[dict[str, Any]], code: str) -> int:
    """Error lines of requests that the batch ended without."""
    return sum(line["error"] is not None and line["error"]["code"] == code for line in errors)


def test_a_cancel_in_mid_run_publishes_every_answer(quickstart: Quickstart) -> None:
    name, ids = begun(quickstart, "cancel")
    # What is in flight is waited for: for so long that `cancelling` can't be missed.
    quickstart.switch(requests="delay=5")
    quickstart.wait_arrivals(len(quickstart.arrivals()) + WORKERS * IN_FLIGHT)
    patch(quickstart, name, cancel=True)
    cancelling = quickstart.wait(name, "cancelling", seconds=60)
    assert condition(cancelling, "Reconciling")["reason"] == "Cancelling"
    patch(quickstart, name, cancel=True)
    job = quickstart.wait(name, "cancelled", seconds=120)
    status = job["status"]

    results, errors = published(quickstart, status, ids)
    arrivals = quickstart.arrivals()
    assert sorted(arrivals) == sorted(results), "every request that was sent was answered, and its answer is kept"
    assert set(arrivals.values()) == {1}
    assert undone(errors, "batch_cancelled") == len(errors) == status["errorCodes"]["batch_cancelled"]
    assert status["progress"] == f"{len(results)}/{LINES}"
    assert status["usage"]["outputTokens"] > 0
    assert status["cancellingAt"] <= status["cancelledAt"]
    assert not {"finalizingAt", "completedAt", "failedAt", "expiredAt"} & set(status)
    failed = condition(job, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "Cancelled")
    assert f"{len(results)} of {LINES} requests completed" in failed["message"]

    patch(quickstart, name, suspend=True)
    time.sleep(1)
    again = quickstart.get(name)["status"]
    assert again["phase"] == "cancelled"
    assert again["cancelledAt"] == status["cancelledAt"]

    def nothing_runs() -> None:
        jobs = quickstart.kubectl("get", "jobs", "-o", "jsonpath={.items[?(@.status.active>0)].metadata.name}")
        assert name not in jobs

    eventually(nothing_runs, seconds=30)  # the Job controller takes a moment to see that the merge has ended


def test_a_cancel_works_where_nothing_has_started(quickstart: Quickstart) -> None:
    name = quickstart.name("nowhere")
    uri = quickstart.put(f"in/{name}.jsonl", [chat_line("never")])
    quickstart.apply(name, uri, worker={"nodeSelector": {"batchwright.dev/no-such-node": "true"}})
    quickstart.wait(name, "pending", seconds=60)
    patch(quickstart, name, cancel=True)
    job = quickstart.wait(name, "cancelled", seconds=60)
    assert "No request was sent" in condition(job, "Failed")["message"]
    assert not {"output", "errors", "retry", "requestCounts", "inProgressAt"} & set(job["status"])
    assert quickstart.arrivals() == {}
    left = quickstart.kubectl("get", "jobs", "-o", "name")
    assert name not in left


def test_the_end_of_the_window_in_mid_run_publishes_every_answer(quickstart: Quickstart) -> None:
    name, ids = begun(quickstart, "expiry", completionWindow="10m")
    created = moment(quickstart.get(name)["metadata"]["creationTimestamp"])
    seconds = int((datetime.now(UTC) - created).total_seconds()) + 2
    patch(quickstart, name, completionWindow=f"{seconds}s")
    job = quickstart.wait(name, "expired", seconds=120)
    status = job["status"]

    _, errors = published(quickstart, status, ids)
    assert undone(errors, "batch_expired") == len(errors) == status["errorCodes"]["batch_expired"]
    assert set(quickstart.arrivals().values()) == {1}
    assert moment(status["expiresAt"]) == created + timedelta(seconds=seconds)
    assert status["expiresAt"] <= status["finalizingAt"] <= status["expiredAt"]
    assert condition(job, "Failed")["reason"] == "Expired"
    reasons = quickstart.kubectl(
        "get", "events", f"--field-selector=involvedObject.name={name}", "-o", "jsonpath={.items[*].reason}"
    ).split()
    assert {"RunStarted", "Expiring", "Expired"} <= set(reasons)
    assert len(reasons) == len(set(reasons)), "one Event for each transition"


def test_suspended_nothing_arrives_and_resumed_it_completes(quickstart: Quickstart) -> None:
    name, ids = begun(quickstart, "suspend")
    patch(quickstart, name, suspend=True)
    quickstart.wait_condition(name, "Suspended", "True", seconds=60)
    selector = f"--selector=batch.kubernetes.io/job-name={_run_of(quickstart, name)}"
    quickstart.kubectl("wait", "pods", selector, "--for=delete", "--timeout=60s")
    before = quickstart.arrivals()
    time.sleep(2)
    assert quickstart.arrivals() == before
    assert len(before) < LINES
    quickstart.switch(requests="delay=0.01")
    patch(quickstart, name, suspend=False)
    status = quickstart.wait(name, "completed", seconds=120)["status"]
    assert [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])] == ids
    assert quickstart.arrivals() == dict.fromkeys(ids, 1)


def test_more_failures_than_allowed_stop_the_work(quickstart: Quickstart) -> None:
    requests = SLOW["requests"] | {"maxFailures": "1%"}
    name, ids = begun(quickstart, "failures", "delay=0.5,status=400", some=1, requests=requests)
    job = quickstart.wait(name, "failed", seconds=120)
    status = job["status"]
    failed = condition(job, "Failed")
    assert failed["reason"] == "TooManyFailures"
    codes = status["errorCodes"]
    assert codes["400"] > LINES // 100
    assert f"{codes['400']} failed (400: {codes['400']}), {codes['batch_failed']} were not done" in failed["message"]
    errors = quickstart.lines_at(status["errors"]["uri"])
    assert [line["custom_id"] for line in errors] == ids
    assert undone(errors, "batch_failed") == codes["batch_failed"] == LINES - codes["400"]
    assert "output" not in status
    assert status["finalizingAt"] <= status["failedAt"]


def _run_of(quickstart: Quickstart, name: str) -> str:
    uid = quickstart.get(name)["metadata"]["uid"]
    selector = f"--selector=batchwright.dev/batchjob-uid={uid},batchwright.dev/stage=run"
    return quickstart.kubectl("get", "jobs", selector, "-o", "jsonpath={.items[0].metadata.name}")
