"""Reading the load out of vLLM's metrics."""

from dataclasses import replace

import pytest

from batchwright.worker.server.concurrency import LatestAnswers, ServerLoad
from batchwright.worker.server.load import LONGEST_GAP, AnswerTotals, Metrics, latest_answers, read_metrics, together

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 37.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 12.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="Qwen/Qwen3-8B",reason="capacity"} 9.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="Qwen/Qwen3-8B",reason="deferred"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.3412
vllm:generation_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 1.5e+06
"""

TOLD = {
    "vLLM, where some wait for a grammar, too": (VLLM, ServerLoad(12, 37, 0.3412, 0.3412)),
    "without labels": (
        b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n",
        ServerLoad(1, 3, 0.5, 0.5),
    ),
    "several engines": (
        b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        b'vllm:num_requests_waiting{engine="0"} 0\nvllm:num_requests_waiting{engine="1"} 2\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.9\nvllm:kv_cache_usage_perc{engine="1"} 0.2\n',
        ServerLoad(2, 7, 0.55, fullest_kv_cache=0.9),
    ),
    "the earlier name of the cache": (
        b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:gpu_cache_usage_perc 0.7\n",
        ServerLoad(1, 3, 0.7, 0.7),
    ),
    "no cache": (b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n", ServerLoad(1, 3, 0.0)),
    "a cache over the brim": (
        b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 1.2\n",
        ServerLoad(1, 3, 1.0, 1.0),
    ),
    "exponents, time stamps, carriage returns": (
        b"vllm:num_requests_running 1.2e+01 1700000000000\r\nvllm:num_requests_waiting 0\r\n",
        ServerLoad(0, 12, 0.0),
    ),
    "braces and spaces in a label": (
        b'vllm:num_requests_running{model_name="a} 9"} 3\nvllm:num_requests_waiting{model_name="a} 9"} 1\n',
        ServerLoad(1, 3, 0.0),
    ),
}

NOT_TOLD = {
    "nothing": b"",
    "another server's metrics": b"# TYPE http_requests_total counter\nhttp_requests_total 5\n",
    "only one of them": b"vllm:num_requests_running 3\n",
    "a web page": b"<html><body>vllm:num_requests_running 3</body></html>",
    "only comments": b"# HELP vllm:num_requests_running 3\n# HELP vllm:num_requests_waiting 3\n",
    "not a number": b"vllm:num_requests_running many\nvllm:num_requests_waiting 1\n",
    "NaN": b"vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n",
    "infinite": b"vllm:num_requests_running +Inf\nvllm:num_requests_waiting 1\n",
    "negative": b"vllm:num_requests_running -1\nvllm:num_requests_waiting 1\n",
    "cut off": VLLM[: VLLM.index(b" 12.0")],
    "no text": bytes(range(256)),
}


@pytest.mark.parametrize(("text", "load"), TOLD.values(), ids=TOLD)
def test_the_load_is_read(text: bytes, load: ServerLoad) -> None:
    assert read_metrics(text) == Metrics(load, None)


@pytest.mark.parametrize("text", NOT_TOLD.values(), ids=NOT_TOLD)
def test_what_does_not_tell_the_load_gives_none(text: bytes) -> None:
    assert read_metrics(text) is None


COUNTED = b"""\
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="a"} 25.0
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="a"} 30.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="a"} 30.0
vllm:e2e_request_latency_seconds_count{engine="1",model_name="a"} 10.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="a"} 6.5
vllm:e2e_request_latency_seconds_sum{engine="1",model_name="a"} 1.5
vllm:request_queue_time_seconds_count{engine="0",model_name="a"} 30.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="a"} 0.5
vllm:request_queue_time_seconds_sum{engine="1",model_name="a"} 0.25
vllm:request_inference_time_seconds_sum{engine="0",model_name="a"} 4.0
vllm:request_inference_time_seconds_sum{engine="1",model_name="a"} 1.0
vllm:generation_tokens_total{engine="1",model_name="a"} 80.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="a"} 9e+05
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="0"} 6e+05
vllm:e2e_request_latency_seconds_created{engine="0",model_name="a"} 1.7e+09
"""


def test_answers_and_their_times_are_read_of_all_engines_together() -> None:
    metrics = read_metrics(VLLM + COUNTED)
    assert metrics == Metrics(
        ServerLoad(12, 37, 0.3412, 0.3412),
        AnswerTotals(count=40, seconds=8, queued=0.75, worked_on=5, steps=600_080, started=1.7e9),
    )


def test_several_servers_have_their_requests_together_and_their_caches_in_the_mean() -> None:
    several = [
        Metrics(ServerLoad(1, 2, 0.75, 0.9), AnswerTotals(5, 2.0, 1.0, 0.5, 40, started=10.0)),
        Metrics(ServerLoad(10, 20, 0.25, 0.3), AnswerTotals(6, 3.0, 0.5, 2.0, 60, started=20.0)),
    ]
    assert together(several) == Metrics(
        ServerLoad(11, 22, 0.5, 0.9), AnswerTotals(11, 5.0, 1.5, 2.5, 100, started=30.0)
    )


def test_one_server_that_counts_no_answers_leaves_those_of_all_unknown() -> None:
    several = [Metrics(ServerLoad(1, 2, 0.3), None), Metrics(ServerLoad(10, 20, 0.1), AnswerTotals(6, 3.0, 0.5, 2.0))]
    assert together(several).totals is None


EARLIER = AnswerTotals(count=100, seconds=50.0, queued=20.0, worked_on=30.0, steps=5000, started=1.7e9)
LATER = AnswerTotals(count=140, seconds=58.0, queued=22.0, worked_on=34.0, steps=5400, started=1.7e9)
BETWEEN = LatestAnswers(40, within=1.0, seconds=0.2, queued=0.05, worked_on=0.1, steps=10)


def told(totals: AnswerTotals | None, requests: int = 8) -> Metrics:
    return Metrics(ServerLoad(waiting=0, running=requests, kv_cache_usage=0.1), totals)


@pytest.mark.parametrize(
    ("later", "latest"),
    [
        pytest.param(LATER, BETWEEN, id="some"),
        pytest.param(EARLIER, None, id="none"),
        pytest.param(replace(LATER, worked_on=38.0), None, id="longer in the engine than in the server"),
        pytest.param(replace(LATER, started=1.8e9), None, id="since another start"),
        pytest.param(AnswerTotals(7, 1.0, 0.0, 1.0, 90, started=1.7e9), None, id="of another start of the server"),
        pytest.param(replace(LATER, queued=19.0), None, id="of another server"),
        pytest.param(None, None, id="not counted"),
    ],
)
def test_the_answers_between_two_samples(later: AnswerTotals | None, latest: LatestAnswers | None) -> None:
    assert latest_answers(told(EARLIER), told(later), 1.0) == latest


@pytest.mark.parametrize(("requests", "is_plausible"), [(2, True), (1, False)])
def test_a_server_that_does_not_say_when_it_began_to_count_is_another_one_if_it_has_answered_too_much(
    requests: int, is_plausible: bool
) -> None:
    earlier, later = replace(EARLIER, started=0.0), replace(LATER, started=0.0)
    latest = latest_answers(told(earlier, requests), told(later, requests), 1.0)
    assert (latest == BETWEEN) is is_plausible


@pytest.mark.parametrize(("seconds", "is_known"), [(0.0, False), (LONGEST_GAP, True), (LONGEST_GAP + 0.1, False)])
def test_the_answers_of_no_time_or_a_long_one_tell_nothing_of_now(seconds: float, is_known: bool) -> None:
    assert (latest_answers(told(EARLIER), told(LATER), seconds) is not None) is is_known


@pytest.mark.parametrize(
    ("seconds", "totals"),
    [("NaN", None), ("many", None), ("-1e6", AnswerTotals(3, 1.0, -1e6, 0.5, 90, started=1.7e9))],
)
def test_a_strange_sum_does_not_hide_the_load(seconds: str, totals: AnswerTotals | None) -> None:
    text = f"""\
vllm:num_requests_running 3
vllm:num_requests_waiting 1
vllm:e2e_request_latency_seconds_count 3
vllm:e2e_request_latency_seconds_sum 1.0
vllm:e2e_request_latency_seconds_created 1.7e9
vllm:request_queue_time_seconds_sum {seconds}
vllm:request_inference_time_seconds_sum 0.5
vllm:generation_tokens_total 90
"""
    assert read_metrics(text.encode()) == Metrics(ServerLoad(1, 3, 0.0), totals)


def test_of_a_first_sample_no_answers_are_known() -> None:
    assert latest_answers(None, told(EARLIER), 1.0) is None
