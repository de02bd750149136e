"""What bodies ask of the real server, and what comes of it in the results."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest
from hack.vllm.serving import VllmServer

from fixtures.worker import JobUnderTest, ids
from vllm.batches.lines import CHAT, COMPLETIONS, bodies, line, lines, texts
from vllm.flags import ADAPTER, FEW_SPACES, MAX_MODEL_LENGTH

pytestmark = pytest.mark.vllm_short


class Reading(msgspec.Struct, forbid_unknown_fields=True):
    """What the guided answers must be, neither more nor less."""

    unit: Literal["celsius", "fahrenheit"]
    exact: bool
    digits: list[Literal[0, 1]]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "exact": {"type": "boolean"},
        "digits": {"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "maxItems": 4},
    },
    "required": ["unit", "exact", "digits"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "report", "parameters": SCHEMA, "strict": True}}
"""Without `strict`, vLLM holds the arguments to JSON alone."""


ONE_BY_ONE = {"maxConcurrency": 1}
"""Of a job whose texts are compared with one another: what a request shares its batch with changes its rounding."""


def results_of(job: JobUnderTest, wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the lines; every one has its result, in the input's order."""
    job = job.input(wanted)
    report = job.complete()
    assert report.request_counts.failed == 0, job.published("errors.jsonl")
    results = job.published("results.jsonl")
    assert ids(results) == ids(wanted)
    return results


def test_every_guided_answer_is_valid(job: JobUnderTest) -> None:
    format_ = {"type": "json_schema", "json_schema": {"name": "reading", "schema": SCHEMA, "strict": True}}
    guided = {"response_format": format_, "max_tokens": 500, **FEW_SPACES}
    answers = texts(results_of(job, [line(f"line-{seed}", seed=seed, **guided) for seed in range(30)]))
    readings = [msgspec.json.decode(text, type=Reading) for text in answers.values()]
    assert len({reading.unit for reading in readings}) == 2, "the model chooses, and not the schema"


def test_a_named_tool_is_called_with_valid_arguments(job: JobUnderTest) -> None:
    choice = {"type": "function", "function": {"name": "report"}}
    called = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 500, **FEW_SPACES}
    results = results_of(job, [line(f"line-{seed}", seed=seed, **called) for seed in range(10)])
    for body in bodies(results).values():
        (call,) = body["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "report"
        msgspec.json.decode(call["function"]["arguments"], type=Reading)


def test_logprobs_come_with_the_answers(job: JobUnderTest) -> None:
    results = results_of(job, lines(6, logprobs=True, top_logprobs=3, max_tokens=5, ignore_eos=True))
    for body in bodies(results).values():
        content = body["choices"][0]["logprobs"]["content"]
        assert len(content) == body["usage"]["completion_tokens"] == 5
        assert all(len(token["top_logprobs"]) == 3 and token["logprob"] <= 0 for token in content)


def test_two_runs_with_seeds_give_the_same_texts(job: JobUnderTest) -> None:
    wanted = [line(f"line-{number}", temperature=1.0, seed=number, max_tokens=12) for number in range(20)]
    job = job.with_spec(requests=ONE_BY_ONE)
    first = texts(results_of(job.with_output(folder="first"), wanted))
    again = texts(results_of(job.with_output(folder="again"), wanted))
    assert again == first


def test_the_same_seed_gives_the_same_text_and_another_one_another(job: JobUnderTest) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    seeds = {"first": 1, "same": 1, "other": 2}
    wanted = [
        line(name, messages=messages, temperature=1.0, seed=seed, max_tokens=12, ignore_eos=True)
        for name, seed in seeds.items()
    ]
    answers = texts(results_of(job.with_spec(requests=ONE_BY_ONE), wanted))
    assert answers["same"] == answers["first"] != answers["other"]


def test_a_line_that_is_too_long_fails_alone(job: JobUnderTest) -> None:
    long = [{"role": "user", "content": "word " * (2 * MAX_MODEL_LENGTH)}]
    wanted = [line("before"), line("long", messages=long), line("after")]
    job = job.with_spec(requests={"retries": 2}).input(wanted)
    report = job.complete()
    assert (report.request_counts.completed, report.request_counts.failed) == (2, 1)
    assert report.error_codes == {"400": 1}
    assert ids(job.published("results.jsonl")) == ["before", "after"]
    (error,) = job.published("errors.jsonl")
    assert f"maximum context length is {MAX_MODEL_LENGTH} tokens" in error["response"]["body"]["error"]["message"]
    assert job.published("retry.jsonl") == [wanted[1]]


def test_each_way_to_stop_is_counted(job: JobUnderTest) -> None:
    wanted = [
        line("cut", max_tokens=3, ignore_eos=True),
        line("at its end", structured_outputs={"choice": ["one two three"]}, max_tokens=64),
        line("at a string", structured_outputs={"choice": ["one two three"]}, stop=["two"], max_tokens=64),
        line("at a token", logit_bias={"300": 100}, stop_token_ids=[300]),
        line("twice", n=2, max_tokens=3, ignore_eos=True),
    ]
    job = job.input(wanted)
    report = job.complete()
    answers = bodies(job.published("results.jsonl"))
    stopped = {name: body["choices"][0]["stop_reason"] for name, body in answers.items()}
    assert stopped == {"cut": None, "at its end": None, "at a string": "two", "at a token": 300, "twice": None}
    assert answers["at a string"]["choices"][0]["message"]["content"] == "one "
    assert report.finish_reasons == {"length": 3, "stop": 3}


def test_cached_tokens_are_summed_up(job: JobUnderTest) -> None:
    prefix = job.folder.name + " word" * 200
    wanted = [line(f"line-{number}", messages=[{"role": "user", "content": prefix}]) for number in range(4)]
    job = job.with_spec(requests={"maxConcurrency": 1}).input(wanted)
    report = job.complete()
    cached = [
        body["usage"]["prompt_tokens_details"]["cached_tokens"]
        for body in bodies(job.published("results.jsonl")).values()
    ]
    assert sorted(cached)[0] == 0, "somebody is the first"
    assert len([count for count in cached if count]) == 3
    assert report.usage.cached_tokens == sum(cached)


def test_an_adapter_is_chosen_by_its_name(job: JobUnderTest) -> None:
    def greedy(model: str) -> dict[str, str]:
        wanted = [line(f"line-{number}", model=model, temperature=0, max_tokens=12) for number in range(6)]
        adapted = job.with_spec(model=model).with_output(folder=model)
        results = results_of(adapted, wanted)
        assert {body["model"] for body in bodies(results).values()} == {model}
        return texts(results)

    assert greedy(ADAPTER) != greedy("tiny")


def test_request_ids_go_through_the_server(job: JobUnderTest, vllm: VllmServer) -> None:
    results = results_of(job, lines(5))
    log = vllm.log.read_text()
    for result in results:
        request_id = result["response"]["request_id"]
        assert result["response"]["body"]["id"] == f"chatcmpl-{request_id}"
        assert request_id in log
    assert len({result["response"]["request_id"] for result in results}) == 5


def test_an_echoed_prompt_comes_back(job: JobUnderTest) -> None:
    wanted = [line(f"line-{n}", COMPLETIONS, prompt=f"Prompt {n}.", echo=True, max_tokens=2) for n in range(3)]
    for name, body in bodies(results_of(job, wanted)).items():
        assert body["choices"][0]["text"].startswith(f"Prompt {name.removeprefix('line-')}.")


def test_a_refusal_is_kept_as_the_server_said_it(job: JobUnderTest) -> None:
    job = job.input([line("bad", max_tokens=-1), line("good")])
    job.complete()
    (error,) = job.published("errors.jsonl")
    assert error["response"]["status_code"] == 400
    assert "max_tokens" in json.dumps(error["response"]["body"])
    assert CHAT in {row["url"] for row in job.published("retry.jsonl")}
