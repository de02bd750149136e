"""A BatchJob from `kubectl apply` to its results."""

import json
import time
from typing import Any

from e2e.quickstart import BUCKET, OPERATOR_NAMESPACE, Quickstart, chat_line, condition, moment
from fixtures.cluster import eventually

LINES = 5000


def test_a_batchjob_completes_though_the_operator_is_killed_in_the_middle(quickstart: Quickstart) -> None:
    name = quickstart.name("run")
    lines = [chat_line(f"line-{number}") for number in range(LINES)]
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", lines))
    _wait_for_some_progress(quickstart, name)
    quickstart.cluster.kubectl(
        "--namespace",
        OPERATOR_NAMESPACE,
        "delete",
        "pod",
        "--selector=app.kubernetes.io/name=batchwright-operator",
        "--grace-period=0",
        "--force",
        "--wait=false",
    )
    status = quickstart.wait(name, "completed")["status"]

    results = quickstart.lines_at(status["output"]["uri"])
    assert [line["custom_id"] for line in results] == [line["custom_id"] for line in lines]
    assert all(
        result["response"]["body"]["choices"][0]["message"]["content"] == f"line-{number}"[::-1]
        for number, result in enumerate(results)
    )
    assert quickstart.arrivals() == {line["custom_id"]: 1 for line in lines}
    assert status["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    assert status["progress"] == f"{LINES}/{LINES}"
    assert status["shards"]["completed"] == status["shards"]["total"]
    assert status["output"]["lines"] == LINES
    assert status["output"]["bytes"] == sum(len(raw) for raw in _raw_lines(quickstart, status["output"]["uri"]))
    usages = [result["response"]["body"]["usage"] for result in results]
    assert status["usage"]["inputTokens"] == sum(usage["prompt_tokens"] for usage in usages)
    assert status["usage"]["outputTokens"] == sum(usage["completion_tokens"] for usage in usages)
    assert status["usage"]["totalTokens"] == sum(usage["total_tokens"] for usage in usages)
    assert status["finishReasons"] == {"stop": LINES}
    assert "errors" not in status
    assert "retry" not in status


def test_timestamps_conditions_and_metrics_tell_the_story(quickstart: Quickstart) -> None:
    name = quickstart.name("story")
    job = quickstart.run(name, [chat_line(f"line-{number}") for number in range(200)])
    status = job["status"]
    reached = ["createdAt", "validatingAt", "inProgressAt", "finalizingAt", "completedAt"]
    times = [moment(status[key]) for key in reached]
    assert times == sorted(times)
    assert times[0] == moment(job["metadata"]["creationTimestamp"])
    assert not {"failedAt", "cancelledAt", "expiredAt"} & set(status)
    assert status["observedGeneration"] == job["metadata"]["generation"]
    assert (condition(job, "Complete")["status"], condition(job, "Complete")["reason"]) == ("True", "Completed")
    assert condition(job, "Reconciling")["status"] == "False"
    assert all(c["observedGeneration"] == job["metadata"]["generation"] for c in status["conditions"])
    seconds = float(status["metrics"]["responseTimeSeconds"])
    assert abs(seconds - (times[3] - times[2]).total_seconds()) <= 1
    reasons = quickstart.kubectl(
        "get", "events", f"--field-selector=involvedObject.name={name}", "-o", "jsonpath={.items[*].reason}"
    ).split()
    assert len(reasons) == len(set(reasons)), f"one event for each transition: {reasons}"
    assert "Completed" in reasons


def test_a_folder_and_a_progress_object_of_ones_own(quickstart: Quickstart) -> None:
    name = quickstart.name("told")
    folder, progress = f"{name}_Model-8B_1", "in_20260102_030405.progress.json"
    output = {"uri": f"s3://{BUCKET}/out/", "folder": folder, "names": {"progress": progress}}
    worker = {"env": [{"name": "BATCHWRIGHT_SEGMENT_SECONDS", "value": "0.5"}]}
    quickstart.switch(delay="0.5")
    lines = [chat_line(f"line-{number}") for number in range(400)]
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", lines), output=output, worker=worker)

    def told() -> dict[str, Any]:
        try:
            (found,) = _raw_lines(quickstart, f"{output['uri']}{folder}/{progress}")
        except quickstart.s3.exceptions.NoSuchKey as error:
            raise AssertionError("there is no progress object yet") from error
        content: dict[str, Any] = json.loads(found)
        return content

    quickstart.wait(name, "in_progress")
    during = eventually(lambda: _some_done(told()), seconds=60)
    assert during.keys() == {"lines_processed", "total_tokens_so_far", "num_responses_so_far"}
    status = quickstart.wait(name, "completed")["status"]
    assert status["output"]["uri"] == f"{output['uri']}{folder}/results.jsonl"
    final = told()
    assert final["lines_processed"] == final["num_responses_so_far"] == 400
    assert final["total_tokens_so_far"] == status["usage"]["totalTokens"]
    metrics = final["metrics"]
    assert f"{metrics['response_time']:g}" == f"{float(status['metrics']['responseTimeSeconds']):g}"
    rate = status["usage"]["totalTokens"] / metrics["response_time"]
    assert abs(metrics["throughput_tokens_per_second"] - rate) < 0.01


def _some_done(found: dict[str, Any]) -> dict[str, Any]:
    assert 0 < found["lines_processed"] < 400, found
    return found


def test_kubectl_shows_progress_in_a_table(quickstart: Quickstart) -> None:
    name = quickstart.name("table")
    quickstart.run(name, [chat_line(f"line-{number}") for number in range(20)])
    header, row = quickstart.kubectl("get", "bj", name).splitlines()
    assert header.split() == ["NAME", "PHASE", "PROGRESS", "FAILED", "RATE", "ETA", "AGE"]
    assert row.split()[:4] == [name, "completed", "20/20", "0"]
    wide = quickstart.kubectl("get", "bj", name, "-o", "wide")
    assert f"s3://batches/out/{name}/results.jsonl" in wide


def _wait_for_some_progress(quickstart: Quickstart, name: str) -> None:
    quickstart.wait(name, "in_progress")
    end = time.monotonic() + 120
    while not sum(quickstart.arrivals().values()):
        assert time.monotonic() < end, "no request reached the model server"
        time.sleep(0.2)


def _raw_lines(quickstart: Quickstart, uri: str) -> list[bytes]:
    bucket, key = uri.removeprefix("s3://").split("/", 1)
    body: bytes = quickstart.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body.splitlines(keepends=True)
