"""Requests that fail: they end in the errors file, and come back as lines that can be submitted as they are."""

from e2e.quickstart import Quickstart, chat_line, condition

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

    again = quickstart.name("again")
    quickstart.apply(again, status["retry"]["uri"])
    repeated = quickstart.wait(again, "completed")["status"]
    assert repeated["requestCounts"] == {"total": 10, "completed": 10, "failed": 0}


def test_when_every_request_fails_the_batchjob_is_still_completed(quickstart: Quickstart) -> None:
    job = quickstart.run(quickstart.name("all-bad"), [chat_line(f"line-{n}", stub="status=400") for n in range(5)])
    assert job["status"]["phase"] == "completed"
    assert "output" not in job["status"]
    assert job["status"]["errors"]["lines"] == 5
    assert "400" in condition(job, "Complete")["message"]
