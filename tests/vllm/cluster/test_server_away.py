"""vLLM starts late, is restarted, runs out of memory in mid-run: it is shown, nothing is lost, nothing is charged."""

from dataclasses import dataclass
from typing import Any

from e2e.quickstart import Quickstart, condition
from vllm.cluster.model_server import URL, ModelServer
from vllm.cluster.request_lines import assert_whole, chat_lines

LINES = 800
TOKENS = 128
SOME = 100
UNFORGIVING: dict[str, Any] = {"maxConcurrency": 8, "concurrency": "Fixed", "retries": 0}
"""With no retry at all, whatever were charged would be a failed request."""


def test_a_cold_start_is_waited_for(batches: Quickstart, model_server: ModelServer) -> None:
    model_server.scale(0)
    model_server.wait_gone()
    run = _apply(batches, lines=40)
    away = condition(batches.wait_condition(run.name, "ServerAvailable", "False"), "ServerAvailable")
    assert away["reason"] == "ServerAway"
    assert batches.get(run.name)["status"]["phase"] == "validating"
    model_server.scale(1)
    assert_whole(batches, run.name, run.lines)


def test_a_restart_in_mid_run(batches: Quickstart, model_server: ModelServer) -> None:
    run = _started(batches, model_server)
    before = model_server.metrics(run.pod).answered - run.answered_before
    model_server.restart()
    _assert_shown_as_away(batches, run.name)
    assert_whole(batches, run.name, run.lines)
    (successor,) = model_server.wait_ready()
    assert successor != run.pod
    assert 0 < model_server.metrics(successor).answered <= LINES - before, "what was answered is asked for again"


def test_a_server_that_runs_out_of_memory_in_mid_run(batches: Quickstart, model_server: ModelServer) -> None:
    run = _started(batches, model_server)
    restarts = _container(model_server)["restartCount"]
    before = model_server.metrics(run.pod).answered - run.answered_before
    model_server.fill_memory(run.pod)
    _assert_shown_as_away(batches, run.name)
    assert_whole(batches, run.name, run.lines)
    assert model_server.pod_names() == [run.pod]
    container = _container(model_server)
    assert container["restartCount"] == restarts + 1
    assert container["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert 0 < model_server.metrics(run.pod).answered <= LINES - before, "what was answered is asked for again"


def _container(model_server: ModelServer) -> dict[str, Any]:
    """What its one pod says of its one container."""
    (pod,) = model_server.pods()
    (container,) = pod["status"]["containerStatuses"]
    assert isinstance(container, dict)
    return container


@dataclass(frozen=True)
class _Run:
    name: str
    lines: list[dict[str, Any]]
    pod: str = ""
    answered_before: int = 0


def _apply(batches: Quickstart, *, lines: int) -> _Run:
    name = batches.name("away")
    run = _Run(name, chat_lines(name, lines, tokens=TOKENS))
    batches.apply(
        name,
        batches.put(f"in/{name}.jsonl", run.lines),
        server={"url": URL},
        sharding={"parallelism": 2, "linesPerShard": 100},
        requests=UNFORGIVING,
    )
    return run


def _started(batches: Quickstart, model_server: ModelServer) -> _Run:
    """A BatchJob whose workers have some answers, and most of them to come."""
    (pod,) = model_server.wait_ready()
    answered = model_server.metrics(pod).answered
    run = _apply(batches, lines=LINES)
    assert model_server.wait_answered(pod, answered + SOME) < answered + LINES / 2
    return _Run(run.name, run.lines, pod, answered)


def _assert_shown_as_away(batches: Quickstart, name: str) -> None:
    job = batches.wait_condition(name, "ServerAvailable", "False")
    away = condition(job, "ServerAvailable")
    assert away["reason"] == "ServerAway"
    assert "No request fails for it" in away["message"]
    assert job["status"]["phase"] == "in_progress"
    assert condition(job, "Stalled").get("status") != "True"
