"""Requests that fail: they end in the errors file, and come back as lines that can be submitted as they are."""

from typing import Any

from e2e.quickstart import BUCKET, Quickstart, chat_line, condition

BAD = range(0, 1000, 100)


def test_ten_of_a_thousand_requests_answer_400(quickstart: Quickstart) -> None:
    name = quickstart.name("bad-requests")
    lines = [chat_line(f"line-{number}", stub="status=400,times=1" if number in BAD else "") for number in range(1000)]
    job = quickstart.run(name, lines)
    status = job["status"]
    assert status["phase"] == "completed"
    assert status["requestCounts"] == {"total": 1000, "completed": 990, "failed": 10}
    assert condition(job, "Complete")["reason"] == "CompletedWithFailures"
    assert status["errorCodes"] == {"400": 10}

    results = quickstart.lines_at(status["output"]["uri"])
    assert [line["custom_id"] for line in results] == [f"line-{n}" for n in range(1000) if n not in BAD]
    errors = quickstart.lines_at(status["errors"]["uri"])
    assert [line["custom_id"] for line in errors] == [f"line-{n}" for n in BAD]
    assert all(line["response"]["status_code"] == 400 for line in errors)
    assert all(line["response"]["body"]["error"]["message"] for line in errors)
    assert all(line["error"] is None for line in errors)
    assert quickstart.lines_at(status["retry"]["uri"]) == [lines[n] for n in BAD]

    again = quickstart.name("retry")
    quickstart.apply(again, status["retry"]["uri"])
    repeated = quickstart.wait(again, "completed")["status"]
    assert repeated["requestCounts"] == {"total": 10, "completed": 10, "failed": 0}


def test_applied_again_only_what_may_succeed_now_is_sent(quickstart: Quickstart) -> None:
    name, passing = quickstart.name("again"), range(550, 600, 10)
    switches = dict.fromkeys(BAD, "status=400") | dict.fromkeys(passing, "status=500,times=1")
    lines = [chat_line(f"line-{number}", stub=switches.get(number, "")) for number in range(1000)]
    spec = {"sharding": {"linesPerShard": 100, "parallelism": 2}, "requests": {"retries": 0, "maxConcurrency": 16}}
    first = quickstart.run(name, lines, **spec)["status"]
    assert first["errorCodes"] == {"400": 10, "500": 5}
    sent = quickstart.arrivals()

    again = apply_again(quickstart, name, **spec)
    status = again["status"]
    assert status["requestCounts"] == {"total": 1000, "completed": 990, "failed": 10}
    reused = status["reused"]
    assert (reused["completed"], reused["failed"], reused["shards"]) == (985, 10, 9)
    assert reused["usage"] == first["usage"]
    assert (
        "995 of 1000 requests stand from an earlier BatchJob of this name." in condition(again, "Complete")["message"]
    )
    assert quickstart.arrivals() == sent | {f"line-{number}": 2 for number in passing}
    results = quickstart.lines_at(status["output"]["uri"])
    assert [line["custom_id"] for line in results] == [f"line-{n}" for n in range(1000) if n not in BAD]
    assert status["usage"]["totalTokens"] == sum(line["response"]["body"]["usage"]["total_tokens"] for line in results)
    assert quickstart.lines_at(status["retry"]["uri"]) == [lines[n] for n in BAD]

    once_more = apply_again(quickstart, name, **spec)["status"]
    assert once_more["requestCounts"] == status["requestCounts"]
    assert once_more["reused"]["completed"] == 990
    assert once_more["usage"] == status["usage"]
    assert quickstart.arrivals() == sent | {f"line-{number}": 2 for number in passing}, "nothing is left to be sent"


def apply_again(quickstart: Quickstart, name: str, **spec: Any) -> dict[str, Any]:
    """The finished BatchJob is deleted, and one of the same name runs to its end."""
    quickstart.kubectl("delete", "batchjob", name, "--wait")
    quickstart.apply(name, f"s3://{BUCKET}/in/{name}.jsonl", **spec)
    return quickstart.wait(name, "completed")


def test_when_every_request_fails_the_batchjob_is_still_completed(quickstart: Quickstart) -> None:
    job = quickstart.run(quickstart.name("all-bad"), [chat_line(f"line-{n}", stub="status=400") for n in range(5)])
    assert job["status"]["phase"] == "completed"
    assert "output" not in job["status"]
    assert job["status"]["errors"]["lines"] == 5
    assert "400" in condition(job, "Complete")["message"]
