"""Reading the load out of vLLM's metrics."""

import pytest

from batchwright.worker.server.concurrency import ServerLoad
from batchwright.worker.server.load import read_load, together

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
    "vLLM": (VLLM, ServerLoad(12, 37, 0.3412)),
    "without labels": (
        b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n",
        ServerLoad(1, 3, 0.5),
    ),
    "several engines": (
        b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        b'vllm:num_requests_waiting{engine="0"} 0\nvllm:num_requests_waiting{engine="1"} 2\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.9\nvllm:kv_cache_usage_perc{engine="1"} 0.2\n',
        ServerLoad(2, 7, 0.9),
    ),
    "the earlier name of the cache": (
        b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:gpu_cache_usage_perc 0.7\n",
        ServerLoad(1, 3, 0.7),
    ),
    "no cache": (b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n", ServerLoad(1, 3, 0.0)),
    "a cache over the brim": (
        b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 1.2\n",
        ServerLoad(1, 3, 1.0),
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
    assert read_load(text) == load


@pytest.mark.parametrize("text", NOT_TOLD.values(), ids=NOT_TOLD)
def test_what_does_not_tell_the_load_gives_none(text: bytes) -> None:
    assert read_load(text) is None


def test_several_servers_have_their_requests_together_and_the_fullest_cache() -> None:
    assert together([ServerLoad(1, 2, 0.3), ServerLoad(10, 20, 0.1)]) == ServerLoad(11, 22, 0.3)
