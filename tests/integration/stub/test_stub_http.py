"""The stub over real sockets, as long as nothing is switched: it answers and refuses as vLLM does."""

import asyncio
import json
import time

import pytest

from fixtures.stub_client import BODIES, CHAT, Client, chat, stub_client, text_of
from stub.harness import POLL, WAIT
from stub.texts import answer_to


@pytest.mark.parametrize("path", sorted(BODIES))
async def test_every_endpoint_answers_and_counts(path: str) -> None:
    async with stub_client() as client:
        status, headers, content = await client.post(BODIES[path], path, X_Request_Id="r1")
        assert status == 200
        assert headers["X-Request-Id"] == "r1"
        assert "r1" in json.loads(content)["id"]
        stats = await client.stub.stats()
        assert (stats.total, stats.by_status, stats.prompt_tokens) == (1, {200: 1}, 2)


async def test_each_answer_belongs_to_its_request() -> None:
    async with stub_client(delay="0.001-0.02") as client:
        texts = [f"line {number}" for number in range(200)]
        answers = await asyncio.gather(*(client.post(chat(text)) for text in texts))
        assert [text_of(content) for _, _, content in answers] == [answer_to(text) for text in texts]


async def test_without_an_id_the_server_makes_one_and_without_the_flag_it_sends_none() -> None:
    async with stub_client() as client:
        _, headers, _ = await client.post(chat())
        assert len(headers["X-Request-Id"]) == 32
        await client.stub.switch(request_id_headers=False)
        _, headers, _ = await client.post(chat(), X_Request_Id="r1")
        assert "X-Request-Id" not in headers


async def test_the_models_are_those_served() -> None:
    async with stub_client(models=["a", "b"]) as client:
        status, content = await client.get("/v1/models")
        assert status == 200
        assert [model["id"] for model in json.loads(content)["data"]] == ["a", "b"]
        status, _, content = await client.post(chat() | {"model": "c"})
        assert status == 404
        assert json.loads(content) == {
            "error": {
                "message": "The model `c` does not exist. Valid aliases: a, b.",
                "type": "NotFoundError",
                "param": "model",
                "code": 404,
            }
        }


async def test_a_key_is_asked_for_below_v1_only() -> None:
    async with stub_client(api_keys=["right"]) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic right"}):
            status, _, content = await client.post(chat(), **headers)
            assert (status, json.loads(content)) == (401, {"error": "Unauthorized"})
        assert (await client.get("/v1/models"))[0] == 401
        assert (await client.get("/health"))[0] == 200
        assert (await client.post(chat(), Authorization="Bearer right"))[0] == 200
        await client.stub.switch(api_keys=["rotated"])
        assert (await client.post(chat(), Authorization="Bearer right"))[0] == 401


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON decode error"),
        (b"[]", "valid dictionary"),
        (b"", "'loc': 'body', 'msg': 'Field required'"),
        (b"{}", "body.messages"),
        (b'{"model":3,"messages":[{"role":"user","content":"a"}]}', "valid string"),
        (b'{"stream":true,"messages":[{"role":"user","content":"a"}]}', "does not stream"),
        (b'{"metadata":{"stub":"stauts=1"},"messages":[]}', "unknown switch 'stauts'"),
        (b'{"metadata":{"stub":1},"messages":[]}', "must be a string"),
        (b'{"metadata":{"stub":"reset=before_read"},"messages":[]}', "whole server"),
    ],
)
async def test_a_bad_body_gets_400_and_the_cause(body: bytes, message: str) -> None:
    async with stub_client() as client:
        status, _, content = await client.post(body)
        error = json.loads(content)["error"]
        assert (status, error["code"]) == (400, 400)
        assert message in error["message"]
        assert (await client.post(chat()))[0] == 200


@pytest.mark.parametrize("body", [b'{"messages":[{"role":"user","content":"\xff"}]}', b"[" * 100_000])
async def test_a_body_that_no_parser_gets_through_is_refused_by_the_web_framework(body: bytes) -> None:
    async with stub_client() as client:
        status, _, content = await client.post(body)
        assert (status, json.loads(content)) == (400, {"detail": "There was an error parsing the body"})
        assert (await client.post(chat()))[0] == 200


async def test_what_the_model_cannot_hold_is_refused() -> None:
    async with stub_client(max_model_len=5) as client:
        status, _, content = await client.post(chat("one two three four five six"))
        error = json.loads(content)["error"]
        assert (status, error["param"]) == (400, "input_tokens")
        assert "maximum context length is 5 tokens" in error["message"]
        status, _, content = await client.post(chat("one") | {"max_tokens": 6})
        assert (status, json.loads(content)["error"]["param"]) == (400, "max_tokens")
        assert (await client.post(chat("one two three four five")))[0] == 200
        _, listed = await client.get("/v1/models")
        assert json.loads(listed)["data"][0]["max_model_len"] == 5


async def test_another_media_type_gets_400() -> None:
    async with stub_client() as client:
        assert (await client.post(b"{}", Content_Type="text/plain"))[0] == 400


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/v1/nothing", 404, "Not Found"),
        (CHAT, 405, "Method Not Allowed"),
        ("/stub/abort", 405, "Method Not Allowed"),
        ("/stub/x", 404, "Not Found"),
    ],
)
async def test_unknown_paths_and_methods_get_the_web_frameworks_error(path: str, status: int, detail: str) -> None:
    async with stub_client() as client:
        got, content = await client.get(path)
        assert (got, json.loads(content)) == (status, {"detail": detail})


async def test_a_body_of_10_mib_is_accepted() -> None:
    async with stub_client() as client:
        body = json.dumps(chat("")).encode()
        full = body.replace(b'"content": ""', b'"content": "%s"' % (b"a" * (10 * 1024 * 1024 - len(body))))
        assert len(full) == 10 * 1024 * 1024
        status, _, content = await client.post(full)
        assert (status, len(text_of(content))) == (200, len(full) - len(body))


async def test_the_metrics_are_those_of_vllm() -> None:
    async with stub_client(slots=4) as client:
        await client.post(chat("one two three", "cached=2"))
        busy = [asyncio.create_task(client.post(chat(str(n), "delay=30"))) for n in range(6)]
        await client.stub.wait_in_flight(6)
        metrics = await _metrics(client)
        assert {name: value for name, value in metrics.items() if not name.endswith(("_bucket", "_sum"))} == {
            "vllm:num_requests_running": 4,
            "vllm:num_requests_waiting": 2,
            "vllm:kv_cache_usage_perc": 1,
            "vllm:prefix_cache_queries_total": 3,
            "vllm:prefix_cache_hits_total": 2,
            "vllm:num_preemptions_total": 0,
            "vllm:prompt_tokens_total": 3,
            "vllm:prompt_tokens_cached_total": 2,
            "vllm:generation_tokens_total": 3,
            "vllm:request_success_total": 1,
            "vllm:e2e_request_latency_seconds_count": 1,
            "vllm:request_queue_time_seconds_count": 1,
            "vllm:request_inference_time_seconds_count": 1,
        }
        await client.stub.switch(waiting=17, kv_cache_usage=0.97)
        metrics = await _metrics(client)
        assert (metrics["vllm:num_requests_waiting"], metrics["vllm:kv_cache_usage_perc"]) == (17, 0.97)
        await client.stub.switch(slots=None)
        assert await client.stub.abort() == 6
        await asyncio.gather(*busy)


async def test_the_times_of_answers_are_counted_as_by_vllm() -> None:
    async with stub_client(slots=1, freeze=True) as client:
        both = [asyncio.create_task(client.post(chat(str(number), "delay=0.2"))) for number in range(2)]
        async with asyncio.timeout(WAIT):
            while (await client.stub.stats()).waiting != 1:  # noqa: ASYNC110 - nothing tells of a change
                await asyncio.sleep(POLL)
        began = time.monotonic()
        await client.stub.stats()
        waited = time.monotonic() - began
        await client.stub.switch(freeze=False)
        await asyncio.gather(*both)
        metrics = await _metrics(client)
        assert metrics["vllm:e2e_request_latency_seconds_count"] == 2
        queued, worked_on, whole = (
            metrics[f"vllm:{name}_seconds_sum"]
            for name in ("request_queue_time", "request_inference_time", "e2e_request_latency")
        )
        assert whole == pytest.approx(queued + worked_on)
        # The second one waited while the first one was worked on, and was worked on itself.
        assert waited <= queued < worked_on


async def _metrics(client: Client) -> dict[str, float]:
    """Return the metrics by name, those with a finished_reason summed up."""
    _, content = await client.get("/metrics")
    values: dict[str, float] = {}
    for line in content.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.split("{")[0], float(line.rsplit(" ", 1)[1])
            assert 'model_name="stub-model"' in line
            values[name] = values.get(name, 0) + value
    return values


async def test_arrivals_tell_who_came_how_often_and_who_was_answered() -> None:
    async with stub_client() as client:
        await client.post(chat("a", "status=503,times=1", id="line-1"), X_Request_Id="r1", X_Vllm_Priority="7")
        await client.post(chat("a", "status=503,times=1", id="line-1"), X_Request_Id="r2")
        await client.post(BODIES["/v1/embeddings"] | {"metadata": {"id": "line-2"}}, "/v1/embeddings")
        arrivals = await client.stub.arrivals()
        assert (arrivals.total, arrivals.distinct, arrivals.uncounted) == (3, 2, 0)
        assert arrivals.arrived == {"line-1": 2, "line-2": 1}
        assert arrivals.answered == {"line-1": 1, "line-2": 1}
        assert [(one.key, one.request_id, one.priority, one.attempt, one.endpoint) for one in arrivals.last] == [
            ("line-1", "r1", 7, 0, CHAT),
            ("line-1", "r2", 0, 1, CHAT),
            ("line-2", None, 0, 0, "/v1/embeddings"),
        ]


async def test_stats_tell_the_highest_concurrency_and_the_connections() -> None:
    async with stub_client(delay="30") as client:
        tasks = [asyncio.create_task(client.post(chat(str(n)))) for n in range(7)]
        await client.stub.wait_in_flight(7)
        stats = await client.stub.stats()
        assert (stats.max_in_flight, stats.connections, stats.open_connections) == (7, 7, 7)
        await client.stub.abort()
        await asyncio.gather(*tasks)
        await client.stub.reset()
        stats = await client.stub.stats()
        assert (stats.total, stats.max_in_flight, stats.in_flight) == (0, 0, 0)


async def test_questions_about_the_server_are_not_counted_as_requests() -> None:
    async with stub_client() as client:
        for path in ("/health", "/v1/models", "/v1/models", "/nothing"):
            await client.get(path)
        stats = await client.stub.stats()
        assert (stats.total, stats.other) == (0, {"/health": 1, "/v1/models": 2, "unknown": 1})
