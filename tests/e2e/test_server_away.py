"""The model server goes away in mid-run: it is shown, nothing is charged, and the work goes on by itself."""

from typing import Any

from e2e.quickstart import Quickstart, chat_line, condition

LINES = 200
PATIENT: dict[str, Any] = {"maxConcurrency": 8, "retries": 0}
"""With no retry at all, whatever were charged would be a failed request."""


def test_a_server_that_shuts_down_and_comes_back(quickstart: Quickstart) -> None:
    name = _started(quickstart)
    quickstart.switch(drain=True)
    quickstart.stub.post("/stub/abort").raise_for_status()
    try:
        away = condition(quickstart.wait_condition(name, "ServerAvailable", "False"), "ServerAvailable")
        assert away["reason"] == "ServerAway"
        assert "No request fails for it" in away["message"]
        assert quickstart.get(name)["status"]["phase"] == "in_progress"
        assert condition(quickstart.get(name), "Stalled").get("status") != "True"
    finally:
        quickstart.switch(drain=False)
    _assert_whole(quickstart, name)


def test_a_model_that_is_no_longer_served_is_named(quickstart: Quickstart) -> None:
    name = _started(quickstart)
    quickstart.switch(models=["another"])
    try:
        away = condition(quickstart.wait_condition(name, "ServerAvailable", "False"), "ServerAvailable")
        assert away["reason"] == "ModelNotFound"
        assert "another" in away["message"]
    finally:
        quickstart.switch(models=["stub-model"])
    _assert_whole(quickstart, name)


def _started(quickstart: Quickstart) -> str:
    """A BatchJob whose workers have some answers, and others to come for a minute or so."""
    name = quickstart.name("away")
    lines = [chat_line(f"{name}-{number}", stub="delay=0.5") for number in range(LINES)]
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", lines), requests=PATIENT)
    quickstart.wait_arrivals(20)
    return name


def _assert_whole(quickstart: Quickstart, name: str) -> None:
    status = quickstart.wait(name, "completed")["status"]
    assert status["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    ids = [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])]
    assert ids == [f"{name}-{number}" for number in range(LINES)]
    assert condition(quickstart.get(name), "ServerAvailable")["status"] == "True"
